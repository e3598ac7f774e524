"""Floors at the command line: tried out, set, shown, checked and ended."""

import json

import pytest

from attest.clock import system_clock
from tests.kms.support import Harness, Workload, write_endorsements
from tests.kms.test_cli import Shell, shell
from tests.kms.test_cli_controls import founded

__all__ = ["shell"]


def use(harness: Harness, shell: Shell) -> None:
    """Point the shell's settings to the database of a harness."""
    lines = (
        f'database = "{harness.settings.database}"',
        f'kek_file = "{harness.folder / "kek"}"',
        f'origin = "{harness.settings.origin}"',
    )
    shell.config.parent.mkdir()
    shell.config.write_text("\n".join(lines))


BECAUSE = ("--because", "CVE-2025-0033")


@pytest.fixture
def held(harness: Harness, shell: Shell) -> Shell:
    """A service with one live lease of a guest on Genoa."""
    harness.clock.at = system_clock().replace(microsecond=0)
    write_endorsements(harness.folder, at=harness.clock.at)
    harness.services.endorsements.reload(at=harness.clock.at)
    harness.add_key("model")
    use(harness, shell)
    harness.releases.release(Workload().request(harness.releases.challenge(), "model"))
    return shell


def test_a_floor_is_tried_out_set_and_shown(held: Shell) -> None:
    shell, because = held, BECAUSE
    assert "there is no floor" in shell.with_config("floor", "show")[1]
    out, err = shell.with_config("floor", "set", "Genoa:snp=255,microcode=1", *because, "--dry-run")
    assert "new: genoa:snp=255  at once" in out
    assert "snp" in out.split("policy.snp.minimum_tcb", 1)[1]
    assert "leases that would not be renewed: 1" in err
    trial = json.loads(shell.with_config("floor", "set", "Genoa:snp=255", *because, "--dry-run", "--json")[0])
    assert (trial["action"], trial["done"], len(trial["details"]["not_renewed"])) == ("floor-raise", None, 1)
    assert "no terminal to confirm on" in shell.with_config("floor", "set", "Genoa:snp=255", *because, code=2)[1]
    out, _ = shell.with_config("floor", "set", "Genoa:snp=255,microcode=1", *because, "--yes")
    assert out == "the floor of the service is at version 1\n"
    out, _ = shell.with_config("floor", "set", "genoa:snp=255", *because, "--yes")
    assert out == "the floor of the service is unchanged\n"
    out, _ = shell.with_config("floor", "show")
    assert "*  version 1  genoa:snp=255  at once" in out
    assert "CVE-2025-0033" in out
    listed = json.loads(shell.with_config("floor", "show", "--tenant", "default", "--json")[0])
    assert listed["schema"] == "kms.floors/1"
    assert [(one["scope"], one["version"]) for one in listed["floors"]] == [("*", 1), ("default", 0)]
    assert "floor:          * version 1" in shell.with_config("key", "show", "model")[0]


def test_leases_are_checked_and_a_floor_is_lowered_and_ended(held: Shell) -> None:
    shell, because = held, BECAUSE
    assert "no live lease is below a floor" in shell.with_config("floor", "check")[1]
    shell.with_config("floor", "set", "genoa:snp=255,microcode=1", *because, "--yes")
    out, err = shell.with_config("floor", "check", code=1)
    assert "policy.snp.minimum_tcb" in out
    assert "[leases-below-floor]" in err
    shell.with_config("floor", "set", "genoa:snp=254", *because, "--from", "2999-01-01", "--yes", code=2)
    out, _ = shell.with_config("floor", "set", "genoa:snp=1", *because, "--yes", "--json")
    assert json.loads(out)["action"] == "floor-lower"
    shell.with_config("floor", "set", "genoa:tee=255", *because, "--from", "2999-01-01", "--yes")
    shell.with_config("floor", "check")
    shell.with_config("floor", "check", "--at", "2999-01-01", code=1)
    assert "has no entry for 'milan'" in shell.with_config("floor", "end", "milan", *because, "--yes", code=2)[1]
    shell.with_config("floor", "end", *because, "--yes", code=2)
    shell.with_config("floor", "end", "Genoa:snp=1", *because, "--yes")
    assert "snp=1" not in shell.with_config("floor", "show")[0]
    shell.with_config("floor", "end", "--all", *because, "--yes")
    assert "there is no floor" in shell.with_config("floor", "show")[1]
    assert "floor-changed  * version 1 floor-raise" in shell.with_config("log", "list")[0]
    shell.with_config("fsck")


def test_a_floor_of_a_tenant_and_moments_are_read(shell: Shell) -> None:
    shell.init()
    shell.with_config("tenant", "create", "acme")
    wanted = ("tdx:tcb_status=UpToDate,tcb_date=2025-11-12", "hopper:driver=570.172.08", "--because", "x")
    shell.with_config("floor", "set", *wanted, "--tenant", "acme", "--from", "2999-01-01", "--yes")
    out, _ = shell.with_config("floor", "show")
    assert "acme  version 1  tdx:tcb_date=2025-11-12T00:00:00Z  from 2999-01-01T00:00:00Z  x" in out
    shell.with_config("floor", "end", "tdx:tcb_date=2025-11-12", "--because", "x", "--tenant", "acme", "--yes")
    assert "tcb_date" not in shell.with_config("floor", "show", "--tenant", "acme")[0]
    for wrong, code in (
        ("genoa", "expected PRODUCT:COMPONENT=VALUE"),
        ("genoa:snp", "expected PRODUCT:COMPONENT=VALUE"),
        ("genoa:snp=256", "[floor-invalid]"),
        ("epyc:snp=1", "[floor-invalid]"),
    ):
        assert code in shell.with_config("floor", "set", wrong, "--because", "x", "--yes", code=2)[1]
    assert "[tenant-unknown]" in shell.with_config("floor", "show", "--tenant", "none", code=1)[1]


def test_lowering_a_floor_is_proposed_signed_and_executed(shell: Shell) -> None:
    people = founded(shell)
    because = ("--because", "withdrawn")
    people.run("floor", "set", "genoa:snp=9", *because, "--yes")
    named = ("--person", "alice", "--person", "bob")
    people.run("quorum", "set", "key-policy", "--of", "2", *named, "--propose", "--reason", "x")
    people.sign(1, "alice", "bob")
    people.run("proposal", "execute", "1")
    assert "[quorum-required]" in people.run("floor", "end", "--all", *because, "--yes", code=1)
    people.run("floor", "set", "genoa:snp=10", *because, "--yes")
    made = people.run("floor", "end", "--all", *because, "--propose")
    number = made.split()[1].rstrip(":")
    people.sign(int(number), "alice", "bob")
    people.run("proposal", "execute", number)
    assert "no floor" in shell.with_config("floor", "show")[1]
