"""A stored document of reference values, for people and for programs."""

from __future__ import annotations

from datetime import datetime

from attest.encoding import JsonValue, rfc3339_text
from attest.policy import RelaxedDemand
from kms.references.intake import InForce


def in_force_members(one: InForce, *, at: datetime) -> dict[str, JsonValue]:
    """Say which document it is, whether it counts, and for which keys."""
    document = one.document
    end = document.expires.value
    return {
        "name": document.name,
        "version": document.version,
        "sha256": document.digest.hex(),
        "state": str(document.state(at)),
        "issued": rfc3339_text(document.issued),
        "expires": None if isinstance(end, RelaxedDemand) else rfc3339_text(end),
        "signers": [signer.hex() for signer in sorted(document.signers)],
        "keys": list(one.keys),
    }
