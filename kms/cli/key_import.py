"""Bringing keys in wrapped: the import key, and what seals a key to it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kms.cli.administration import administering
from kms.cli.inputs import read_input, read_policy_input
from kms.cli.keys import read_material
from kms.cli.options import FILE, key_argument, say
from kms.cli.service_demands import service_demands

if TYPE_CHECKING:
    from collections.abc import Callable

    from attest.release import VerifierKey
    from kms.cli.admin_client import AdminClient
    from kms.domain.keys import KeyName


@click.command("import-key")
@click.option("--tenant", default="default", show_default=True, help="For whose keys: it takes the right to make one.")
@administering()
def key_import_key(service: AdminClient, *, tenant: str) -> None:
    """Print the key that owners seal their keys to, signed by the service; the first time it is made."""
    click.echo(service.note("POST", "/v1/import-key", tenant=tenant), nl=False)


@click.command("wrap")
@key_argument
@click.option("--to", "note", required=True, type=FILE, help="What 'kms key import-key' printed.")
@click.option("--service", required=True, metavar="IDENTITY", help="The service's identity, as you know it.")
@click.option("--from", "source", required=True, type=FILE, help="Raw bytes; - for stdin.")
@click.option("--out", required=True, type=FILE, help="A file that is not there yet.")
@click.option("--policy", "policy_file", required=True, type=FILE, help="What is to guard it.")
@click.option("--version", "number", type=click.IntRange(1), default=1, show_default=True, help="Of the key.")
@click.option("--algorithm", default="symmetric-256", help="What it is (default symmetric-256).")
@service_demands
def key_wrap(
    *,
    name: KeyName,
    note: Path,
    service: str,
    source: Path,
    out: Path,
    policy_file: Path,
    number: int,
    algorithm: str,
    require_machine: Callable[[VerifierKey], None],
) -> None:
    """Seal a key to a service, as this key under this policy; this is for the owner, who needs no file of the service.

    With --kms and --expect-policy the service first proves its machine; if that fails, the key is not even read.

    A further version, which 'kms key rotate' takes, is sealed under the policy that the key has then.
    """
    from attest.errors import ConfigurationError, OutputError
    from attest.files import write_file
    from attest.release import VerifierKey, read_import_key
    from kms.domain.keys import KeyPurpose
    from kms.domain.material import ALGORITHMS, require_algorithm, require_material
    from kms.keys.import_key import first_terms, wrap_material

    known = VerifierKey.parse(service)
    found = ALGORITHMS.get(algorithm)
    require_algorithm(algorithm, purpose=KeyPurpose.MODEL_KEY if found is None else found.purpose)
    import_key = read_import_key(read_input(note).decode("utf-8", errors="replace"), service=known)
    require_machine(known)
    material = read_material(source)
    require_material(material, algorithm=algorithm)
    terms = replace(first_terms(name, algorithm=algorithm, policy=read_policy_input(policy_file)), version=number)
    wrapped = wrap_material(material, import_key=import_key, service=known, terms=terms)
    try:
        write_file(out, wrapped.to_json())
    except OutputError as exc:
        raise ConfigurationError(
            f"cannot write {out}: {exc.reason}", code="file-unwritable", field=str(out), hint="name a new file"
        ) from exc
    command = f"kms key import {name} --policy {policy_file}" if number == 1 else f"kms key rotate {name}"
    say(f"note: '{command} --wrapped {out}' brings it in, at this service, as this version and under this policy alone")


IMPORTS = (key_import_key, key_wrap)
"""Commands of ``kms key``."""
