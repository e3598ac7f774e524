"""Keys at the command line: make, import, list, show, disable and enable. No command prints one."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kms.cli_options import (
    AS_JSON,
    SETTINGS,
    key_argument,
    moment,
    print_json,
    read_input,
    read_policy_input,
    references_options,
    say,
    vault,
    with_options,
)

if TYPE_CHECKING:
    from kms.keys.records import KeyName, KeyRecord
    from kms.references.records import StoredDocument

__all__ = ["key"]


@click.group()
def key() -> None:
    """Make, import, list, show, disable and enable keys. No command prints one."""


@key.command("create")
@key_argument
@click.option("--policy", "policy_file", required=True, type=click.Path(path_type=Path), help="Policy document.")
@references_options
@with_options(*SETTINGS)
def key_create(
    *, name: KeyName, policy_file: Path, references: tuple[StoredDocument, ...], config: Path | None, **flags: object
) -> None:
    """Make a new key that only this service and conforming workloads ever see."""
    from kms.actors import local_actor
    from kms.keys.admin import KEY_CREATED, add_key, new_key

    policy = read_policy_input(policy_file)
    opened = vault(config, flags)
    material = new_key(secrets.token_bytes)
    record = add_key(
        opened.store,
        opened.kek,
        name=name,
        material=material,
        policy=policy,
        kind=KEY_CREATED,
        actor=local_actor(),
        at=moment(),
        references=references,
    )
    click.echo(_line(record))


@key.command("import")
@key_argument
@click.option("--from", "source", required=True, type=click.Path(path_type=Path), help="32 raw bytes; - for stdin.")
@click.option("--policy", "policy_file", required=True, type=click.Path(path_type=Path), help="Policy document.")
@references_options
@with_options(*SETTINGS)
def key_import(
    *,
    name: KeyName,
    source: Path,
    policy_file: Path,
    references: tuple[StoredDocument, ...],
    config: Path | None,
    **flags: object,
) -> None:
    """Keep a key that its owner made."""
    from kms.actors import local_actor
    from kms.keys.admin import KEY_IMPORTED, add_key
    from kms.keys.secret import SecretBytes

    policy = read_policy_input(policy_file)
    material = SecretBytes(read_input(source))
    if str(source) != "-" and source.stat().st_mode & 0o077:
        say(f"warning: others can read {source}; chmod 600 it, or delete it when it is no longer needed")
    opened = vault(config, flags)
    record = add_key(
        opened.store,
        opened.kek,
        name=name,
        material=material,
        policy=policy,
        kind=KEY_IMPORTED,
        actor=local_actor(),
        at=moment(),
        references=references,
    )
    click.echo(_line(record))


@key.command("list")
@click.option("--tenant", help="Only the keys of this tenant.")
@with_options(*SETTINGS, AS_JSON)
def key_list(tenant: str | None, config: Path | None, as_json: bool, **flags: object) -> None:
    """List every key with its state and policy."""
    with vault(config, flags).store.reading() as reader:
        records = reader.all_keys(tenant)
    if as_json:
        print_json({"schema": "kms.keys/1", "keys": [_members(record) for record in records]})
        return
    for record in records:
        click.echo(_line(record))
    if not records:
        say("note: there are no keys; 'kms key import' and 'kms key create' make one")


@key.command("show")
@key_argument
@with_options(*SETTINGS, AS_JSON)
def key_show(name: KeyName, config: Path | None, as_json: bool, **flags: object) -> None:
    """Show a key's state, the policy that guards it, and the documents of reference values in force for it."""
    from kms.keys.admin import find_key
    from kms.references.intake import reference_members
    from kms.references.resolving import find_guard

    store = vault(config, flags).store
    record, policy = find_key(store, name)
    with store.reading() as reader:
        guard = find_guard(reader, record.policy_digest)
    documents = [reference_members(document) for document in guard.documents]
    obstacle = None if guard.problem is None else guard.problem.message
    if as_json:
        text = policy.decode("utf-8", errors="replace")
        more = {"policy": text, "references": documents, "obstacle": obstacle}
        print_json({"schema": "kms.key/1", **_members(record), **more})
        return
    for label, value in _members(record).items():
        click.echo(f"{label + ':':15} {value}")
    for one in documents:
        click.echo("references:     {name} version {version} {sha256}".format(**one))
    if obstacle is not None:
        say(f"warning: the key is released to nobody now: {obstacle}")
    click.echo(f"policy:\n{policy.decode('utf-8', errors='replace').rstrip()}")


@key.command("disable")
@key_argument
@with_options(*SETTINGS)
def key_disable(name: KeyName, config: Path | None, **flags: object) -> None:
    """Stop a key from being released, at once. Workloads that have it already keep it."""
    from kms.actors import local_actor
    from kms.keys.admin import set_enabled

    set_enabled(vault(config, flags).store, name, enabled=False, actor=local_actor(), at=moment())
    click.echo(f"{name} is disabled")


@key.command("enable")
@key_argument
@with_options(*SETTINGS)
def key_enable(name: KeyName, config: Path | None, **flags: object) -> None:
    """Let a disabled key be released again."""
    from kms.actors import local_actor
    from kms.keys.admin import set_enabled

    set_enabled(vault(config, flags).store, name, enabled=True, actor=local_actor(), at=moment())
    click.echo(f"{name} is enabled")


def _members(record: KeyRecord) -> dict[str, object]:
    from attest.encoding import rfc3339_text

    return {
        "tenant": record.name.tenant,
        "key_id": record.name.key_id,
        "version": record.version,
        "purpose": str(record.purpose),
        "algorithm": record.algorithm,
        "state": "enabled" if record.enabled else "disabled",
        "policy_sha256": record.policy_digest.hex(),
        "created_at": rfc3339_text(record.created_at),
    }


def _line(record: KeyRecord) -> str:
    members = _members(record)
    return f"{record.name}  " + "version {version}  {purpose}  {state}  policy {policy_sha256}".format(**members)
