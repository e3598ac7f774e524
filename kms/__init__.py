"""Key-release service: challenge, proof, decision, sealed keys, and a log of all of them."""

__distribution__ = "attest-kms"
"""The mark by which the commands know this package from that of the unrelated distribution ``kms``."""
