"""Options that name a table of firmware floors, and the built-in table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import click

from attest.terminal.display import gathered

if TYPE_CHECKING:
    from collections.abc import Iterable

    from attest.policy.firmware_findings import FirmwareFinding
    from attest.policy.firmware_table import FirmwareTable
    from attest.verification import VerifiedEvidence


@dataclass(frozen=True, slots=True, kw_only=True)
class FirmwareOptions:
    """The file of a table, of the detached signatures over it, and of the keys whose signatures count."""

    firmware_table: str | None = None
    firmware_signatures: tuple[str, ...] = ()
    firmware_keys: tuple[str, ...] = ()


firmware_options = gathered(
    "firmware",
    FirmwareOptions,
    (
        click.option(
            "--firmware-table",
            "firmware_table",
            metavar="FILE",
            help="Signed table of firmware floors, newer than the built-in one, which it replaces.",
        ),
        click.option(
            "--firmware-table-signature",
            "firmware_signatures",
            metavar="FILE",
            multiple=True,
            help="Detached signature over that table ('attest policy sign'). Repeatable.",
        ),
        click.option(
            "--firmware-table-key",
            "firmware_keys",
            metavar="PEM",
            multiple=True,
            help="Public key, one of which must have signed that table. Repeatable.",
        ),
    ),
    title="Policies and reference values",
)
"""Add ``--firmware-table`` and the options of its signatures; the command gets one ``firmware``."""


@cache
def built_in_table() -> FirmwareTable:
    """Return the table that the package brings; one that was changed is a defect of the installation."""
    from importlib.resources import files

    from attest.encoding import json_value
    from attest.policy.firmware_table import BUILT_IN_DIGEST, decode_firmware_table

    data = (files("attest.policy") / "firmware_table.json").read_bytes()
    table = decode_firmware_table(json_value(data, what="firmware_table.json"))
    if table.digest.hex() != BUILT_IN_DIGEST:
        raise RuntimeError(f"the built-in firmware table is {table.digest.hex()}, expected {BUILT_IN_DIGEST}")
    return table


def read_firmware_table(options: FirmwareOptions) -> FirmwareTable:
    """Return the operator's table, or the built-in one.

    Raises:
        ConfigurationError: it cannot be read, or is not a table.
        SignatureError: no key signed it, or it is not newer than the built-in one.
    """
    from attest.cli.files import read_file
    from attest.cli.policies import read_public_keys, read_signatures
    from attest.policy.firmware_table import MAX_TABLE_BYTES
    from attest.policy.signed_documents import read_signed_table

    if options.firmware_table is None:
        if options.firmware_signatures or options.firmware_keys:
            raise click.UsageError("--firmware-table-signature, --firmware-table-key: only with --firmware-table")
        return built_in_table()
    if not options.firmware_signatures or not options.firmware_keys:
        raise click.UsageError("--firmware-table needs --firmware-table-signature and --firmware-table-key")
    return read_signed_table(
        read_file(options.firmware_table, limit=MAX_TABLE_BYTES, what="--firmware-table"),
        signatures=read_signatures(options.firmware_signatures, what="--firmware-table-signature"),
        keys=read_public_keys(options.firmware_keys, what="--firmware-table-key"),
        name=options.firmware_table,
        built_in=built_in_table(),
    )


def findings_in(verified: VerifiedEvidence, table: FirmwareTable) -> tuple[FirmwareFinding, ...]:
    """Judge all devices of verified evidence by a table; simulated ones have no firmware."""
    from attest.policy.firmware_findings import firmware_findings

    if verified.simulated:
        return ()
    return firmware_findings(((item.name, item.kind, item.silicon) for item in verified.items), table)


def warnings_of(findings: Iterable[FirmwareFinding]) -> list[tuple[str, str]]:
    """Return findings as code and message."""
    from attest.policy.firmware_findings import FIRMWARE_CODE

    return [(FIRMWARE_CODE, str(finding)) for finding in findings]
