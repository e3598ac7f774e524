"""The life of a key at the command line."""

import json
import re
import time

import pytest
from click.shell_completion import ShellComplete

from attest.errors import ConfigurationError
from kms.cli.main import cli
from kms.domain.durations import duration_text, parse_duration
from tests.kms.test_cli import Shell, shell

__all__ = ["shell"]


@pytest.fixture
def keyed(shell: Shell) -> Shell:
    shell.init()
    shell.add_key()
    return shell


def listed(shell: Shell, *more: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = json.loads(shell.with_config("key", "list", "--json", *more)[0])["keys"]
    return rows


def test_a_key_of_a_tenant_is_made_and_found(keyed: Shell) -> None:
    _, err = keyed.with_config("key", "create", "acme/model", "--policy", str(keyed.policy), code=1)
    assert "[tenant-unknown]" in err
    assert "hint: create it with 'kms tenant create acme'" in err
    assert keyed.with_config("tenant", "create", "acme")[0] == "there is a tenant acme\n"
    assert "[tenant-exists]" in keyed.with_config("tenant", "create", "acme", code=1)[1]
    assert "[tenant-invalid]" in keyed.with_config("tenant", "create", "A", code=2)[1]
    assert keyed.with_config("key", "create", "acme/model", "--policy", str(keyed.policy))[0].startswith("acme/model ")
    found = json.loads(keyed.with_config("tenant", "list", "--json")[0])["tenants"]
    assert [row["tenant"] for row in found] == ["acme", "default"]
    assert keyed.with_config("tenant", "list")[0].startswith("acme  since ")
    assert [(row["tenant"], row["key_id"]) for row in listed(keyed)] == [("acme", "model"), ("default", "model")]
    assert [row["tenant"] for row in listed(keyed, "--tenant", "acme")] == ["acme"]
    log, _ = keyed.with_config("log", "list")
    assert "tenant-created  acme\n" in log
    assert "key-created  acme/model" in log
    assert "[key-id-invalid]" in keyed.with_config("key", "show", "default/model", code=2)[1]


def test_a_key_is_rotated_by_hand(keyed: Shell) -> None:
    out, _ = keyed.with_config("key", "rotate", "model", "--overlap", "1h")
    assert out.startswith("model  version 2  model-key  current  policy ")
    states = [(row["version"], row["state"], row["enabled"]) for row in listed(keyed)]
    assert states == [(1, "overlap", True), (2, "current", True)]
    assert "version 1  model-key  overlap until " in keyed.with_config("key", "list")[0]
    keyed.with_config("key", "rotate", "model", "--from", str(keyed.key), "--overlap", "0s")
    keyed.with_config("key", "disable", "model@2")
    assert [(row["state"], row["enabled"]) for row in listed(keyed)][1] == ("retired", False)
    keyed.with_config("key", "enable", "model@2")
    out, _ = keyed.with_config("key", "show", "model")
    assert "before:         version 1 overlap" in out
    assert "before:         version 2 retired" in out
    for wrong in ((), ("model", "--due"), ("--due", "--overlap", "1h")):
        keyed.with_config("key", "rotate", *wrong, code=2)
    assert "[duration-invalid]" in keyed.with_config("key", "rotate", "model", "--overlap", "soon", code=2)[1]
    assert "[key-unknown]" in keyed.with_config("key", "rotate", "none", code=1)[1]


def test_a_key_is_rotated_by_its_schedule(keyed: Shell) -> None:
    assert "note: nothing is due" in keyed.with_config("key", "rotate", "--due")[1]
    out, _ = keyed.with_config("key", "schedule", "model", "--every", "30d", "--overlap", "2d")
    assert re.fullmatch(r"model is due at \S+Z\n", out)
    assert "rotation:       due " in keyed.with_config("key", "show", "model")[0]
    shown = json.loads(keyed.with_config("key", "show", "model", "--json")[0])
    assert (shown["schedule"]["every_seconds"], shown["schedule"]["overlap_seconds"]) == (2_592_000, 172_800)
    keyed.with_config("key", "schedule", "model", "--every", "1s")
    time.sleep(1.1)
    assert keyed.with_config("key", "rotate", "--due")[0].startswith("model  version 2")
    assert keyed.with_config("key", "schedule", "model", "--off")[0] == "model has no schedule\n"
    assert "[key-state-unchanged]" in keyed.with_config("key", "schedule", "model", "--off", code=1)[1]
    _, err = keyed.with_config("key", "schedule", "model", "--every", "1d", "--overlap", "2d", code=1)
    assert "[schedule-invalid]" in err
    for wrong in ((), ("--every", "1d", "--off"), ("--off", "--overlap", "1d")):
        keyed.with_config("key", "schedule", "model", *wrong, code=2)


def test_a_key_is_destroyed_after_a_delay_and_restored_before(keyed: Shell) -> None:
    out, _ = keyed.with_config("key", "destroy", "model", "--dry-run")
    assert re.match(r"would be: model: version 1 not released from now on, destroyed at \S+Z", out)
    assert [row["state"] for row in listed(keyed)] == ["current"]
    assert "give --yes" in keyed.with_config("key", "destroy", "model", code=2)[1]
    assert (
        "[destroy-delay-too-short]" in keyed.with_config("key", "destroy", "model", "--after", "6d", "--yes", code=1)[1]
    )
    out, err = keyed.with_config("key", "destroy", "model", "--after", "8d", "--yes")
    assert re.match(r"model will be destroyed at \S+Z", out)
    assert "note: until then, 'kms key restore model' undoes this" in err
    assert "destroying until " in keyed.with_config("key", "list")[0]
    assert "note: nothing is due" in keyed.with_config("key", "destroy", "--due")[1]
    assert keyed.with_config("key", "restore", "model")[0] == "model is restored: version 1\n"
    with keyed.config.open("a", encoding="utf-8") as file:
        file.write("destroy_delay_seconds = 0\n")
    keyed.with_config("key", "destroy", "model", "--yes")
    assert keyed.with_config("key", "destroy", "--due")[0] == "model@1 was destroyed\n"
    assert [row["state"] for row in listed(keyed)] == ["destroyed"]
    assert "[key-destroyed]" in keyed.with_config("key", "restore", "model", code=1)[1]
    keyed.with_config("fsck")
    for wrong in ((), ("model", "--due"), ("--due", "--dry-run")):
        keyed.with_config("key", "destroy", *wrong, code=2)


def test_keys_are_tagged_and_found_by_tags(keyed: Shell) -> None:
    assert keyed.with_config("key", "tag", "model", "team=search", "stage=prod")[0] == "stage=prod\nteam=search\n"
    told = json.loads(keyed.with_config("key", "tag", "model", "--remove", "stage", "--json")[0])
    assert told == {"schema": "kms.tags/1", "tenant": "default", "key_id": "model", "tags": {"team": "search"}}
    assert [row["key_id"] for row in listed(keyed, "--tag", "team=search")] == ["model"]
    assert listed(keyed, "--tag", "team=other") == []
    assert "note: there are no such keys" in keyed.with_config("key", "list", "--tag", "team=other")[1]
    assert "tag:            team=search" in keyed.with_config("key", "show", "model")[0]
    keyed.with_config("key", "tag", "model", code=2)
    assert "[tag-invalid]" in keyed.with_config("key", "tag", "model", "team", code=2)[1]


@pytest.mark.parametrize(
    ("text", "seconds"), [("0s", 0), ("45s", 45), ("90m", 5400), ("12h", 43_200), ("3650d", 315_360_000)]
)
def test_lengths_of_time_are_read(text: str, seconds: int) -> None:
    assert parse_duration(text).total_seconds() == seconds
    assert parse_duration(duration_text(parse_duration(text))) == parse_duration(text)


@pytest.mark.parametrize("text", ["", "1", "d", "1w", "-1d", "01d", "1.5h", "3651d", "1d ", "1D", "\u0661d"])
def test_what_is_no_length_of_time_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_duration(text)
    assert caught.value.code == "duration-invalid"


@pytest.mark.parametrize(
    ("begun", "offered"),
    [("", ["native", "kbs", "skr"]), ("k", ["kbs"]), ("native,", ["native,kbs", "native,skr"]), ("native,x", [])],
)
def test_a_shell_completes_the_protocols_of_a_key(begun: str, offered: list[str]) -> None:
    found = ShellComplete(cli, {}, "kms", "X").get_completions(["key", "release-settings", "k", "--via"], begun)
    assert [one.value for one in found] == offered
