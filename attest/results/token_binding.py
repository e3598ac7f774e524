"""The key that a machine committed to, as the token of another Verifier shows it.

A nonce of Azure's or Intel's requests is the sender's own choice, and the sender may not be the machine: only what the
report itself commits to counts there. Google's Verifier takes nonces from the machine alone, which the launcher of
Confidential Space measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

from attest.encoding import JsonValue, base64url_text
from attest.results.service_token import VerifiedServiceToken, repeats
from attest.results.token_facts import TokenFacts

RUNTIME_MEMBER = "attest_passport_key"
"""Member of JSON runtime data of Azure's requests, with the digest in base64url."""
_PADDING = bytes(32)
"""The other half of report data, and of the user data that a paravisor holds."""
_REPORTED = frozenset({"sevsnpvm", "tdxvm"})
"""Azure's tokens in which the report commits to ``x-ms-runtime`` at the top. In ``azurevm`` it does not."""


def commits_to(token: VerifiedServiceToken, data: bytes) -> bool:
    """Return True if the machine that a token is about committed to the SHA-256 of this data.

    In Azure's tokens it is the first half of the report data (with the data as ``runtimeData``), the member
    ``RUNTIME_MEMBER`` of JSON runtime data, the first half of a paravisor's ``user-data``, or it, or the data, is an
    enclave's held data. In Intel's it, or the data, is the held data. In Google's it is a nonce, in hex or base64.
    """
    digest = sha256(data).digest()
    if token.frame.service == "google":
        return repeats(token.nonces, digest)
    if token.frame.service == "maa" and _in_runtime_data(token.claims, digest):
        return True
    return any(_committed(one, data, digest, with_report=token.frame.service == "maa") for one in token.facts)


def _in_runtime_data(claims: Mapping[str, JsonValue], digest: bytes) -> bool:
    """Return True if JSON runtime data, to which the report commits, have the digest."""
    runtime = claims.get("x-ms-runtime")
    stated = runtime.get(RUNTIME_MEMBER) if isinstance(runtime, dict) else None
    return claims.get("x-ms-attestation-type") in _REPORTED and stated == base64url_text(digest)


def _committed(facts: TokenFacts, data: bytes, digest: bytes, *, with_report: bool) -> bool:
    if facts.held_data is not None:
        return facts.held_data in (data, digest, digest + _PADDING)
    report_data = facts.report_data if with_report else None
    return report_data == digest + _PADDING
