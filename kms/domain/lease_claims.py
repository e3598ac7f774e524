"""What is kept of the claims of a release, so that a stricter policy can judge later who holds what.

::

    canonical CBOR of
    { "schema": "kms.claims/1",
      "items":  [ { "name": …, "kind": …, "claims": { dotted name: value } }, … ],
      "bound":  whether the CPU's report commits to the other devices }

Names and values are those of the claims registries. CBOR, because XFAM and its like are numbers of 64 bits and digests
are bytes, and JSON would need a convention for either. What belongs to one exchange (nonces, report data) or is not for
a policy is left out: so all renewals of one machine share one record. No claim is a secret.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from attest import VerifiedEvidence
from attest.encoding import CborValue, cbor_bytes, cbor_value
from attest.errors import EvidenceError
from attest.evidence.claims import ClaimTree
from kms.domain.errors import IntegrityError
from kms.domain.passports import VerifiedPassport

__all__ = ["PASSPORT", "SCHEMA", "KeptClaims", "KeptItem", "Values", "kept_claims", "passport_claims", "read_claims"]

SCHEMA: Final = "kms.claims/1"
PASSPORT: Final = "ear"
"""Kind of what proved itself by a Verifier's word."""
_OF_ONE_EXCHANGE: Final = frozenset({"report_data", "user_data", "nonce", "tpm.extra_data", "tpm.clock"})
_NOT_JUDGED: Final = frozenset({"nvidia", "unknown_claims"})
"""What other words NVIDIA's service has for the same, and what no table knows."""
_PREFIXES: Final = ("snp.", "tdx.")

Values: TypeAlias = Mapping[str, ClaimTree]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptItem:
    """One TEE or device.

    Attributes:
        name: its name in the evidence (``cpu``).
        kind: its kind (``sev-snp``).
        values: its claims by dotted name.
    """

    name: str
    kind: str
    values: Values


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptClaims:
    """All of a release.

    Attributes:
        items: the TEE and its devices.
        bound: whether the CPU's report commits to the other devices.
    """

    items: tuple[KeptItem, ...]
    bound: bool


def kept_claims(verified: VerifiedEvidence) -> bytes:
    """Write the claims of verified evidence that are kept."""
    items: list[CborValue] = [
        {"name": item.name, "kind": item.kind, "claims": dict(_kept(item.format.claims, item.verified))}
        for item in verified.items
    ]
    return cbor_bytes({"schema": SCHEMA, "items": items, "bound": verified.binding is not None})


def passport_claims(verified: VerifiedPassport) -> bytes:
    """Write what a passport says that is kept: whose word it is, and the TCB where the Verifier tells it."""
    details = verified.token.ear.details
    states = () if details is None else details.tcb
    claims: dict[str, CborValue] = {"issuer": verified.token.issuer}
    if states:
        claims["tcb_status"] = tuple(one.status for one in states)
        claims["advisory_ids"] = tuple(sorted({advisory for one in states for advisory in one.advisories}))
    return cbor_bytes(
        {"schema": SCHEMA, "items": [{"name": PASSPORT, "kind": PASSPORT, "claims": claims}], "bound": False}
    )


def _kept(claims: tuple[Any, ...], subject: object) -> Iterator[tuple[str, CborValue]]:  # Any: rows of a registry
    for claim in claims:
        plain = next((claim.name.removeprefix(p) for p in _PREFIXES if claim.name.startswith(p)), claim.name)
        if plain in _OF_ONE_EXCHANGE or plain in _NOT_JUDGED:
            continue
        value = claim.get(subject)
        if value is not None:
            yield claim.name, value


def read_claims(content: bytes) -> KeptClaims:
    """Read what ``kept_claims`` wrote.

    Raises:
        IntegrityError: ``lease-claims-invalid``.
    """
    try:
        document = cbor_value(content, what="claims")
        if not isinstance(document, Mapping) or document.get("schema") != SCHEMA:
            raise _invalid()
        return KeptClaims(items=tuple(map(_item, _list(document["items"]))), bound=document["bound"] is True)
    except (EvidenceError, KeyError) as exc:
        raise _invalid() from exc


def _item(value: CborValue) -> KeptItem:
    if not isinstance(value, Mapping) or not isinstance(value["claims"], Mapping):
        raise _invalid()
    values = {name: tree for name, one in value["claims"].items() if (tree := _tree(one)) is not None}
    return KeptItem(name=str(value["name"]), kind=str(value["kind"]), values=values)


def _tree(value: CborValue) -> ClaimTree | None:
    if isinstance(value, list | tuple):
        return tuple(tree for one in value if (tree := _tree(one)) is not None)
    if isinstance(value, Mapping):
        return {name: tree for name, one in value.items() if (tree := _tree(one)) is not None}
    return value


def _list(value: CborValue) -> list[CborValue]:
    if not isinstance(value, list | tuple):
        raise _invalid()
    return list(value)


def _invalid() -> IntegrityError:
    return IntegrityError(
        "the stored claims of a release cannot be read",
        code="lease-claims-invalid",
        field="lease_claims",
        hint="the database was altered or damaged; restore it from a backup",
    )
