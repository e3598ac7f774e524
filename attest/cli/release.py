"""``attest release``: this machine's keys from a key-release service."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from attest.cli.documents import show_document
from attest.cli.options import Network, network_options
from attest.cli.service_options import ServiceOptions, service_options
from attest.terminal.display import Display, display_options
from attest.terminal.lazy_commands import ExampleCommand

if TYPE_CHECKING:
    from attest.encoding import JsonValue
    from attest.release.client import KeyReleaseClient
    from attest.release.mutual_attestation import ProvenService
    from attest.release.released_key import ReleasedKey

RELEASED_SCHEMA = "attest.released/1"


@click.command(
    cls=ExampleCommand,
    short_help="Get keys for this machine from a key-release service.",
    examples=(
        "attest release my-model --kms https://kms.example --identity 'kms.example/prod+0f…' -o my-model.key",
        "attest release my-model --kms … --tls-ca ca.pem --identity … --expect-policy kms.yaml -o my-model.key",
        "attest release a team/b --kms … --identity … --output-directory keys",
    ),
)
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
@service_options(required=True)
@click.option("-o", "--output", metavar="FILE", help="Output file of a single key; '-' is standard output.")
@click.option("--output-directory", metavar="DIR", help="Output directory of several keys, each in a file of its name.")
@network_options
@display_options
def release(
    *,
    keys: tuple[str, ...],
    service: ServiceOptions,
    output: str | None,
    output_directory: str | None,
    network: Network,
    display: Display,
) -> int:
    """Attest this machine to a key-release service, and write the released keys, readable only by their owner.

    With --expect-policy the service must attest its own machine first: that the identity, the end of the TLS
    connection and the configuration live on a machine that meets the policy. Exit codes: 0 written, 1 the service
    refused, or its machine does not meet the policy, 2 usage, 4 something does not hold, 5 an endorsement is missing or
    the service cannot be reached, 6 this machine gave no evidence. Nothing is written then.
    """
    from attest.cli.release_run import connect_service, places_of, write_keys

    places = places_of(keys, output=output, directory=output_directory)
    with connect_service(service, network=network, display=display) as (client, attester):
        released = client.release(keys, attester=attester)
        write_keys(released, places)
        _show(client, released, places, display=display)
    return 0


def _show(
    client: KeyReleaseClient, released: tuple[ReleasedKey, ...], written: tuple[str, ...], *, display: Display
) -> None:
    rows: list[JsonValue] = [
        {
            "tenant": key.tenant,
            "key_id": key.key_id,
            "version": key.version,
            "purpose": key.purpose,
            "policy_sha256": key.policy_digest.hex(),
            "file": file,
        }
        for key, file in zip(released, written, strict=True)
    ]
    service = None if client.proven is None else _service(client.proven, display)
    if "-" not in written:
        show_document({"schema": RELEASED_SCHEMA, "keys": rows, "service": service}, display=display)


def _service(proven: ProvenService, display: Display) -> JsonValue:
    simulated = proven.result.verified.simulated
    if simulated:
        display.warn("the service's machine is SIMULATED; it proves nothing about hardware")
    return {
        "configuration_sha256": proven.statement.configuration_sha256.hex(),
        "version": proven.statement.version,
        "profile": proven.statement.profile,
        "simulated": simulated,
    }
