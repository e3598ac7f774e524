"""Freezing and thawing at the command line."""

import json
from datetime import timedelta

from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from attest.clock import system_clock
from attest.encoding import rfc3339_text
from tests.kms.support import AT, Workload, policy_text, write_endorsements
from tests.kms.test_cli import Shell, shell
from tests.kms.test_leases import CHALLENGE
from tests.kms.test_quorum import KEYS, pem

__all__ = ["shell"]


def test_freezing_takes_one_command_and_thawing_more(shell: Shell) -> None:
    shell.init()
    shell.add_key()
    assert "nothing is frozen" in shell.with_config("freeze", "list")[1]
    out, err = shell.with_config("freeze", "key", "model", "--reason", "incident 4711")
    assert out == "key model is frozen\n"
    assert "already hold a key keep it" in err
    shell.with_config("freeze", "tenant", "default", "--reason", "x")
    shell.with_config("freeze", "product", "Milan", "--reason", "x")
    shell.with_config("freeze", "all", "--reason", "x")
    listed = json.loads(shell.with_config("freeze", "list", "--json")[0])
    assert listed["schema"] == "kms.freezes/1"
    names = [(one["scope"], one["name"]) for one in listed["freezes"]]
    assert names == [("all", ""), ("key", "model"), ("product", "milan"), ("tenant", "default")]
    assert "key model  since 20" in shell.with_config("freeze", "list")[0]
    assert "incident 4711" in shell.with_config("freeze", "list")[0]
    for more in ((), ("--propose",)):  # nobody could sign what is proposed while there is no rule
        _, err = shell.with_config("thaw", "all", "--reason", "x", *more, code=1)
        assert "[quorum-required]" in err
        assert "hint: rules cannot be set during a freeze." in err
        assert "lift the freeze under allow_thaw_by_one = true" in err
    assert json.loads(shell.with_config("freeze", "list", "--json")[0])["thaw"] == "none"
    shell.config.write_text(shell.config.read_text() + "\nallow_thaw_by_one = true\n")
    assert json.loads(shell.with_config("freeze", "list", "--json")[0])["thaw"] == "one"
    done = json.loads(shell.with_config("thaw", "all", "--reason", "x", "--json")[0])
    assert (done["schema"], done["proposal"]) == ("kms.change/1", None)
    assert "no longer frozen" in done["done"]
    assert "[not-frozen]" in shell.with_config("thaw", "all", "--reason", "x", code=1)[1]
    shell.with_config("freeze", "key", "none", "--reason", "x", code=1)
    assert "[freeze-target-invalid]" in shell.with_config("freeze", "product", "milann", "--reason", "x", code=2)[1]
    shell.with_config("freeze", "key", "model", code=2)
    shell.with_config("log", "verify")
    shell.with_config("fsck")


def test_a_freeze_says_before_it_acts_who_can_end_it(shell: Shell) -> None:
    shell.init()
    shell.add_key()
    wanted = ("freeze", "key", "model", "--reason", "x")
    out, err = shell.with_config(*wanted, "--dry-run")
    assert out == "key model would be frozen\n"
    assert "warning: at present no one can lift this freeze" in err
    assert "allow_thaw_by_one" in err
    assert "kms quorum set thaw" in err
    told = json.loads(shell.with_config(*wanted, "--dry-run", "--json")[0])
    assert (told["done"], told["details"]["thaw"]) == (None, "none")
    assert "nothing is frozen" in shell.with_config("freeze", "list")[1]
    assert "[key-unknown]" in shell.with_config("freeze", "key", "none", "--reason", "x", "--dry-run", code=1)[1]
    code, _, err = shell.tried(*wanted, "--config", str(shell.config), stdin=b"n\n", terminal=True)
    assert (code, "Freeze key model?" in err) == (1, True)
    assert "nothing is frozen" in shell.with_config("freeze", "list")[1]
    code, _, err = shell.tried(*wanted, "--yes", "--config", str(shell.config), terminal=True)
    assert (code, "no one can lift this freeze" in err, "Freeze key model?" in err) == (0, True, False)
    shell.config.write_text(shell.config.read_text() + "\nallow_thaw_by_one = true\n")
    assert "note: one person can lift this freeze" in shell.with_config("freeze", "all", "--reason", "x")[1]
    for what in (("key", "model"), ("all",)):
        shell.with_config("thaw", *what, "--reason", "x")
    entries = [json.loads(line)["entry"] for line in shell.with_config("log", "list", "--json")[0].splitlines()]
    assert [entry["by_one"] for entry in entries if entry["kind"] == "thawed"] == [True, True]
    assert "nothing is frozen" in shell.with_config("freeze", "list")[1]
    shell.with_config("fsck")


class People:
    """Three people with keys in files."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        for name in ("alice", "bob", "carol"):
            key = KEYS[name]
            secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            (shell.folder / f"{name}.pem").write_bytes(secret)
            (shell.folder / f"{name}.pem").chmod(0o600)
            (shell.folder / f"{name}.pub").write_bytes(pem(key))

    def run(self, *arguments: str, code: int = 0) -> str:
        out, err = self.shell.with_config(*arguments, code=code)
        return err if code else out

    def sign(self, number: int, *names: str) -> None:
        document = str(self.shell.folder / "p.json")
        self.run("proposal", "show", str(number), "--export", document)
        for name in names:
            signature = str(self.shell.folder / f"{name}.sig")
            self.shell.run(
                "proposal", "sign", document, "--key", str(self.shell.folder / f"{name}.pem"), "--out", signature
            )
            self.run("proposal", "approve", signature)


def founded(shell: Shell) -> People:
    shell.init()
    people = People(shell)
    assert "no people are registered" in shell.with_config("people", "list")[1]
    for name in ("alice", "bob", "carol"):
        people.run("people", "add", name, "--key", str(shell.folder / f"{name}.pub"))
    named = [word for name in ("alice", "bob", "carol") for word in ("--person", name)]
    assert "[quorum-invalid]" in people.run("quorum", "set", "thaw", "--of", "2", *named, code=2)
    people.run("quorum", "set", "everything", "--of", "2", *named, code=2)
    people.run("quorum", "set", "quorum", "--of", "2", *named)
    return people


def test_a_change_is_proposed_signed_elsewhere_and_executed(shell: Shell) -> None:
    people = founded(shell)
    named = [word for name in ("alice", "bob", "carol") for word in ("--person", name)]
    thaw_rule = ("quorum", "set", "thaw", "--of", "2", *named, "--proposer-apart")
    assert "repeat the command with --propose" in people.run(*thaw_rule, code=1)
    assert people.run(*thaw_rule, "--propose", "--reason", "two pairs of eyes").startswith("proposal 1: ")
    assert "[quorum-not-reached]" in people.run("proposal", "execute", "1", code=1)
    people.sign(1, "alice", "bob")
    assert people.run("proposal", "execute", "1") == "people and rules are at version 5\n"
    assert "thaw         2 of alice, bob, carol, excluding the proposer" in people.run("quorum", "show")
    assert json.loads(people.run("quorum", "show", "--json"))["version"] == 5
    people.run("freeze", "all", "--reason", "x")
    proposed = ("thaw", "all", "--reason", "x", "--propose", "--as", "carol", "--hours", "1", "--json")
    told = json.loads(people.run(*proposed))
    assert {name: told[name] for name in ("schema", "action", "done")} == {
        "schema": "kms.change/1",
        "action": "thaw",
        "done": None,
    }
    assert told["proposal"]["serial"] == 2
    assert told["proposal"]["sha256"] == json.loads(people.run("proposal", "show", "2", "--json"))["digest"]
    shown = json.loads(people.run("proposal", "show", "2", "--json"))
    assert (shown["state"], shown["signed"], len(shown["missing"])) == ("open", [], 1)
    people.sign(2, "alice", "bob")
    assert "missing:     thaw: carol, who proposes it, has not signed" in people.run("proposal", "show", "2")
    people.sign(2, "carol")
    people.run("proposal", "execute", shown["digest"])
    assert "[proposal-ended]" in people.run("proposal", "execute", "2", code=1)
    people.run("log", "verify")
    people.run("fsck")


def test_any_action_is_proposed_by_its_name_and_withdrawn(shell: Shell) -> None:
    people = founded(shell)
    arguments = shell.folder / "arguments.json"
    arguments.write_text(json.dumps({"scope": "all", "name": "", "reason": "again"}))
    create = ("proposal", "create", "thaw", "--arguments", str(arguments), "--reason", "again")
    for line in ("", "\nallow_thaw_by_one = true\n"):  # which counts for nothing here: there is a quorum
        shell.config.write_text(shell.config.read_text() + line)
        assert "hint: set a rule with 'kms quorum set thaw --of M" in people.run(*create, code=1)
    arguments.write_text(json.dumps({"scope": "all", "name": "", "reason": "x"}))
    people.run("quorum", "clear", "quorum", "--propose", "--reason", "x")
    people.run("proposal", "withdraw", "1", "--reason", "x")
    listed = json.loads(people.run("proposal", "list", "--json"))["proposals"]
    assert [one["state"] for one in listed] == ["withdrawn"]
    assert "withdrawn" in people.run("proposal", "list")
    assert len(json.loads(people.run("people", "list", "--json"))["people"]) == 3
    assert len(people.run("people", "list").splitlines()) == 3
    assert "[quorum-invalid]" in people.run("people", "remove", "carol", "--propose", "--reason", "x", code=2)
    assert "there is no rule for thaw" in people.run("quorum", "clear", "thaw", "--propose", "--reason", "x", code=2)
    people.sign(1)
    other = ("proposal", "sign", str(shell.folder / "p.json"), "--key", str(shell.folder / "bob.pem"))
    assert "[proposal-other-service]" in shell.run(*other, "--audience", "other", code=2)[1]
    assert json.loads(shell.run(*other)[0])["schema"] == "kms.proposal-signature/1"
    for wrong in ("[]", "", "{", '{"a": 1, "a": 1}', "\xff"):
        arguments.write_text(wrong)
        assert "[change-invalid]" in people.run(*create, code=2)
    people.run("log", "verify")
    people.run("fsck")


def test_limits_are_set_shown_and_cleared(shell: Shell) -> None:
    shell.init()
    shell.add_key()
    chips = shell.folder / "chips.txt"
    chips.write_text(f"# racks\namd:{'ab' * 64}  # left\n\n")
    set_ = ("key", "limits", "set", "model")
    more = ("--most-releases", "100/day", "--most-releases", "5000", "--most-holders", "8", "--chips", str(chips))
    out, err = shell.with_config(*set_, *more, "--dry-run")
    assert "most releases: 100/day (so far 0)" in out
    assert "nothing was changed" in err
    assert "version 0" in shell.with_config("key", "limits", "show", "model")[0]
    assert shell.with_config(*set_, *more)[0] == "the limits of model are at version 1\n"
    shell.with_config(*set_, "--window", "Mon-Fri 08:00-18:00 UTC", "--most-per-chip", "4/hour")
    shell.with_config(*set_, "--most-holders", "0", "--clear", "most-releases", "--chips", f"intel:{'cd' * 16}")
    shown = json.loads(shell.with_config("key", "limits", "show", "model", "--json")[0])
    assert (shown["version"], shown["most_holders"], shown["most_releases"]) == (3, 0, [])
    assert (shown["chips"], shown["most_per_chip"]) == ([f"intel:{'cd' * 16}"], "4/hour")
    assert shown["windows"] == ["Mon,Tue,Wed,Thu,Fri 08:00-18:00 UTC"]
    assert shown["used"] == {"holders": 0, "releases": {}}
    out, _ = shell.with_config("key", "limits", "show", "model")
    assert "most holders:  0 (now 0)" in out
    assert "most per chip: 4/hour" in out
    assert "name a limit to set" in shell.with_config(*set_, code=2)[1]
    assert "version 3" in shell.with_config("key", "limits", "show", "model")[0], "a version was made of nothing"
    chips.write_text("# nothing\n")
    shell.with_config(*set_, "--chips", str(chips), code=2)
    assert "[window-invalid]" in shell.with_config(*set_, "--window", "always", code=2)[1]
    assert "[limits-invalid]" in shell.with_config(*set_, "--most-releases", "1/year", code=2)[1]
    assert "[key-unknown]" in shell.with_config("key", "limits", "show", "none", code=1)[1]
    shell.with_config("fsck")


def test_another_policy_is_tried_out_and_then_put(shell: Shell) -> None:
    shell.init("--allow-simulated")
    shell.add_key()
    newer = shell.folder / "newer.yaml"
    newer.write_bytes(policy_text().replace(b"version: 1", b"version: 2").replace(b"snp: 26", b"snp: 27"))
    recorded = shell.folder / "recorded.json"
    recorded.write_bytes(Workload().request(CHALLENGE, "model").evidence.to_json())
    put = ("key", "policy", "set", "model", "--policy", str(newer))
    tried = ("--dry-run", "--evidence", str(recorded), "--at", "2026-06-01T12:00:00Z")
    (shell.folder / "svc" / "endorsements").mkdir()
    write_endorsements(shell.folder / "svc", at=AT)
    shell.config.write_text(shell.config.read_text().replace("# endorsements", "endorsements"))
    out, err = shell.with_config(*put, *tried)
    assert "stricter  snp.minimum_tcb" in out
    assert "the new policy accepts less" in out
    assert f"{recorded}: the same\n  before: affirmed\n  after:  affirmed\n" in out
    assert "nothing was changed" in err
    document = json.loads(shell.with_config(*put, *tried, "--json")[0])
    assert (document["effect"], document["evidence"][0]["changed"]) == ("stricter", False)
    shell.with_config(*put, "--evidence", str(recorded), code=2)
    proposed = json.loads(shell.with_config(*put, "--json", "--propose", "--reason", "x")[0])
    assert (proposed["schema"], proposed["done"]) == ("kms.policy-change/1", None)
    assert proposed["proposal"]["serial"] == 1
    done = json.loads(shell.with_config(*put, "--json")[0])
    assert (done["effect"], done["proposal"]) == ("stricter", None)
    assert "model is under unit version 2" in done["done"]
    assert "[policy-rolled-back]" in shell.with_config(*put, code=1)[1]
    newest = newer.read_bytes().replace(b"version: 2", b"version: 3")
    newer.write_bytes(newest)
    assert "model is under unit version 3" in shell.with_config(*put)[0]
    shown = json.loads(shell.with_config("key", "show", "model", "--json")[0])
    assert shown["policy"].encode() == newer.read_bytes()
    shell.with_config("fsck")


def test_break_glass_is_proposed_listed_and_closed(shell: Shell) -> None:
    people = founded(shell)
    shell.add_key()
    assert "no relaxations" in shell.with_config("break-glass", "list")[1]
    named = [word for name in ("alice", "bob") for word in ("--person", name)]
    people.run("quorum", "set", "break-glass", "--of", "2", *named, "--propose", "--reason", "x")
    people.sign(1, "alice", "bob")
    people.run("proposal", "execute", "1")
    people.run("freeze", "tenant", "default", "--reason", "x")
    until = rfc3339_text((system_clock() + timedelta(hours=1)).replace(microsecond=0))
    opening = ("break-glass", "open", "--key", "model", "--until", until, "--reason", "4711")
    people.run(*opening, code=2)
    lifting = (*opening, "--lift-freeze", "tenant:default")
    assert "[quorum-required]" in people.run(*lifting, code=1)
    people.run(*lifting, "--propose")
    people.run(*opening, "--policy", str(shell.policy), "--propose")
    for number in (2, 3):
        people.sign(number, "alice", "bob")
    assert people.run("proposal", "execute", "2").startswith("BREAK-GLASS 1: thaw tenant default for model until ")
    people.run("proposal", "execute", "3")
    people.run("break-glass", "close", "1", "--reason", "over")
    listed = json.loads(people.run("break-glass", "list", "--json"))["break_glass"]
    assert [one["state"] for one in listed] == ["closed", "OPEN"]
    assert "2  OPEN  policy " in people.run("break-glass", "list")
    assert "[break-glass-not-open]" in people.run("break-glass", "close", "1", "--reason", "x", code=1)
    people.run("fsck")


def test_anchors_are_shown_and_approved(shell: Shell) -> None:
    shell.init()
    assert ": not approved; no rule requires approval" in shell.with_config("anchors", "show")[0]
    listed = json.loads(shell.with_config("anchors", "show", "--json")[0])
    assert (listed["schema"], listed["approved"], listed["rule"]) == ("kms.anchors/1", False, False)
    assert any("ARK" in line for line in listed["anchors"])
    assert "trust anchors are approved" in shell.with_config("anchors", "approve")[0]
    assert json.loads(shell.with_config("anchors", "show", "--json")[0])["approved"] is True
    out, _ = shell.with_config("anchors", "show")
    assert ": approved; no rule requires approval" in out
    assert "ARK" in out
