"""``attest release``: this machine's keys from a key-release service."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from attest.cli.lazy import ExampleCommand
from attest.cli.machine import TCTI
from attest.cli.options import Display, Hex, Network, display_options, network_options

if TYPE_CHECKING:
    from attest.encoding import JsonValue
    from attest.release.client import KeyReleaseClient, ReleasedKey

__all__ = ["release"]

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
@click.option("--kms", metavar="URL", required=True, help="Where the service is.")
@click.option(
    "--identity", metavar="TEXT", required=True, help="Its verifier key, as 'kms init' printed it; never from itself."
)
@click.option("--tls-ca", metavar="FILE", help="Who may vouch for its TLS certificate (PEM), and nobody else.")
@click.option(
    "--expect-policy",
    metavar="FILE",
    help="The policy that the service's own machine has to meet before anything is asked of it.",
)
@click.option(
    "--expect-configuration",
    type=Hex(length=32),
    metavar="HEX",
    help="SHA-256 of the configuration that the service has to decide under.",
)
@click.option(
    "--unchecked-tls", metavar="REASON", help="Let the connection end elsewhere than where the service proves to be."
)
@click.option("--endorsements", metavar="PATH", multiple=True, help="What vendors say of the service's machine.")
@click.option("--anchors", metavar="FILE", help="Add and remove trust anchors (TOML).")
@click.option("--allow-simulated", is_flag=True, help="Also accept a service on a simulated machine.")
@click.option("--offline", is_flag=True, help="Ask no vendor about the service's machine.")
@click.option("--log-memory", metavar="FILE", help="Remembers the service's log from one call to the next.")
@TCTI
@click.option("--no-gpus", is_flag=True, help="Leave NVIDIA GPUs out.")
@click.option("-o", "--output", metavar="FILE", help="Where the one key goes; '-' is standard output.")
@click.option("--output-directory", metavar="DIR", help="Where several keys go, each in a file of its name.")
@network_options
@display_options
@click.pass_context
def release(  # noqa: PLR0917  click passes them by name
    ctx: click.Context,
    keys: tuple[str, ...],
    kms: str,
    identity: str,
    tls_ca: str | None,
    expect_policy: str | None,
    expect_configuration: bytes | None,
    unchecked_tls: str | None,
    endorsements: tuple[str, ...],
    anchors: str | None,
    allow_simulated: bool,
    offline: bool,
    log_memory: str | None,
    tcti: str | None,
    no_gpus: bool,
    output: str | None,
    output_directory: str | None,
    network: Network,
    display: Display,
) -> int:
    """Prove this machine to a key-release service, and write the keys it releases for their owner alone.

    With --expect-policy the service has to prove its own machine first: that the identity, the end of the TLS
    connection and the configuration live on a machine that meets the policy. Exit codes: 0 written, 1 the service
    refused, or its machine does not meet the policy, 2 usage, 4 something does not hold, 5 an endorsement is missing or
    the service cannot be reached, 6 this machine gave no evidence. Nothing is written then.
    """
    from functools import partial

    from attest.cli.machine import machine_of
    from attest.cli.releasing import Expected, Places, expectation, open_client
    from attest.collect import collect_machine

    if (expect_configuration is not None or unchecked_tls is not None) and expect_policy is None:
        raise click.UsageError("--expect-configuration and --unchecked-tls go with --expect-policy")
    places = Places.of(keys, output=output, directory=output_directory)
    wanted = Expected(
        policy=expect_policy,
        configuration=expect_configuration,
        unchecked_tls=unchecked_tls,
        endorsements=endorsements,
        anchors=anchors,
        allow_simulated=allow_simulated,
        offline=offline,
    )
    expect = expectation(wanted, network=network, display=display)
    if unchecked_tls is not None:
        display.warn(f"the TLS connection is not compared with what the service proves: {unchecked_tls}")
    attester = partial(collect_machine, access=machine_of(ctx, tcti), with_gpus=False if no_gpus else None)
    with open_client(kms, identity=identity, tls_ca=tls_ca, log_memory=log_memory, expect=expect) as client:
        released = client.release(keys, attester=attester)
        written = places.write(released)
        _tell(client, released, written, display=display)
    return 0


def _tell(
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
    proven = client.proven
    service: JsonValue = None
    if proven is not None:
        service = {
            "configuration_sha256": proven.statement.configuration_sha256.hex(),
            "version": proven.statement.version,
            "profile": proven.statement.profile,
            "simulated": proven.result.verified.simulated,
        }
        if proven.result.verified.simulated:
            display.warn("the service's machine is SIMULATED; it proves nothing about hardware")
    if "-" in written:
        return
    if display.json:
        from attest.cli.answering import print_document

        print_document({"schema": RELEASED_SCHEMA, "keys": rows, "service": service})
    elif not display.quiet:
        from attest.cli.tree import print_tree

        print_tree({"keys": rows, "service": service}, display=display)
