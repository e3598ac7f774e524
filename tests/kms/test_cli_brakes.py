"""Freezing and thawing at the command line."""

import json

from tests.kms.test_cli import Shell, shell

__all__ = ["shell"]


def test_freezing_takes_one_command_and_thawing_more(shell: Shell) -> None:
    shell.init()
    shell.add_key()
    assert "nothing is frozen" in shell.with_config("freeze", "list")[1]
    out, err = shell.with_config("freeze", "key", "model", "--reason", "incident 4711")
    assert out == "key model is frozen\n"
    assert "already keep it" in err
    shell.with_config("freeze", "tenant", "default", "--reason", "x")
    shell.with_config("freeze", "product", "Milan", "--reason", "x")
    shell.with_config("freeze", "all", "--reason", "x")
    listed = json.loads(shell.with_config("freeze", "list", "--json")[0])
    assert listed["schema"] == "kms.freezes/1"
    names = [(one["scope"], one["name"]) for one in listed["freezes"]]
    assert names == [("all", ""), ("key", "model"), ("product", "milan"), ("tenant", "default")]
    assert "key model  since 20" in shell.with_config("freeze", "list")[0]
    assert "incident 4711" in shell.with_config("freeze", "list")[0]
    _, err = shell.with_config("thaw", "all", "--reason", "x", code=1)
    assert "[quorum-required]" in err
    assert "hint: whoever runs this service alone sets allow_thaw_by_one" in err
    shell.config.write_text(shell.config.read_text() + "\nallow_thaw_by_one = true\n")
    assert "not frozen any more" in shell.with_config("thaw", "all", "--reason", "x")[0]
    assert "[not-frozen]" in shell.with_config("thaw", "all", "--reason", "x", code=1)[1]
    shell.with_config("freeze", "key", "none", "--reason", "x", code=1)
    assert "[freeze-target-invalid]" in shell.with_config("freeze", "product", "milann", "--reason", "x", code=2)[1]
    shell.with_config("freeze", "key", "model", code=2)
    shell.with_config("log", "verify")
    shell.with_config("fsck")
