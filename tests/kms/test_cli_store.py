"""`kms backup`, `kms restore` and `kms fsck` at the command line."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.kms.test_cli import ORIGIN, Shell


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    for name in ("KMS_CONFIG", "KMS_DATABASE", "KMS_ORIGIN"):
        monkeypatch.delenv(name, raising=False)
    made = Shell(tmp_path, capsys, monkeypatch)
    made.init()
    made.add_key()
    return made


def test_a_backup_is_made_tried_and_restored(shell: Shell) -> None:
    file = str(shell.folder / "kms.backup")
    out, err = shell.with_config("backup", file)
    assert f"origin:      {ORIGIN}\n" in out
    assert "key_versions 1" in out
    assert "store the head" in err
    head = json.loads(shell.with_config("log", "verify", "--json")[0])
    elsewhere = ("--database", str(shell.folder / "restored.db"))
    expected = ("--expect", f"{head['size']}:{head['root']}")
    out, err = shell.with_config("restore", file, "--dry-run", *expected, *elsewhere)
    assert "nothing was kept" in err
    assert not (shell.folder / "restored.db").exists()
    summary = json.loads(shell.with_config("restore", file, "--json", *expected, *elsewhere)[0])
    assert summary["schema"] == "kms.backup-summary/1"
    assert summary["head"] == expected[1]
    assert "model  version 1" in shell.with_config("key", "list", *elsewhere)[0]
    assert shell.with_config("log", "list", *elsewhere)[0].splitlines()[-1].split()[2] == "restored"


def test_mc_36_a_backup_that_is_older_than_a_checkpoint_is_restored_for_a_reason_alone(shell: Shell) -> None:
    file, kept = str(shell.folder / "kms.backup"), shell.folder / "kept"
    shell.with_config("backup", file)
    shell.add_key("later")
    kept.write_text(shell.with_config("log", "checkpoint")[0])
    more = ("--checkpoint", str(kept), "--database", str(shell.folder / "restored.db"))
    _, err = shell.with_config("restore", file, *more, code=1)
    assert "[log-rolled-back]" in err
    assert "hint: find a newer backup" in err
    assert "[rollback-reason-invalid]" in shell.with_config("restore", file, *more, "--accept-rollback", " ", code=2)[1]
    shell.with_config("restore", file, *more, "--accept-rollback", "the disk died")
    last = shell.with_config("log", "list", "--json", *more[2:])[0].splitlines()[-1]
    entry = json.loads(last)["entry"]
    assert (entry["accepted_rollback"]["reason"], entry["actor"]["means"]) == ("the disk died", "local")


def test_what_cannot_be_backed_up_or_restored_is_refused(shell: Shell) -> None:
    file = str(shell.folder / "kms.backup")
    shell.with_config("backup", file)
    assert "[backup-exists]" in shell.with_config("backup", file, code=2)[1]
    assert "[database-exists]" in shell.with_config("restore", file, code=2)[1]
    elsewhere = ("--database", str(shell.folder / "restored.db"))
    wrong = ("--expect", "9:" + "00" * 32)
    assert "[log-rolled-back]" in shell.with_config("restore", file, *wrong, *elsewhere, code=1)[1]
    assert "[log-head-invalid]" in shell.with_config("restore", file, "--expect", "x", *elsewhere, code=2)[1]
    Path(file).write_bytes(Path(file).read_bytes()[:-1])
    assert "[backup-invalid]" in shell.with_config("restore", file, *elsewhere, code=2)[1]


def test_fsck_says_what_is_wrong_and_ends_with_1(shell: Shell) -> None:
    out, _ = shell.with_config("fsck")
    assert ["references", "ok", "0"] in [line.split() for line in out.splitlines()]
    head = json.loads(shell.with_config("log", "verify", "--json")[0])
    document = json.loads(shell.with_config("fsck", "--json", "--expect", f"{head['size']}:{head['root']}")[0])
    assert (document["schema"], document["sound"]) == ("kms.fsck/1", True)
    database = sqlite3.connect(shell.config.parent / "kms.db")
    with closing(database), database:
        database.execute("UPDATE key_versions SET wrapped = x'00'")
    out, err = shell.with_config("fsck", code=1)
    assert "[store-unsound]" in err
    assert "wrapped-key-invalid" in out
    out, _ = shell.with_config("fsck", "--json", code=1)
    assert json.loads(out)["sound"] is False
