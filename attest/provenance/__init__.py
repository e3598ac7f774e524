"""Provenance of documents, in Sigstore's bundles: the builder, the sources, and the entry of a public log.

Sigstore's own library verifies, so this stands beside the pure core. Nothing is fetched.
"""

from __future__ import annotations

from attest.provenance.bundle import LogEntry, VerifiedProvenance, verify_provenance
from attest.provenance.forms import MAX_BUNDLE_BYTES, MAX_TRUSTED_ROOT_BYTES
from attest.provenance.statement import Provenance, parse_statement

__all__ = [
    "MAX_BUNDLE_BYTES",
    "MAX_TRUSTED_ROOT_BYTES",
    "LogEntry",
    "Provenance",
    "VerifiedProvenance",
    "parse_statement",
    "verify_provenance",
]
