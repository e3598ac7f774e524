"""Import of sealed keys: the import key, and the command that seals a key to it.

The owner's requirements on the service's machine are checked before a secret is sealed to it (MC-30).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING

import click

from attest.terminal import ExampleCommand, stacked
from kms.cli.administration import AdminClient, administering
from kms.cli.inputs import read_hex, read_input, read_policy_input
from kms.cli.keys import algorithm_of, read_material, secret_option
from kms.cli.options import FILE, key_argument, say

if TYPE_CHECKING:
    from attest.release import VerifierKey
    from attest.session import SessionSettings
    from kms.domain.keys import KeyName


_DEMANDS = (
    click.option("--kms", "url", metavar="URL", help="Address of the service, which must prove its machine first."),
    click.option("--expect-policy", "policy", type=FILE, help="Policy that the service's machine must meet."),
    click.option(
        "--expect-configuration", "configuration", metavar="HEX", help="Expected SHA-256 of its configuration."
    ),
    click.option("--unchecked-tls", metavar="REASON", help="Do not compare the TLS key with the one it proves."),
    click.option("--tls-ca", type=FILE, help="The only CA that may issue its TLS certificate (PEM)."),
    click.option("--endorsements", multiple=True, type=FILE, help="Vendor endorsements of its machine. Repeatable."),
    click.option("--anchors", type=FILE, help="Add and remove trust anchors (TOML)."),
    click.option("--allow-simulated", is_flag=True, help="Also accept a simulated machine."),
    click.option("--offline", is_flag=True, help="Do not fetch vendor endorsements."),
)


def _service_demands(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options; the command gets ``require_machine``, which checks the machine of a service by its identity."""

    @wraps(command)
    def called(
        *,
        url: str | None,
        policy: Path | None,
        configuration: str | None,
        unchecked_tls: str | None,
        tls_ca: Path | None,
        endorsements: tuple[Path, ...],
        anchors: Path | None,
        allow_simulated: bool,
        offline: bool,
        **given: object,
    ) -> None:
        demands = (configuration, unchecked_tls, tls_ca, anchors, *endorsements)
        if (url is None) != (policy is None):
            raise click.UsageError("give --kms and --expect-policy together")
        if url is None and (any(one is not None for one in demands) or allow_simulated or offline):
            raise click.UsageError("requirements on the service's machine need --kms and --expect-policy")
        wanted = None if configuration is None else read_hex(configuration, "--expect-configuration")

        def require_machine(service: VerifierKey) -> None:
            from attest.session import SessionSettings

            if url is None:
                say("note: the service's machine is not checked; to check it, give --kms and --expect-policy")
                return
            settings = SessionSettings(
                url=url,
                service=service,
                policy=policy,
                configuration=wanted,
                unchecked_tls=unchecked_tls,
                tls_ca=tls_ca,
                endorsements=endorsements,
                anchors=anchors,
                allow_simulated=allow_simulated,
                offline=offline,
            )
            _prove(settings)

        command(require_machine=require_machine, **given)

    return stacked(_DEMANDS)(called)


def _prove(settings: SessionSettings) -> None:
    from attest.release import KeyReleaseClient
    from attest.session import expectation_of, open_http

    if settings.unchecked_tls is not None:
        say(f"warning: the TLS key is not compared with the one that the service proves: {settings.unchecked_tls}")
    if settings.allow_simulated:
        say("warning: a service on a SIMULATED machine is accepted, which proves nothing about hardware")
    with open_http(settings) as http:
        KeyReleaseClient(http, service=settings.service, expect=expectation_of(settings, None)).prove()


@click.command("import-key", cls=ExampleCommand, examples=("kms key import-key --config kms.toml > import-key.json",))
@click.option(
    "--tenant", default="default", show_default=True, help="Tenant of the keys; you need the right to create one."
)
@administering()
def key_import_key(service: AdminClient, *, tenant: str) -> None:
    """Print the import key, signed by the service.

    Owners seal their keys to it. The first call creates it.
    """
    click.echo(service.note("POST", "/v1/import-key", tenant=tenant), nl=False)


@click.command(
    "wrap",
    cls=ExampleCommand,
    examples=(
        "kms key wrap my-model --from model.key --policy policy.yaml --to import-key.json --service ID --out m.wrapped",
    ),
)
@key_argument
@click.option("--to", "note", required=True, type=FILE, help="Output of 'kms key import-key'.")
@click.option("--service", required=True, metavar="IDENTITY", help="Service identity that you trust.")
@click.option("--from", "source", required=True, type=FILE, help="File with the key, raw, or the secret; - for stdin.")
@click.option("--out", required=True, type=FILE, help="Output file, which must not exist.")
@click.option("--policy", "policy_file", required=True, type=FILE, help="Policy that guards the key.")
@click.option("--version", "number", type=click.IntRange(1), default=1, show_default=True, help="Version of the key.")
@secret_option
@click.option("--algorithm", help="Algorithm of the key (default symmetric-256).")
@_service_demands
def key_wrap(
    *,
    name: KeyName,
    note: Path,
    service: str,
    source: Path,
    out: Path,
    policy_file: Path,
    number: int,
    secret: bool,
    algorithm: str | None,
    require_machine: Callable[[VerifierKey], None],
) -> None:
    """Seal a key or a secret to a service, bound to this name and policy. Its owner runs this, without service files.

    With --kms and --expect-policy the service must first prove its machine; if that fails, the key is not read.

    To seal a new version for 'kms key rotate', use the policy that the key has at that time.
    """
    from attest.errors import ConfigurationError, OutputError
    from attest.files import write_file
    from attest.release import VerifierKey, read_import_key
    from kms.domain.keys import KeyPurpose
    from kms.domain.material import ALGORITHMS, owned_material, require_algorithm, require_material
    from kms.keys.import_key import first_terms, wrap_material

    algorithm = algorithm_of(algorithm, secret=secret)
    known = VerifierKey.parse(service)
    found = ALGORITHMS.get(algorithm)
    require_algorithm(algorithm, purpose=KeyPurpose.MODEL_KEY if found is None else found.purpose)
    import_key = read_import_key(read_input(note).decode("utf-8", errors="replace"), service=known)
    require_machine(known)
    material = owned_material(read_material(source), algorithm=algorithm)
    require_material(material, algorithm=algorithm)
    terms = replace(first_terms(name, algorithm=algorithm, policy=read_policy_input(policy_file)), version=number)
    wrapped = wrap_material(material, import_key=import_key, service=known, terms=terms)
    try:
        write_file(out, wrapped.to_json())
    except OutputError as exc:
        raise ConfigurationError(
            f"cannot write {out}: {exc.reason}", code="file-unwritable", field=str(out), hint="name a new file"
        ) from exc
    kind = " --secret" if secret else ""
    command = f"kms key import {name}{kind} --policy {policy_file}" if number == 1 else f"kms key rotate {name}"
    say(f"note: import it with '{command} --wrapped {out}'; only this service accepts it, as this version and policy")


IMPORTS = (key_import_key, key_wrap)
"""Commands of ``kms key``."""
