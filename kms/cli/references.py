"""``kms references``: documents of reference values that the policies of keys name."""

from __future__ import annotations

from pathlib import Path

import click

from kms.cli.changes import TELLING, tell_change
from kms.cli.options import AS_JSON, SETTINGS, moment, print_json, read_documents, say, vault, with_options

__all__ = ["references"]


@click.group()
def references() -> None:
    """Take in and list documents of reference values, which the policies of keys name."""


@references.command("add")
@click.argument("document", type=click.Path(path_type=Path))
@click.option(
    "--signature", "signatures", multiple=True, type=click.Path(path_type=Path), help="Signature over it. Repeatable."
)
@click.option(
    "--key", "keys", multiple=True, type=click.Path(path_type=Path), help="Public key that made one (PEM). Repeatable."
)
@with_options(*SETTINGS, TELLING)
def references_add(
    document: Path, signatures: tuple[Path, ...], keys: tuple[Path, ...], config: Path | None, **flags: object
) -> None:
    """Put a newer version of a document into force, for every key whose policy accepts it, from the next request on.

    The version only grows. A version that leaves a policy without values stops the release of its keys.
    """
    from kms.domain.actors import local_actor
    from kms.references.intake import add_document, reference_members

    (given,) = read_documents((document,), signatures, keys)
    done = add_document(vault(config, flags).store, given, actor=local_actor(), at=moment())
    word = "is in force" if done.new else "was there already"
    held = ", ".join(done.keys)
    tell_change(
        "references-add",
        f"{given.name} version {given.version} ({given.digest.hex()}) {word} for {held}",
        details={"document": reference_members(done.document), "new": done.new, "keys": list(done.keys)}
        | {"blocked": dict(done.blocked)},
    )
    for key_id, why in done.blocked.items():
        say(f"warning: the key {key_id} is released to nobody now: {why}")


@references.command("list")
@with_options(*SETTINGS, AS_JSON)
def references_list(config: Path | None, as_json: bool, **flags: object) -> None:
    """List every version of every document, whether it counts, and for which keys it is in force."""
    from kms.references.intake import list_documents
    from kms.references.render import in_force_members

    at = moment()
    with vault(config, flags).store.reading() as reader:
        found = list_documents(reader)
    if as_json:
        print_json({"schema": "kms.references/1", "references": [in_force_members(one, at=at) for one in found]})
        return
    for one in found:
        members = in_force_members(one, at=at)
        line = "{name}  version {version}  {sha256}  {state}, until {expires}  for {keys}"
        keys = ", ".join(one.keys) or "no key"
        click.echo(line.format(**{**members, "keys": keys, "expires": members["expires"] or "no end"}))
    if not found:
        say("note: there are no documents; 'kms key import --references' brings the first")
