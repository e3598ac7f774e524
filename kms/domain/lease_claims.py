"""Stored claims of a release, for appraising its leases later under a stricter policy.

::

    canonical CBOR of
    { "schema": "kms.claims/1",
      "items":  [ { "name": …, "kind": …, "claims": { dotted name: value } }, … ],
      "bound":  whether the CPU's report commits to the other devices }

Names and values are those of the claims registries. The format is CBOR because XFAM and similar claims are 64-bit
numbers and digests are bytes, and JSON would need a convention for both. Claims of one exchange (nonces, report data)
and claims that no policy appraises are left out, so that all renewals of one machine share one record. No claim is
secret.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from attest import VerifiedEvidence
from attest.encoding import CborValue, cbor_bytes, cbor_value
from attest.errors import EvidenceError
from attest.evidence import ClaimTree, StatedClaims, StatedItem
from attest.results import TokenFacts, VerifiedEar
from kms.domain.errors import IntegrityError, damaged
from kms.domain.passports import VerifiedPassport

SCHEMA: Final = "kms.claims/1"
PASSPORT: Final = "ear"
"""Kind of an item that the token of another Verifier describes, and the TEE of leases on an EAR."""
_OF_SERVICE: Final = "-token"
"""End of the TEE of leases on another token: the service that issued it comes before."""
_OF_ONE_EXCHANGE: Final = frozenset({"report_data", "user_data", "nonce", "tpm.extra_data", "tpm.clock"})
_NOT_JUDGED: Final = frozenset({"nvidia", "unknown_claims"})
"""NVIDIA's duplicate claims, and claims that are in no table."""
_PREFIXES: Final = ("snp.", "tdx.")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptClaims:
    """The stored claims of a release; ``bound`` if the CPU's report commits to the other devices."""

    items: tuple[StatedItem, ...]
    bound: bool


def kept_claims(verified: VerifiedEvidence) -> bytes:
    """Encode the stored claims of verified evidence."""
    items: list[CborValue] = [
        {"name": item.name, "kind": item.kind, "claims": dict(_kept(item.format.claims, item.verified))}
        for item in verified.items
    ]
    return cbor_bytes({"schema": SCHEMA, "items": items, "bound": verified.binding is not None})


def passport_tee(verified: VerifiedPassport) -> str:
    """Return the TEE of leases on a passport: ``ear``, or the service of the token, such as ``maa-token``."""
    token = verified.token
    return PASSPORT if isinstance(token, VerifiedEar) else f"{token.frame.service}{_OF_SERVICE}"


def is_passport(tee: str) -> bool:
    """Return whether leases with this TEE are on a passport."""
    return tee == PASSPORT or tee.endswith(_OF_SERVICE)


def passport_claims(verified: VerifiedPassport) -> bytes:
    """Encode the stored claims of a passport: its issuer, and the TCB where the token states it."""
    token = verified.token
    claims: dict[str, CborValue] = {"issuer": verified.issuer}
    if not isinstance(token, VerifiedEar):
        claims |= _stated_tcb(token.facts)
    elif token.ear.details is not None and token.ear.details.tcb:
        states = token.ear.details.tcb
        claims["tcb_status"] = tuple(one.status for one in states)
        claims["advisory_ids"] = tuple(sorted({advisory for one in states for advisory in one.advisories}))
    return cbor_bytes(
        {"schema": SCHEMA, "items": [{"name": PASSPORT, "kind": PASSPORT, "claims": claims}], "bound": False}
    )


def _stated_tcb(facts: Iterable[TokenFacts]) -> Iterator[tuple[str, CborValue]]:
    """Yield the TCB of the TEE, as far as a token states it."""
    for one in facts:
        status, advisories = one.claims.get("tcb_status"), one.claims.get("advisory_ids")
        if isinstance(status, str):
            yield "tcb_status", (status,)
        if isinstance(advisories, tuple):
            yield "advisory_ids", tuple(sorted(str(advisory) for advisory in advisories))


def _kept(claims: tuple[Any, ...], subject: object) -> Iterator[tuple[str, CborValue]]:  # Any: rows of a registry
    for claim in claims:
        plain = next((claim.name.removeprefix(p) for p in _PREFIXES if claim.name.startswith(p)), claim.name)
        if plain in _OF_ONE_EXCHANGE or plain in _NOT_JUDGED:
            continue
        value = claim.get(subject)
        if value is not None:
            yield claim.name, value


def read_claims(content: bytes) -> KeptClaims:
    """Decode the output of ``kept_claims`` or ``passport_claims``.

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


def _item(value: CborValue) -> StatedItem:
    if not isinstance(value, Mapping) or not isinstance(value["claims"], Mapping):
        raise _invalid()
    values = {name: tree for name, one in value["claims"].items() if (tree := _tree(one)) is not None}
    return StatedItem(name=str(value["name"]), kind=str(value["kind"]), verified=StatedClaims(values=values))


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
    problem = "the stored claims of a release cannot be read"
    return damaged(problem, code="lease-claims-invalid", field="lease_claims")
