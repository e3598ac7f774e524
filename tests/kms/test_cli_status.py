"""`kms status`: the state of a service on one page."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kms.cli.status import bar
from kms.domain.errors import ForbiddenError
from tests.kms.test_cli import Shell, shell

__all__ = ["shell"]

START = datetime(2026, 6, 1, tzinfo=UTC)
PARTS = ("leases", "freezes", "floors", "relaxations", "proposals", "planned", "references")


def status(shell: Shell) -> dict[str, object]:
    document: dict[str, object] = json.loads(shell.with_config("status", "--json")[0])
    return document


def test_an_empty_service_has_nothing_in_any_part(shell: Shell) -> None:
    shell.init()
    document = status(shell)
    assert (document["schema"], document["not_permitted"]) == ("kms.status/1", [])
    assert {name: document[name] for name in PARTS} == {name: [] for name in PARTS}
    out, _ = shell.with_config("status")
    assert out.count("  none\n") == len(PARTS)


def test_what_restricts_releases_is_on_the_page(shell: Shell) -> None:
    shell.init()
    shell.add_key()
    shell.with_config("freeze", "key", "model", "--reason", "incident 4711")
    shell.with_config("floor", "set", "Genoa:snp=200", "--because", "a test", "--yes")
    shell.with_config("key", "destroy", "model", "--yes")
    out, _ = shell.with_config("status")
    assert "key model  since 20" in out
    assert "incident 4711" in out
    assert "snp 200: a test" in out
    assert "destroyed at 20" in out


def test_a_part_that_your_roles_do_not_permit_is_named(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell.init()

    def refused(*_: object) -> None:
        raise ForbiddenError("no", code="forbidden")

    monkeypatch.setattr("kms.cli.status.found_leases", refused)
    document = status(shell)
    assert (document["not_permitted"], "leases" in document, document["freezes"]) == (["leases"], False, [])
    assert "leases: your roles do not permit this part" in shell.with_config("status")[0]


LEASE = {
    "key": "model",
    "version": 1,
    "chip": "amd:" + "ab" * 64,
    "tee": "sev-snp",
    "state": "live",
    "released_at": "2026-06-01T00:00:00Z",
    "expires_at": "2026-06-01T01:00:00Z",
}


def test_each_lease_has_its_key_its_end_its_chip_and_a_bar(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell.init()
    stopped = {**LEASE, "state": "stopped", "chip": None, "released_at": "2026-06-01T00:30:00Z"}
    monkeypatch.setattr("kms.cli.status.found_leases", lambda *_: ([LEASE, stopped], "9:x"))
    lines = shell.with_config("status")[0].splitlines()
    at = lines.index("holders until (2 live leases, and more: --limit)")
    first, second = (" ".join(line.split()) for line in lines[at + 1 : at + 3])
    assert first == f"model@1 [{'=' * 20}] 2026-06-01T01:00:00Z amd:abababababab"
    assert second == f"model@1 [ {'=' * 10}] 2026-06-01T01:00:00Z sev-snp stopped"


MOMENTS = st.integers(0, 86_400).map(lambda seconds: START + timedelta(seconds=seconds))


@given(MOMENTS, MOMENTS, MOMENTS)
def test_a_bar_has_one_width_and_lies_within_its_scale(one: datetime, other: datetime, at: datetime) -> None:
    begins, ends = sorted((one, other))
    drawn = bar(begins, ends, at, START, START + timedelta(days=1))
    assert (len(drawn), drawn[0], drawn[-1]) == (22, "[", "]")
    assert drawn[1:-1].strip(" ").strip("=").strip("-") == ""


def test_a_bar_shows_what_is_past_and_what_is_to_come() -> None:
    hour = timedelta(hours=1)
    assert bar(START, START + 24 * hour, START + 6 * hour, START, START + 24 * hour) == "[" + "=" * 5 + "-" * 15 + "]"
    assert bar(START + 12 * hour, START + 24 * hour, START, START, START + 24 * hour) == "[" + " " * 10 + "-" * 10 + "]"
    assert bar(START, START, START, START, START) == "[" + " " * 20 + "]"
