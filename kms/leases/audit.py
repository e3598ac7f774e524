"""Audit of the stored claims of leases."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256

from attest.errors import AttestError
from kms.domain.lease_claims import read_claims
from kms.store import ReadTransaction


def claims_problems(tx: ReadTransaction) -> Iterator[str]:
    """Yield a line for all claims that differ from their digest or cannot be read."""
    for digest in tx.leases.claims_digests():
        content = tx.leases.claims(digest) or b""
        if sha256(content).digest() != digest:
            yield f"the claims {digest.hex()} are not what their digest says [lease-claims-invalid]"
            continue
        try:
            read_claims(content)
        except AttestError as exc:
            yield f"{exc.message} [{exc.code}]"
