"""``attest key``: one key of this machine, written to a place that does not keep it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from attest.cli.documents import show_document
from attest.cli.foreign_keys import ForeignOptions, foreign_options, get_foreign, is_foreign, require_native
from attest.cli.session_options import SessionOptions, service_options, settings_document
from attest.terminal.display import Display, display_options
from attest.terminal.lazy_commands import ExampleGroup

if TYPE_CHECKING:
    from attest.encoding import JsonValue
    from attest.session import SessionKey

GOT_SCHEMA = "attest.key/1"
SETTINGS_SCHEMA = "attest.session-settings/1"


@click.group(
    "key",
    cls=ExampleGroup,
    examples=(
        "attest key get llama-70b --out /run/keys/llama.key",
        "attest key get llama-70b --out - | decrypt-model --key-file /dev/stdin model.enc",
        "attest key settings                    # the service, and the source of each setting",
    ),
)
def key() -> None:
    """Get a key for this machine, by the settings of its image."""


@key.command(
    "get",
    short_help="Attest this machine, and write the released key.",
    examples=(
        "attest key get llama-70b --out /run/keys/llama.key",
        "attest key get llama-70b --out -        # into a pipe, never onto a terminal",
        "attest key get acme/llama@3 --out-fd 3 3>&1 1>/dev/null | consume",
        "attest key get kbs:///default/key/1 --kbs https://kbs.example --out /run/keys/1.key",
        (
            "attest key get https://vault.example/keys/model --maa https://maa.example --vault-roots roots.pem "
            "--bearer-file token --out /run/keys/model.der"
        ),
    ),
)
@click.argument("name", metavar="KEY")
@click.option("--out", metavar="FILE", help="Output file of the key, on tmpfs or ramfs; '-' is standard output.")
@click.option(
    "--out-fd", type=click.IntRange(0, 1_000_000), metavar="N", help="An open descriptor to write the key to."
)
@click.option("--allow-disk", is_flag=True, help="Permit a persistent file system.")
@foreign_options
@service_options
@display_options
def get(  # noqa: PLR0917  click passes them by name
    name: str,
    out: str | None,
    out_fd: int | None,
    allow_disk: bool,
    foreign: ForeignOptions,
    service: SessionOptions,
    display: Display,
) -> int:
    """Attest this machine to the key-release service, and write one key, readable only by its owner.

    Where the service is and who it is comes from the options, the environment or attest.toml; 'attest key settings'
    shows it. The lease is not renewed: for a program that keeps running, use 'attest run'. Exit codes: 0 written,
    1 the service refused, 2 usage, 4 what answers is not the service, 5 it cannot be reached, 6 this machine gave no
    evidence. Nothing is written then.

    KEY may be the address of a resource of a Key Broker Service, as guests of Confidential Containers use it, or of a
    key that Azure Key Vault, a Managed HSM or a compatible service releases; the Verifier is then --maa.
    """
    from attest.cli.key_output import place_of, write_key

    place = place_of(out=out, out_fd=out_fd, allow_disk=allow_disk)
    if is_foreign(name):
        return get_foreign(name, place, options=foreign, service=service, display=display)
    require_native(foreign)
    with service.session(display=display, background=False) as session:
        found = session.key(name)
        write_key(place, found.material)
        if isinstance(place, Path):
            show_document(_document(found, place), display=display)
    return 0


@key.command(
    "settings",
    short_help="Show the service, and the source of each setting.",
    examples=("attest key settings", "attest key settings --json"),
)
@service_options
@display_options
def settings(service: SessionOptions, display: Display) -> int:
    """Show the effective settings, and the source of each. No request is made, and none of them is secret."""
    found: JsonValue = settings_document(service.settings())
    show_document({"schema": SETTINGS_SCHEMA, "settings": found}, display=display, tree=found)
    return 0


def _document(found: SessionKey, file: Path) -> dict[str, JsonValue]:
    return {
        "schema": GOT_SCHEMA,
        "key": found.name,
        "version": found.version,
        "purpose": found.purpose,
        "policy_sha256": found.policy_digest.hex(),
        "lease_id": found.lease_id,
        "expires_at": found.expires_at.isoformat().replace("+00:00", "Z"),
        "file": str(file),
    }
