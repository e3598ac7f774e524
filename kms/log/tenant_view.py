"""Tenant view of the log: the part of an entry that one tenant's auditor may read. A pure allow-list.

An entry that concerns the tenant alone is shown unchanged. An entry that also names other tenants' objects is left out,
or reduced to the members known to be the tenant's and marked ``redacted``. The digest of the challenge's nonce is then
left out as well, because the public hashes of entries would otherwise allow guessing the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from attest.encoding import JsonValue
from attest.errors import AttestError
from attest.release import KeyReference

Document: TypeAlias = Mapping[str, JsonValue]

_HEAD: Final = ("schema", "seq", "time", "kind")
_OF_DECISION: Final = (
    *_HEAD,
    "at",
    "evidence_sha384",
    "recipient_sha256",
    "outcome",
    "simulated",
    "allow_simulated",
)
_OF_RELAXATION: Final = (*_HEAD, "break_glass", "number", "tenant", "key_id", "until")
_OF_ONE_KEY_OR_TENANT: Final = (
    *("tenant-created", "grant-added", "grant-revoked", "key-created", "key-imported", "key-rotated", "key-enabled"),
    *("key-disabled", "key-tagged", "key-schedule-set", "key-schedule-removed", "key-destruction-scheduled"),
    *("key-destruction-cancelled", "key-destroyed", "key-release-set", "key-policy-changed", "key-limits-changed"),
    *("prompt-key-published", "alias-added", "alias-removed", "vault-key-set"),
)
_TEXT_HIDDEN: Final = frozenset({"lease-stopped", "lease-unknown"})
"""Reasons against a release whose text is hidden: it quotes an operator's reason for stopping several keys, or the id
of a lease of another key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owners:
    """Owners of the objects that an entry names only by id or number.

    Attributes:
        leases: for ids of leases, the tenant of each that is known.
        relaxation: the tenant of the key for which break-glass of this number was opened, or None.
        proposal: the only tenant that the proposal of this digest concerns, or None.
    """

    leases: Callable[[tuple[str, ...]], Mapping[str, str]]
    relaxation: Callable[[int], str | None]
    proposal: Callable[[str], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantEntry:
    """The visible members of an entry; ``redacted`` if others are left out."""

    document: Document
    redacted: bool


_Rule: TypeAlias = Callable[[Document, str, Owners], TenantEntry | None]


def seen_by(document: Document, *, tenant: str, owners: Owners) -> TenantEntry | None:
    """Return the view of an entry for an auditor of this tenant, or None if it is hidden."""
    kind = document.get("kind")
    rule = RULES.get(kind) if isinstance(kind, str) else None
    return None if rule is None else rule(document, tenant, owners)


def tenant_of_reference(text: JsonValue) -> str | None:
    """Return the tenant of a requested key; None if it is not a key."""
    try:
        return KeyReference.parse(text).name.tenant if isinstance(text, str) else None
    except AttestError:
        return None


def tenant_of_scope(scope: JsonValue, name: JsonValue) -> str | None:
    """Return the one tenant whose releases a freeze stops; None for those of several."""
    if scope == "key":
        return tenant_of_reference(name)
    return name if scope == "tenant" and isinstance(name, str) else None


# -- entries that concern one tenant, by their members


def _whole(document: Document, *, concerns: bool) -> TenantEntry | None:
    return TenantEntry(document=document, redacted=False) if concerns else None


def _named(document: Document, tenant: str, owners: Owners) -> TenantEntry | None:
    """Show entries about a key of the tenant, a role in it, or the tenant itself."""
    del owners
    return _whole(document, concerns=document.get("tenant") == tenant)


def _freeze(document: Document, tenant: str, owners: Owners) -> TenantEntry | None:
    """Hide a freeze of a product or of everything: it and its reason concern all tenants."""
    del owners
    return _whole(document, concerns=tenant_of_scope(document.get("scope"), document.get("name")) == tenant)


def _floor(document: Document, tenant: str, owners: Owners) -> TenantEntry | None:
    """Hide the floor of the service: it concerns all tenants. ``GET /v1/floors`` shows it."""
    del owners
    return _whole(document, concerns=document.get("scope") == tenant)


def _references(document: Document, tenant: str, owners: Owners) -> TenantEntry | None:
    """Show a document that is in force for the tenant's keys alone."""
    del owners
    held, blocked = document.get("in_force_for"), document.get("blocked")
    if not isinstance(held, list) or not isinstance(blocked, list) or not held:
        return None
    return _whole(document, concerns={tenant_of_reference(one) for one in (*held, *blocked)} == {tenant})


def _proposal(document: Document, tenant: str, owners: Owners) -> TenantEntry | None:
    digest = document.get("proposal")
    return _whole(document, concerns=isinstance(digest, str) and owners.proposal(digest) == tenant)


def _relaxation(document: Document, tenant: str, owners: Owners) -> TenantEntry | None:
    """Show every relaxation for a key of the tenant, without the freeze that it lifts if that concerns others."""
    del owners
    if document.get("tenant") != tenant:
        return None
    lifts = document.get("lifts")
    if lifts is None or (isinstance(lifts, dict) and _may_be_lifted(lifts, tenant)):
        return _whole(document, concerns=True)
    return _only(document, _OF_RELAXATION)


def _relaxation_closed(document: Document, tenant: str, owners: Owners) -> TenantEntry | None:
    number = document.get("number")
    return _whole(document, concerns=isinstance(number, int) and owners.relaxation(number) == tenant)


def _may_be_lifted(lifts: Document, tenant: str) -> bool:
    scope, name = lifts.get("scope"), lifts.get("name")
    return scope in {"product", "all"} or tenant_of_scope(scope, name) == tenant


# -- entries that can concern several tenants


def _only(document: Document, names: Iterable[str], **more: JsonValue) -> TenantEntry:
    return TenantEntry(document={name: document[name] for name in names if name in document} | more, redacted=True)


def _leases(document: Document, tenant: str, owners: Owners) -> TenantEntry | None:
    """Show only the leases of the tenant's keys, and the reason only if there are no others."""
    found = document.get("leases")
    if not isinstance(found, list):
        return None
    ids = [one for one in found if isinstance(one, str)]
    owner_of = owners.leases(tuple(ids))
    own: list[JsonValue] = [one for one in ids if owner_of.get(one) == tenant]
    if not own:
        return None
    return _whole(document, concerns=True) if len(own) == len(found) else _only(document, _HEAD, leases=own)


def _decision(document: Document, tenant: str, owners: Owners) -> TenantEntry | None:
    """Show a decision on the tenant's keys alone; otherwise its members that concern the tenant's keys."""
    del owners
    requested = document.get("requested")
    if not isinstance(requested, list):
        return None
    own: list[JsonValue] = [one for one in requested if tenant_of_reference(one) == tenant]
    if not own:
        return None
    if len(own) == len(requested) and _is_of(document, tenant):
        return _whole(document, concerns=True)
    keys = [row for row in _rows(document, "keys") if row.get("tenant") == tenant]
    reasons = [shown for row in _rows(document, "reasons") if (shown := _reason(row, tenant)) is not None]
    opened = [_opened(row, tenant) for row in _rows(document, "break_glass_open") if _is_for(row, tenant)]
    relaxed: dict[str, JsonValue] = {"break_glass": True, "break_glass_open": [*opened]} if opened else {}
    return _only(document, _OF_DECISION, requested=own, keys=[*map(dict, keys)], reasons=[*reasons], **relaxed)


def _is_of(document: Document, tenant: str) -> bool:
    """Return True if every member of a decision on the tenant's keys is about these."""
    return (
        all(row.get("tenant") == tenant for row in _rows(document, "keys"))
        and all(
            row.get("code") not in _TEXT_HIDDEN
            and (row.get("key_id") is None or tenant_of_reference(row.get("key_id")) == tenant)
            for row in _rows(document, "reasons")
        )
        and all(
            _is_for(row, tenant) and _is_shown(row.get("relaxation"), tenant)
            for row in _rows(document, "break_glass_open")
        )
    )


def _reason(row: Document, tenant: str) -> dict[str, JsonValue] | None:
    """Show only the code of a reason against the whole request: its text could name anything."""
    code, key_id = row.get("code"), row.get("key_id")
    if key_id is None:
        return {"code": code, "key_id": None, "text": None}
    if tenant_of_reference(key_id) != tenant:
        return None
    return {"code": code, "key_id": key_id, "text": None if code in _TEXT_HIDDEN else row.get("text")}


def _is_for(row: Document, tenant: str) -> bool:
    return tenant_of_reference(row.get("key")) == tenant


def _opened(row: Document, tenant: str) -> dict[str, JsonValue]:
    relaxation = row.get("relaxation")
    shown = relaxation if _is_shown(relaxation, tenant) else None
    return {"key": row.get("key"), "number": row.get("number"), "until": row.get("until"), "relaxation": shown}


def _is_shown(relaxation: JsonValue, tenant: str) -> bool:
    """Return True if a relaxation, as ``kms.domain.break_glass`` writes it, names no other tenant."""
    if not isinstance(relaxation, str):
        return False
    verb, _, what = relaxation.partition(" ")
    scope, _, name = what.partition(" ")
    return verb == "policy" or (verb == "thaw" and _may_be_lifted({"scope": scope, "name": name}, tenant))


def _rows(document: Document, name: str) -> list[dict[str, JsonValue]]:
    """Return the objects in a list; none if the member is no list, such as the digest of one that was too long."""
    rows = document.get(name)
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


RULES: Final[Mapping[str, _Rule]] = {
    "decision": _decision,
    **dict.fromkeys(_OF_ONE_KEY_OR_TENANT, _named),
    "frozen": _freeze,
    "thawed": _freeze,
    "floor-changed": _floor,
    "break-glass-opened": _relaxation,
    "break-glass-closed": _relaxation_closed,
    "renewals-stopped": _leases,
    "renewals-resumed": _leases,
    "references-added": _references,
    "proposal-created": _proposal,
    "proposal-approved": _proposal,
    "proposal-withdrawn": _proposal,
    "proposal-executed": _proposal,
}
"""Views by kind of entry. Entries of other kinds are hidden."""
