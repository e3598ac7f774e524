"""Keys at the command line: make, import, list, show, disable and enable. No command prints one.

``cli_key_life.py`` has what becomes of them later.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kms.cli.changes import TELLING, tell_change
from kms.cli.options import (
    AS_JSON,
    SETTINGS,
    key_argument,
    load,
    moment,
    print_json,
    read_input,
    read_policy_input,
    reference_argument,
    references_options,
    say,
    vault,
    with_options,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from attest.release.key_import import ImportTerms
    from kms.config.settings import Settings
    from kms.domain.keys import KeyName, KeyRecord, KeyReference
    from kms.domain.references import StoredDocument
    from kms.domain.secret import SecretBytes
    from kms.keys.vault import Vault
    from kms.store import Store

__all__ = ["given_material", "key", "material_options", "read_material", "tell_versions"]


def material_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options by which an owner's key comes in; the command gets ``source`` and ``wrapped``."""
    clear = click.option("--from", "source", type=click.Path(path_type=Path), help="Raw bytes; - for stdin.")
    sealed = click.option("--wrapped", type=click.Path(path_type=Path), help="What 'kms key wrap' wrote.")
    return clear(sealed(command))


@click.group()
def key() -> None:
    """Make, import, list, show, rotate, disable and destroy keys. No command prints one."""


@key.command("create")
@key_argument
@click.option("--policy", "policy_file", required=True, type=click.Path(path_type=Path), help="Policy document.")
@click.option("--purpose", type=click.Choice(["model-key", "prompt-key"]), default="model-key", help="What it is for.")
@click.option("--algorithm", help="For prompt keys hpke-mlkem768-x25519 (default) or hpke-x25519.")
@references_options
@with_options(*SETTINGS, AS_JSON)
def key_create(
    *,
    name: KeyName,
    policy_file: Path,
    purpose: str,
    algorithm: str | None,
    references: tuple[StoredDocument, ...],
    config: Path | None,
    as_json: bool,
    **flags: object,
) -> None:
    """Make a new key that only this service and conforming workloads ever see."""
    from kms.domain.actors import local_actor
    from kms.domain.keys import KeyPurpose
    from kms.domain.material import DEFAULT_ALGORITHMS, new_material, require_algorithm
    from kms.keys.admin import KEY_CREATED, add_key

    policy = read_policy_input(policy_file)
    chosen = KeyPurpose(purpose)
    named = require_algorithm(algorithm or DEFAULT_ALGORITHMS[chosen], purpose=chosen)
    opened = vault(config, flags)
    material = new_material(named, random=secrets.token_bytes)
    record = add_key(
        opened.store,
        opened.kek,
        name=name,
        material=material,
        policy=policy,
        kind=KEY_CREATED,
        actor=local_actor(),
        at=moment(),
        algorithm=named,
        references=references,
    )
    tell_versions([record], at=record.created_at, as_json=as_json)


@key.command("import")
@key_argument
@material_options
@click.option("--algorithm", default="symmetric-256", help="What it is; with it goes what it is for.")
@click.option("--policy", "policy_file", required=True, type=click.Path(path_type=Path), help="Policy document.")
@references_options
@with_options(*SETTINGS, AS_JSON)
def key_import(
    *,
    name: KeyName,
    source: Path | None,
    wrapped: Path | None,
    algorithm: str,
    policy_file: Path,
    references: tuple[StoredDocument, ...],
    config: Path | None,
    as_json: bool,
    **flags: object,
) -> None:
    """Keep a key that its owner made."""
    from kms.domain.actors import local_actor
    from kms.domain.keys import KeyPurpose
    from kms.domain.material import ALGORITHMS, require_algorithm
    from kms.keys.admin import KEY_IMPORTED, add_key
    from kms.keys.import_key import first_terms

    found = ALGORITHMS.get(algorithm)
    require_algorithm(algorithm, purpose=KeyPurpose.MODEL_KEY if found is None else found.purpose)
    policy = read_policy_input(policy_file)
    opened = vault(config, flags)
    terms = first_terms(name, algorithm=algorithm, policy=policy)
    material = given_material(opened, terms, source, wrapped, settings=load(config, flags).settings)
    if material is None:
        raise click.UsageError("give the key with --from or --wrapped")
    record = add_key(
        opened.store,
        opened.kek,
        name=name,
        material=material,
        policy=policy,
        kind=KEY_IMPORTED,
        actor=local_actor(),
        at=moment(),
        algorithm=algorithm,
        references=references,
    )
    tell_versions([record], at=record.created_at, as_json=as_json)


def tell_versions(records: Sequence[KeyRecord], *, at: datetime, as_json: bool) -> None:
    """Say which versions of keys were made: a line each, or as 'kms key list --json' does."""
    from kms.keys.description import record_line, record_members

    if as_json:
        print_json({"schema": "kms.keys/1", "keys": [record_members(record, at=at) for record in records]})
        return
    for record in records:
        click.echo(record_line(record, at=at))


def given_material(
    opened: Vault, terms: ImportTerms, source: Path | None, wrapped: Path | None, *, settings: Settings
) -> SecretBytes | None:
    """Read material that its owner made, in the clear or sealed to the import key; None when none was given."""
    from kms.keys.import_key import unwrap_material
    from kms.operations.services import open_identity

    if source is not None and wrapped is not None:
        raise click.UsageError("give the key with --from or with --wrapped, not with both")
    if wrapped is None:
        return None if source is None else read_material(source)
    service = open_identity(opened, settings).public
    return unwrap_material(opened.store, opened.kek, read_input(wrapped), service=service, terms=terms)


def read_material(source: Path) -> SecretBytes:
    """Read a key from a file, or from standard input, and say when others can read the file too."""
    from kms.domain.secret import SecretBytes

    material = SecretBytes(read_input(source))
    if str(source) != "-" and source.stat().st_mode & 0o077:
        say(f"warning: others can read {source}; chmod 600 it, or delete it when it is no longer needed")
    return material


@key.command("list")
@click.option("--tenant", help="Only the keys of this tenant.")
@click.option("--tag", "tags", multiple=True, metavar="NAME=VALUE", help="Only keys with this tag, or all of these.")
@with_options(*SETTINGS, AS_JSON)
def key_list(tenant: str | None, tags: tuple[str, ...], config: Path | None, as_json: bool, **flags: object) -> None:
    """List every version of every key with its state and policy."""
    from kms.keys.description import record_line, record_members
    from kms.keys.tags import parse_tags

    wanted, at = parse_tags(tags), moment()
    with vault(config, flags).store.reading() as reader:
        records = reader.keys.all(tenant)
        if wanted:
            tagged = reader.tags.keys_with(wanted)
            records = tuple(record for record in records if record.name in tagged)
    if as_json:
        print_json({"schema": "kms.keys/1", "keys": [record_members(record, at=at) for record in records]})
        return
    for record in records:
        click.echo(record_line(record, at=at))
    if not records:
        which = "such keys" if wanted or tenant is not None else "keys"
        say(f"note: there are no {which}; 'kms key import' and 'kms key create' make one")


@key.command("show")
@key_argument
@with_options(*SETTINGS, AS_JSON)
def key_show(name: KeyName, config: Path | None, as_json: bool, **flags: object) -> None:
    """Show a key's state, the policy that guards it, and the documents of reference values in force for it."""
    from kms.keys.admin import find_key
    from kms.keys.description import record_members, schedule_members
    from kms.references.intake import reference_members
    from kms.references.resolution import find_guard

    store = vault(config, flags).store
    record, policy = find_key(store, name)
    at = moment()
    with store.reading() as reader:
        guard = find_guard(reader, record.policy_digest)
        versions = [record_members(one, at=at) for one in reader.keys.versions(name)]
        schedule, tags = schedule_members(reader.schedules.find(name)), dict(reader.tags.of_key(name))
    documents = [reference_members(document) for document in guard.documents]
    obstacle = None if guard.problem is None else guard.problem.message
    if as_json:
        text = policy.decode("utf-8", errors="replace")
        more: dict[str, object] = {"policy": text, "references": documents, "obstacle": obstacle}
        more |= {"versions": versions, "schedule": schedule, "tags": tags}
        print_json({"schema": "kms.key/1", **record_members(record, at=at), **more})
        return
    for label, value in record_members(record, at=at).items():
        click.echo(f"{label + ':':15} {value}")
    for one in versions[:-1]:
        click.echo("before:         version {version} {state}".format(**one))
    if schedule is not None:
        click.echo("rotation:       due {due_at}, every {every_seconds} s".format(**schedule))
    for tag, text in tags.items():
        click.echo(f"tag:            {tag}={text}")
    for one in documents:
        click.echo("references:     {name} version {version} {sha256}".format(**one))
    if obstacle is not None:
        say(f"warning: the key is released to nobody now: {obstacle}")
    click.echo(f"policy:\n{policy.decode('utf-8', errors='replace').rstrip()}")


@key.command("disable")
@reference_argument
@with_options(*SETTINGS, TELLING)
def key_disable(asked: KeyReference, config: Path | None, **flags: object) -> None:
    """Stop a key, or one version, from being released, at once. Workloads that have it already keep it."""
    _set_enabled(vault(config, flags).store, asked, enabled=False)


@key.command("enable")
@reference_argument
@with_options(*SETTINGS, TELLING)
def key_enable(asked: KeyReference, config: Path | None, **flags: object) -> None:
    """Let a disabled key, or a disabled version, be released again."""
    _set_enabled(vault(config, flags).store, asked, enabled=True)


def _set_enabled(store: Store, asked: KeyReference, *, enabled: bool) -> None:
    from kms.domain.actors import local_actor
    from kms.keys.admin import set_enabled, set_version_enabled

    if asked.version is None:
        set_enabled(store, asked.name, enabled=enabled, actor=local_actor(), at=moment())
    else:
        set_version_enabled(store, asked, enabled=enabled, actor=local_actor(), at=moment())
    details = {"tenant": asked.name.tenant, "key_id": asked.name.key_id, "version": asked.version, "enabled": enabled}
    line = f"{asked} is {'enabled' if enabled else 'disabled'}"
    tell_change("key-enable" if enabled else "key-disable", line, details=details)
