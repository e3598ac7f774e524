"""Whatever is wrong with the command line is exit 2: two lines on standard error and nothing on standard output."""

from pathlib import Path

import pytest

from attest.cli.main import cli
from attest.terminal.lazy_commands import LazyGroup
from tests.cli.conftest import LAB, Attest, Files

SIXTY_FIVE = "00" * 65


@pytest.mark.parametrize("command", ["verify", "appraise"])
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--unchecked", "everything=because"], "cannot leave 'everything' unchecked"),
        (["--unchecked", "revocation="], "needs a reason"),
        (["--unchecked", "revocation=  "], "needs a reason"),
        (["--unchecked", "revocation"], "CHECK=REASON"),
        (["--nonce", ""], "got nothing"),
        (["--nonce", SIXTY_FIVE], "1 to 64 bytes"),
        (["--nonce", "0"], "hex"),
        (["--nonce", "zz"], "hex"),
        (["--nonce-text", ""], "got nothing"),
        (["--nonce-text", "x" * 65], "1 to 64 bytes"),
        (["--nonce-text", "é" * 33], "1 to 64 bytes"),
        (["--report-data", "00"], "64 bytes"),
        (["--report-data", ""], "64 bytes"),
        (["--nonce", "00", "--nonce-text", "x"], "two different values"),
        (["--nonce", "01", "--report-data", "00" * 64], "same field"),
        (["--at", "yesterday"], "RFC 3339"),
        (["--at", "2026-06-01"], "RFC 3339"),
        (["--at", "2026-06-01T00:00:00"], "RFC 3339"),
        (["--at", "2026-02-30T00:00:00Z"], "RFC 3339"),
        (["--form", "pdf"], "pdf"),
        (["--product", "Rome"], "Rome"),
        (["--endorsements", "absent"], "absent"),
        (["--anchors", "absent"], "absent"),
        (["--anchors", "report.bin"], "anchor file"),
        (["--bundle-key", "report.bin"], "bundle key"),
        (["--trust", "issuer"], "ISSUER=FILE"),
        (["--trust", "issuer=absent"], "absent"),
        (["--eventlog", "report.bin"], "no registers"),
        (["--eventlog", "absent"], "absent"),
        (["--frobnicate"], "frobnicate"),
    ],
)
def test_a_wrong_option(attest: Attest, files: Files, command: str, options: list[str], said: str) -> None:
    files.report  # noqa: B018  some of the options name it
    ran = attest(command, files.extended, *LAB, "--json", *options)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines()[-2].startswith("error: ")
    assert said in ran.err.splitlines()[-2]
    assert ran.err.splitlines()[-1].startswith("hint: ")


def test_a_wrong_input(attest: Attest, files: Files, tmp_path: Path) -> None:
    for given in (["absent"], [tmp_path], ["-", "-"], [], ["a\0b"]):
        ran = attest("verify", *given, *LAB, "--json")
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.splitlines()[-2].startswith("error: ")


def test_an_unreadable_input(attest: Attest, files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)  # whoever runs the tests as root can read everything
    ran = attest("verify", files.folder / "any", *LAB)
    assert (ran.code, ran.out) == (2, "")
    assert "Permission denied" in ran.err


def test_an_event_log_beside_malformed_evidence_is_exit_3(attest: Attest, files: Files) -> None:
    assert attest("verify", files.write("x", b"x"), *LAB, "--eventlog", files.report, "-q").code == 3


def test_a_cache_that_cannot_be_is_usage(attest: Attest, files: Files) -> None:
    ran = attest("verify", files.report, "--allow-simulated", "--at", LAB[3], env={"XDG_CACHE_HOME": "", "HOME": ""})
    assert ran.code == 2
    assert "XDG_CACHE_HOME" in ran.err


def test_a_service_that_is_no_address_is_usage(attest: Attest, files: Files) -> None:
    ran = attest("verify", files.report, "--allow-simulated", "--at", LAB[3], "--kds", "ftp://example.org")
    assert ran.code == 2


def test_no_command_and_an_unknown_command_are_usage(attest: Attest) -> None:
    ran = attest()
    assert (ran.code, ran.out) == (2, "")
    assert "Usage: attest" in ran.err
    ran = attest("frobnicate")
    assert (ran.code, ran.out) == (2, "")
    assert "error: no such command 'frobnicate'" in ran.err
    assert attest("simulate").code == 2


def test_version_and_help(attest: Attest) -> None:
    from attest import __version__

    assert attest("--version").out == f"attest {__version__}\n"
    assert attest("-V").code == 0
    for option in ("-h", "--help"):
        assert attest(option).code == 0


def commands() -> list[tuple[str, ...]]:
    import click

    found: list[tuple[str, ...]] = [()]
    context = click.Context(cli)
    assert isinstance(cli, LazyGroup)
    for name in cli.list_commands(context):
        found.append((name,))
        command = cli.get_command(context, name)
        found += [(name, below) for below in getattr(command, "commands", {})]
    return found


@pytest.mark.parametrize("path", commands(), ids=" ".join)
def test_every_help_starts_with_examples(attest: Attest, path: tuple[str, ...]) -> None:
    ran = attest(*path, "--help")
    assert ran.code == 0
    assert ran.out.startswith("Examples:\n")
    assert ran.out.index("Examples:") < ran.out.index("Usage: attest")


def test_the_list_of_commands_says_what_each_command_says(attest: Attest) -> None:
    import click

    assert isinstance(cli, LazyGroup)
    for name, entry in cli.lazy.items():
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        assert command.name == name
        assert entry.summary.endswith((".", "?"))


def test_help_groups_options_and_ends_with_those_of_the_output(attest: Attest) -> None:
    shown = attest("appraise", "--help").out
    titles = [line for line in shown.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert titles == [
        "Examples:",
        "Policies and reference values:",
        "Result as a signed token:",
        "Evidence and its freshness:",
        "Endorsements and trust:",
        "Fetching endorsements:",
        "Tokens of other Verifiers:",
        "Output:",
    ]
    for option, title in (("--nonce HEX", "Evidence"), ("--kds", "Fetching"), ("-h, --help", "Output:")):
        assert shown.index(f"\n{title}") < shown.index(f"\n  {option}")
    assert "INPUT..." not in shown.partition("\nPolicies")[2], "an argument is no option"


def test_lists_of_commands_have_whole_summaries(attest: Attest) -> None:
    for path in commands():
        listed = attest(*path, "--help").out.partition("\nCommands:\n")[2]
        assert "..." not in listed, path
