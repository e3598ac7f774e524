"""``attest policy lint``: probable mistakes in a policy."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from attest.cli.documents import print_document
from attest.cli.firmware_options import FirmwareOptions, firmware_options
from attest.cli.option_values import utc
from attest.cli.reference_options import References, references_options
from attest.terminal.display import Display, display_options
from attest.terminal.lazy_commands import ExampleCommand

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from attest.cli.policy_documents import PolicyText
    from attest.encoding import JsonValue
    from attest.policy.authoring.lint_app_compose import AppComposeFindings
    from attest.policy.authoring.lint_findings import LintFinding

LINT_SCHEMA = "attest.policy-lint/1"
EXIT_FINDINGS = 1
_STYLES = {"error": "bold red", "warning": "bold yellow", "note": "dim"}


@click.command(
    cls=ExampleCommand,
    short_help="Find unsafe or useless demands.",
    examples=(
        "attest policy lint production.yaml",
        "attest policy lint site.yaml --app-compose app-compose.json",
        "attest policy lint site.yaml team.yaml --strict --at 2027-06-01T00:00:00Z",
        "attest policy lint site.yaml --references images.json --references-signature images.json.sig \\",
        "    --references-key builder.pub.pem",
    ),
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--at", type=utc, metavar="TIME", help="Moment for checks of expiry, RFC 3339. Default: now.")
@click.option("--strict", is_flag=True, help="Warnings count as errors.")
@click.option(
    "--app-compose",
    "app_composes",
    metavar="FILE",
    multiple=True,
    help="An app-compose of dstack: show what a policy also accepts if it accepts this hash. Repeatable.",
)
@references_options
@firmware_options
@display_options
def lint(
    files: tuple[str, ...],
    at: datetime | None,
    app_composes: tuple[str, ...],
    *,
    strict: bool,
    references: References,
    firmware: FirmwareOptions,
    display: Display,
) -> int:
    """Find probable mistakes: values that never match, expired reference values, too broad lists, old firmware.

    Every finding has a severity, a place, why, and what to do. Where simulated evidence is accepted, what would be an
    error in production is a note. A document of reference values that a policy names and that is not given is a
    warning: the demands that use it were not judged.

    Exit codes: 0 no errors, 1 an error (with --strict: or a warning), 2 a file is not a policy.
    """
    from attest.cli.firmware_options import read_firmware_table
    from attest.cli.policies import read_reference_documents
    from attest.cli.policy_documents import policies_among, read_policy_text
    from attest.clock import this_second
    from attest.policy.authoring.lint import lint_policy

    moment = at or this_second()
    documents = read_reference_documents(references)
    table = read_firmware_table(firmware)
    read = [read_policy_text(file, documents=documents) for file in policies_among(files, display=display)]
    named = {row.document for one in read for row in one.document.references}
    found = []
    for one in read:
        # A document that another policy of this call names is not extra for this one.
        others = named - {row.document for row in one.document.references}
        own = {name: document for name, document in documents.items() if name not in others}
        found.append((one, lint_policy(one.document, at=moment, documents=own, firmware=table)))
    failing = {"error", "warning"} if strict else {"error"}
    composed = [(file, _lint_app_compose(file)) for file in app_composes]
    every = [*(findings for _, findings in found), *(one.findings for _, one in composed)]
    bad = any(finding.severity in failing for findings in every for finding in findings)
    if display.json:
        print_document(_document(found, composed, at=moment, clean=not bad))
    elif not display.quiet:
        _show(found, display)
        for file, compose in composed:
            _show_findings(f"{file} ({compose.compose_hash.hex()})", compose.findings, display)
    return EXIT_FINDINGS if bad else 0


def _line(one: PolicyText, path: str) -> int:
    """Return the position of a finding; for an absent key, the position of its section."""
    from attest.policy.document import _places

    return _places(one.data).find(path, key=True).line


def _lint_app_compose(file: str) -> AppComposeFindings:
    from attest.cli.files import read_file
    from attest.policy.authoring.compose_services import MAX_COMPOSE_BYTES
    from attest.policy.authoring.lint_app_compose import lint_app_compose

    return lint_app_compose(read_file(file, limit=MAX_COMPOSE_BYTES, what="--app-compose"), name=file)


def _document(
    found: list[tuple[PolicyText, tuple[LintFinding, ...]]],
    composed: list[tuple[str, AppComposeFindings]],
    *,
    at: datetime,
    clean: bool,
) -> JsonValue:
    from attest.encoding import rfc3339_text

    policies: list[JsonValue] = [
        {
            "file": one.file,
            "name": one.document.name,
            "version": one.document.version,
            "findings": [_finding(one, finding) for finding in findings],
        }
        for one, findings in found
    ]
    composes: list[JsonValue] = [
        {"file": file, "compose_hash": one.compose_hash.hex(), "findings": [_members(each) for each in one.findings]}
        for file, one in composed
    ]
    more: dict[str, JsonValue] = {"app_composes": composes} if composes else {}
    return {"schema": LINT_SCHEMA, "at": rfc3339_text(at), "clean": clean, "policies": policies, **more}


def _members(finding: LintFinding) -> dict[str, JsonValue]:
    return {
        "rule": finding.rule,
        "severity": str(finding.severity),
        "path": finding.path,
        "why": finding.why,
        "remedy": finding.remedy,
    }


def _finding(one: PolicyText, finding: LintFinding) -> JsonValue:
    return {**_members(finding), "line": _line(one, finding.path)}


def _show(found: list[tuple[PolicyText, tuple[LintFinding, ...]]], display: Display) -> None:
    """Print findings; notes only with ``--verbose``."""
    for one, findings in found:
        _show_findings(one.file, findings, display, line=partial(_line, one))


def _show_findings(
    file: str, findings: tuple[LintFinding, ...], display: Display, *, line: Callable[[str], int] | None = None
) -> None:
    from attest.terminal.console import facts, plain, text_console

    out = text_console(display)
    shown = [finding for finding in findings if display.verbose or finding.severity != "note"]
    hidden = len(findings) - len(shown)
    notes = f"{hidden} note{'s' * (hidden > 1)} (--verbose)" if hidden else ""
    if not shown:
        out.print(plain(f"{file}: nothing found{f', {notes}' if notes else ''}"))
        return
    for finding in shown:
        place = file if line is None else f"{file}:{line(finding.path)}"
        out.print(plain(f"{place}: {finding.severity}: {finding.path}", _STYLES[finding.severity]))
        out.print(facts([(finding.rule, plain(finding.why)), ("", plain(f"to do: {finding.remedy}"))]))
    if notes:
        out.print(plain(f"{file}: {notes}"))
