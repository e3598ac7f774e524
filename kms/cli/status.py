"""``kms status``: who holds which key and until when, and everything that now restricts or relaxes releases."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final

import click

from attest.terminal import ExampleCommand
from kms.cli.administration import AdminClient, administering
from kms.cli.options import AS_JSON, JsonObject, moment, print_json, wants_json, with_name
from kms.cli.releases import found_leases

if TYPE_CHECKING:
    from rich.console import RenderableType

_WIDTH: Final = 20
"""Characters of the timeline."""
_LIVE: Final[JsonObject] = {"everything": False, "stopped": False, "after": None, "chip": None}
_SHOWN_CHIP: Final = 16


@click.command(
    cls=ExampleCommand,
    examples=("kms status --config kms.toml", "kms status --json --server https://kms.example:8751"),
)
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="Maximum leases to show.")
@administering(AS_JSON)
def status(service: AdminClient, *, limit: int) -> None:
    """Show the state of the service on one page.

    It lists the holders of keys with a timeline of their leases, freezes, floors, open relaxations, proposals that wait
    for signatures, keys with a planned change, and documents of reference values with their end. A part for which you
    have no role is named as such. For the endorsements of the vendors, see 'kms endorsements status'.
    """
    from attest.encoding import rfc3339_text
    from kms.domain.errors import ForbiddenError

    at = moment()
    document: JsonObject = {"schema": "kms.status/1", "at": rfc3339_text(at), "not_permitted": []}
    for name, ask in _parts(service, limit).items():
        try:
            document |= ask()
        except ForbiddenError:
            document["not_permitted"].append(name)
    if wants_json():
        print_json(document)
    else:
        _show(document, at)


def _parts(service: AdminClient, limit: int) -> Mapping[str, Callable[[], JsonObject]]:
    """Return the request of each part."""

    def holders() -> JsonObject:
        leases, mark = found_leases(service, dict(_LIVE), limit)
        return {"leases": leases, "more_leases": mark is not None}

    def in_state(found: list[JsonObject], state: str) -> list[JsonObject]:
        return [one for one in found if one["state"] == state]

    return {
        "leases": holders,
        "freezes": lambda: {"freezes": service.get("/v1/freezes")["freezes"]},
        "floors": lambda: {"floors": [one for one in service.get("/v1/floors")["floors"] if one["entries"]]},
        "relaxations": lambda: {"relaxations": in_state(service.get("/v1/break-glass")["break_glass"], "OPEN")},
        "proposals": lambda: {"proposals": in_state(service.get("/v1/proposals")["proposals"], "open")},
        "keys": lambda: {"planned": [one for one in service.get("/v1/keys")["keys"] if _planned(one)]},
        "references": lambda: {"references": service.get("/v1/references")["references"]},
    }


def _planned(key: JsonObject) -> bool:
    return key["destroy_at"] is not None or key["overlap_until"] is not None or not key["enabled"]


# -- the page


def _show(document: JsonObject, at: datetime) -> None:
    from attest.terminal import Display, facts, plain, text_console

    out = text_console(Display())
    out.print(plain(f"at {document['at']}", "dim"))
    for title, rows in _sections(document, at):
        out.print()
        out.print(plain(title, "bold"))
        out.print(facts(rows) if rows else plain("  none", "dim"))
    for name in document["not_permitted"]:
        out.print()
        out.print(plain(f"{name}: your roles do not permit this part", "yellow"))


def _sections(document: JsonObject, at: datetime) -> Iterator[tuple[str, list[tuple[str, RenderableType]]]]:
    from attest.terminal import plain

    if "leases" in document:
        more = ", and more: --limit" if document["more_leases"] else ""
        yield f"holders until ({len(document['leases'])} live leases{more})", list(_timeline(document["leases"], at))
    for name, (title, row) in _ROWS.items():
        if name in document:
            yield title, [(left, plain(right)) for left, right in map(row, document[name])]


def _timeline(leases: list[JsonObject], at: datetime) -> Iterator[tuple[str, RenderableType]]:
    """Yield a line for each lease, with a bar from its release to its end on one scale for all."""
    from attest.encoding import rfc3339
    from attest.terminal import plain

    spans = [tuple(rfc3339(one[end], what=end) for end in ("released_at", "expires_at")) for one in leases]
    first = min((begins for begins, _ in spans), default=at)
    last = max((ends for _, ends in spans), default=at)
    for one, (begins, ends) in zip(leases, spans, strict=True):
        chip = str(one["chip"] or one["tee"])[:_SHOWN_CHIP]
        state = "" if one["state"] == "live" else f"  {one['state']}"
        yield (
            f"{one['key']}@{one['version']}",
            plain(f"{bar(begins, ends, at, first, last)}  {one['expires_at']}  {chip}{state}"),
        )


def bar(begins: datetime, ends: datetime, at: datetime, first: datetime, last: datetime) -> str:
    """Return the span of a lease on the scale from ``first`` to ``last``: ``=`` is past, ``-`` still to come."""
    whole = (last - first).total_seconds() or 1.0

    def cell(moment: datetime) -> int:
        return round((moment - first).total_seconds() / whole * _WIDTH)

    past = max(0, min(cell(at), cell(ends)) - cell(begins))
    ahead = cell(ends) - cell(begins) - past
    return f"[{' ' * cell(begins)}{'=' * past}{'-' * ahead}".ljust(_WIDTH + 1) + "]"


def _freeze(one: JsonObject) -> tuple[str, str]:
    by = with_name(one["actor"]["name"])
    return f"{one['scope']} {one['name']}".rstrip(), f"since {one['frozen_at']} by {by}: {one['reason']}"


def _floor(document: JsonObject) -> tuple[str, str]:
    entries = "; ".join("{product} {component} {value}: {because}".format(**one) for one in document["entries"])
    scope = "service" if document["scope"] == "*" else f"tenant {document['scope']}"
    return scope, f"version {document['version']}: {entries}"


def _relaxation(one: JsonObject) -> tuple[str, str]:
    return f"break-glass {one['number']}", f"{one['tenant']}/{one['key_id']} until {one['until']}: {one['reason']}"


def _proposal(one: JsonObject) -> tuple[str, str]:
    document = one["document"]
    missing = "; ".join(one["missing"]) or "ready to execute"
    return f"proposal {document['serial']}", f"{document['action']}: {document['reason']} ({missing})"


def _key(one: JsonObject) -> tuple[str, str]:
    ends = {"destroyed": one["destroy_at"], "overlap ends": one["overlap_until"]}
    words = [] if one["enabled"] else ["disabled"]
    return (
        f"{one['tenant']}/{one['key_id']}@{one['version']}",
        ", ".join([*words, *(f"{what} at {when}" for what, when in ends.items() if when is not None)]),
    )


def _reference(one: JsonObject) -> tuple[str, str]:
    return f"{one['name']} version {one['version']}", f"{one['state']}, until {one['expires'] or 'no end'}"


_ROWS: Final[Mapping[str, tuple[str, Callable[[JsonObject], tuple[str, str]]]]] = {
    "freezes": ("freezes", _freeze),
    "floors": ("floors", _floor),
    "relaxations": ("open relaxations", _relaxation),
    "proposals": ("open proposals", _proposal),
    "planned": ("keys that change", _key),
    "references": ("reference values", _reference),
}
"""Members of the document after the leases: title, and name and text of a row."""
