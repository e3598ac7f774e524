"""``--json`` of every ``kms`` command that shows or changes something: one document, and nothing else."""

import json
import re
from collections.abc import Iterator
from typing import Any

import click
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from kms.cli.main import cli
from tests.kms.process import REPOSITORY
from tests.kms.references import ALICE, images
from tests.kms.test_cli import CURRENT, ORIGIN, Documents, Shell, documents, shell
from tests.kms.test_cli_controls import founded
from tests.kms.test_quorum import pem
from tests.pages import page_text

__all__ = ["documents", "shell"]

Document = dict[str, Any]
WITHOUT = {
    "completion": "it prints a script for a shell",
    "context add": "it writes a file of this user, and asks no service",
    "context name": "it writes a file of this user, and asks no service",
    "context remove": "it writes a file of this user, and asks no service",
    "context use": "it writes a file of this user, and asks no service",
    "login": "it waits for a person",
    "logout": "it removes a file of this user",
    "serve": "it runs until it is stopped",
    "key wrap": "what it makes is a file, which is JSON",
    "key import-key": "it prints a signed note, which is compared byte by byte",
    "log checkpoint": "it prints a signed note",
    "log cosign": "it prints a signed note",
    "proposal sign": "it prints a signature, which is JSON",
}
PIN = "mtls:sha256:" + "ab" * 32


def _commands(group: click.Group = cli, path: str = "") -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from _commands(command, f"{path}{name} ")
        else:
            yield f"{path}{name}", command


def test_every_command_that_shows_or_changes_something_takes_json() -> None:
    flags = {path: {text for one in command.params for text in one.opts} for path, command in _commands()}
    assert len(flags) > 60
    assert {path for path, options in flags.items() if "--json" not in options} == set(WITHOUT)


def test_every_action_that_has_details_is_in_the_table_of_the_docs() -> None:
    sources = "\n".join(path.read_text() for path in sorted((REPOSITORY / "kms" / "cli").glob("*.py")))
    told = set(re.findall(r'tell_change\(\s*"([a-z-]+)"', sources))
    told |= {f"key-{verb}" for verb in re.findall(r'_tell\("([a-z]+)"', sources)} | {"key-enable", "key-disable"}
    page = page_text("operations")
    table = page.partition("| `action` | `details` |")[2].partition("\n\n")[0]
    assert set(re.findall(r"`([a-z-]+)`", "\n".join(row.split("|")[1] for row in table.splitlines()[2:]))) == told


def _told(shell: Shell, *arguments: str, schema: str = "kms.change/1") -> Document:
    found: Document = json.loads(shell.with_config(*arguments, "--json")[0])
    assert found["schema"] == schema
    if schema == "kms.change/1":
        assert set(found) == {"schema", "action", "done", "would", "proposal", "details"}
    return found


def _details(shell: Shell, *arguments: str) -> Document:
    found = _told(shell, *arguments)
    assert found["done"]
    assert found["would"] is None
    details: Document = found["details"]
    return details


def test_a_new_service_says_where_it_is_and_who(shell: Shell) -> None:
    made = json.loads(shell.init("--json"))
    assert (made["schema"], made["action"]) == ("kms.change/1", "init")
    assert made["details"]["config"] == str(shell.config)
    assert made["details"]["identity"].startswith(ORIGIN)
    assert made["details"]["database"] in made["done"]
    version = _details(shell, "migrate")
    assert version["before"] == version["after"]


def test_the_life_of_a_key_is_told_to_programs(shell: Shell) -> None:
    shell.init()
    shell.add_key()
    model = {"tenant": "default", "key_id": "model"}
    assert _details(shell, "key", "disable", "model") == {**model, "version": None, "enabled": False}
    assert _details(shell, "key", "enable", "model") == {**model, "version": None, "enabled": True}
    scheduled = _details(shell, "key", "schedule", "model", "--every", "30d")
    assert scheduled["schedule"]["every_seconds"] == 30 * 86400
    assert _details(shell, "key", "schedule", "model", "--off") == {**model, "schedule": None}
    planned = _told(shell, "key", "destroy", "model", "--dry-run")
    assert (planned["done"], planned["details"]["versions"]) == (None, [1])
    assert "version 1 not released" in planned["would"]
    assert _details(shell, "key", "destroy", "model", "--yes")["versions"] == [1]
    assert _details(shell, "key", "restore", "model") == {**model, "versions": [1]}
    due = _told(shell, "key", "destroy", "--due")
    assert (due["done"], due["details"]) == (None, {"destroyed": []})
    lasts = _told(shell, "key", "release-settings", "model", "--lease-seconds", "600", schema="kms.release-settings/1")
    assert (lasts["key_id"], lasts["lease_seconds"]) == ("model", 600)
    assert _told(shell, "key", "release-settings", "model", schema="kms.release-settings/1") == lasts


def test_limits_are_told_to_programs_as_they_are_shown(shell: Shell) -> None:
    shell.init()
    shell.add_key()
    limits = ("key", "limits", "set", "model", "--most-releases", "7/day")
    tried = json.loads(shell.with_config(*limits, "--dry-run", "--json")[0])
    assert _told(shell, *limits)["action"] == "key-limits-set"
    assert json.loads(shell.with_config("key", "limits", "show", "model", "--json")[0]) == tried
    assert tried["used"]["releases"] == {"7/day": 0}


def test_freezes_tenants_and_roles_are_told_to_programs(shell: Shell) -> None:
    shell.init()
    frozen = _details(shell, "freeze", "product", "Milan", "--reason", "x")
    assert frozen == {"scope": "product", "name": "milan", "thaw": "none"}
    assert _details(shell, "tenant", "create", "team-a") == {"tenant": "team-a"}
    granted = _details(shell, "admin", "grant", PIN, "auditor", "--tenant", "team-a")["grant"]
    assert (granted["identity"], granted["role"], granted["tenant"]) == (PIN, "auditor", "team-a")
    revoked = _details(shell, "admin", "revoke", str(granted["number"]))["grant"]
    assert revoked["number"] == granted["number"]
    assert revoked["revoked_at"] is not None


def test_a_document_of_reference_values_that_came_in_is_told_to_programs(shell: Shell, documents: Documents) -> None:
    documents.import_key(images(**CURRENT))
    file, signature, key = documents.write(images(2, **CURRENT), ALICE)
    added = _details(shell, "references", "add", file, "--signature", signature, "--key", key)
    assert (added["document"]["version"], added["new"], added["keys"]) == (2, True, ["model"])
    assert added["blocked"] == {}


def test_proposals_are_told_to_programs(shell: Shell) -> None:
    people = founded(shell)
    shell.with_config("tenant", "create", "team-a")
    made = _told(shell, "quorum", "clear", "quorum", "--propose", "--reason", "x")
    assert (made["done"], made["proposal"]["serial"], made["details"]) == (None, 1, {})
    named = {"serial": 1, "sha256": made["proposal"]["sha256"]}
    document, signature = str(shell.folder / "p.json"), str(shell.folder / "alice.sig")
    people.run("proposal", "show", "1", "--export", document)
    shell.run("proposal", "sign", document, "--key", str(shell.folder / "alice.pem"), "--out", signature)
    approved = _details(shell, "proposal", "approve", signature)
    assert {name: approved[name] for name in named} == named
    assert (approved["signed"], len(approved["missing"])) == (["alice"], 1)
    people.sign(1, "bob")
    assert _details(shell, "proposal", "execute", "1") == {**named, "action": "quorum-set"}
    (shell.folder / "dave.pub").write_bytes(pem(Ed25519PrivateKey.generate()))
    other = _told(shell, "people", "add", "dave", "--key", str(shell.folder / "dave.pub"), "--propose", "--reason", "x")
    withdrawn = _details(shell, "proposal", "withdraw", "2", "--reason", "x")
    assert withdrawn == {"serial": 2, "sha256": other["proposal"]["sha256"]}


def test_key_encryption_keys_are_told_to_programs(shell: Shell) -> None:
    shell.init()
    (shell.folder / "svc" / "keks").mkdir(mode=0o700)
    definition = shell.folder / "svc" / "keks" / "2.toml"
    definition.write_text('backend = "file"\nfile = "../kek-2"\n')
    made = _details(shell, "kek", "create", str(definition))
    assert made["backend"] == "file"
    planned = _told(shell, "kek", "rotate", made["id"], "--dry-run")
    assert (planned["done"], planned["details"]["id"]) == (None, made["id"])
    moved = _details(shell, "kek", "rotate", made["id"])
    assert moved["wrapped"] == planned["details"]["wrapped"] > 0


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("break-glass", "close", "1", "--reason", "x"), 1),
        (("key", "disable", "model"), 1),
        (("releases", "resume", "none", "--reason", "x"), 1),
        (("kek", "retire", "00"), 1),
        (("admin", "revoke", "7"), 1),
        (("tenant", "create", "A"), 2),
    ],
)
def test_a_failure_prints_no_document(shell: Shell, arguments: tuple[str, ...], code: int) -> None:
    shell.init()
    out, err = shell.with_config(*arguments, "--json", code=code)
    assert out == ""
    assert "error: " in err
