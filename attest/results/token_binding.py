"""The key that a machine committed to, as the token of another Verifier shows it.

A nonce of Azure's or Intel's requests is the sender's own choice, and the sender may not be the machine: only what the
report itself commits to counts there. Google's Verifier takes nonces from the machine alone, which the launcher of
Confidential Space measured.
"""

from __future__ import annotations

from hashlib import sha256

from attest.results.service_token import VerifiedServiceToken, repeats
from attest.results.token_facts import TokenFacts

_PADDING = bytes(32)
"""The other half of report data, and of the user data that a paravisor holds."""


def commits_to(token: VerifiedServiceToken, data: bytes) -> bool:
    """Return True if the machine that a token is about committed to the SHA-256 of this data.

    In Azure's tokens it is the first half of the report data (with the data as ``runtimeData``), of a paravisor's
    ``user-data``, or it, or the data, is an enclave's held data. In Intel's it, or the data, is the held data. In
    Google's it is a nonce, in hex or base64.
    """
    digest = sha256(data).digest()
    if token.frame.service == "google":
        return repeats(token.nonces, digest)
    return any(_committed(one, data, digest, with_report=token.frame.service == "maa") for one in token.facts)


def _committed(facts: TokenFacts, data: bytes, digest: bytes, *, with_report: bool) -> bool:
    if facts.held_data is not None:
        return facts.held_data in (data, digest, digest + _PADDING)
    report_data = facts.report_data if with_report else None
    return report_data == digest + _PADDING
