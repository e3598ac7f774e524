"""``attest measure gce``: the measurements that Google endorses for the firmware of Compute Engine."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from attest.cli.documents import print_document
from attest.cli.measurement_output import MEASUREMENT_SCHEMA, snippet, stated_origin
from attest.cli.option_values import utc
from attest.terminal.display import Display, display_options
from attest.terminal.lazy_commands import ExampleCommand

if TYPE_CHECKING:
    from attest.encoding import JsonValue
    from attest.measure import ParsedLaunchEndorsement, VerifiedLaunchEndorsement


@click.command(
    cls=ExampleCommand,
    short_help="Show the measurements of a launch endorsement of Compute Engine.",
    examples=(
        "attest measure gce MRTD.binarypb --root GCE-cc-tcb-root_1.crt",
        "attest measure gce MRTD.binarypb --root GCE-cc-tcb-root_1.crt --ovmf ovmf.fd --policy-snippet",
    ),
)
@click.argument("endorsement", metavar="FILE")
@click.option("--root", metavar="FILE", required=True, help="Google's root for launch endorsements, DER or PEM.")
@click.option("--ovmf", metavar="FILE", help="Firmware image that must match the endorsement.")
@click.option("--at", type=utc, metavar="TIME", help="Moment of use, RFC 3339. Default: now.")
@click.option("--policy-snippet", is_flag=True, help="Print reference_values of a policy, in YAML.")
@click.option("--name", metavar="NAME", default="gce", show_default=True, help="Prefix of their names.")
@display_options
def gce(
    *,
    endorsement: str,
    root: str,
    ovmf: str | None,
    at: datetime | None,
    policy_snippet: bool,
    name: str,
    display: Display,
) -> int:
    """Verify a launch endorsement of Google and print the measurements in it.

    Compute Engine's firmware is Google's own: these values are its builder's word, signed under the root that you name.
    """
    from attest.clock import this_second
    from attest.measure import (
        parse_launch_endorsement,
        parse_root,
        read_endorsement,
        require_endorsed_firmware,
        verify_launch_endorsement,
    )

    if policy_snippet and display.json:
        raise click.UsageError("--policy-snippet and --json both use standard output")
    trusted = parse_root(read_endorsement(Path(root)))
    parsed = parse_launch_endorsement(read_endorsement(Path(endorsement)))
    verified = verify_launch_endorsement(parsed, root=trusted, at=at or this_second())
    if ovmf is not None:
        require_endorsed_firmware(verified, Path(ovmf))
    rows = _rows(parsed)
    if display.json:
        print_document(_document(verified))
    elif policy_snippet:
        origin = stated_origin("attest measure gce", files={"endorsement": endorsement, "root": root}, texts={})
        click.echo(snippet({f"{name}-{kind}": values for kind, values in rows.items()}, origin=origin), nl=False)
    else:
        for values in rows.values():
            for value, comment in values:
                click.echo(f"{comment:<28} {value}")
    return 0


def _rows(parsed: ParsedLaunchEndorsement) -> dict[str, list[tuple[str, str]]]:
    """Return by kind of reference value each measurement and its configuration."""
    found: dict[str, list[tuple[str, str]]] = {}
    if parsed.tdx is not None:
        found["mr-td"] = [(row.mr_td.hex(), f"TDX, {_shape(row.ram_gib)}") for row in parsed.tdx.measurements]
    if parsed.snp is not None:
        found["measurement"] = [(value.hex(), f"SEV-SNP, {count} vCPU") for count, value in parsed.snp.measurements]
    return {kind: list({value: (value, comment) for value, comment in rows}.values()) for kind, rows in found.items()}


def _shape(ram_gib: int) -> str:
    return f"{ram_gib} GiB" if ram_gib else "any memory"


def _tdx_rows(parsed: ParsedLaunchEndorsement) -> Iterator[JsonValue]:
    for row in parsed.tdx.measurements if parsed.tdx is not None else ():
        yield {"mr_td": row.mr_td.hex(), "ram_gib": row.ram_gib, "early_accept": row.early_accept}


def _snp_rows(parsed: ParsedLaunchEndorsement) -> Iterator[JsonValue]:
    for count, value in parsed.snp.measurements if parsed.snp is not None else ():
        yield {"measurement": value.hex(), "vcpus": count}


def _document(verified: VerifiedLaunchEndorsement) -> dict[str, JsonValue]:
    from attest.encoding import rfc3339_text

    parsed = verified.parsed
    measurements = [*_tdx_rows(parsed), *_snp_rows(parsed)]
    return {
        "schema": MEASUREMENT_SCHEMA,
        "kind": "gce",
        "issued": rfc3339_text(parsed.issued),
        "firmware_sha384": parsed.firmware_sha384.hex(),
        **({"changelist": parsed.changelist} if parsed.changelist else {}),
        **({"commit": parsed.commit.hex()} if parsed.commit else {}),
        **({} if parsed.tdx is None else {"tdx_svn": parsed.tdx.svn}),
        **({} if parsed.snp is None else {"snp_svn": parsed.snp.svn, "snp_policy": f"{parsed.snp.policy:#x}"}),
        "measurements": measurements,
    }
