"""``kms references``: documents of reference values that the policies of keys name."""

from __future__ import annotations

from pathlib import Path

import click

from attest.terminal import ExampleGroup
from kms.cli.administration import AdminClient, administering
from kms.cli.changes import TELLING, tell_change
from kms.cli.inputs import given_references, read_documents
from kms.cli.options import AS_JSON, FILE, JsonObject, print_rows, say


@click.group(
    cls=ExampleGroup,
    examples=(
        "kms references add vbios.json --config kms.toml",
        "kms references list --config kms.toml",
    ),
)
def references() -> None:
    """Add and list documents of reference values.

    The policies of keys name these documents.
    """


@references.command(
    "add", examples=("kms references add vbios.json --signature vbios.sig --key maker.pem --config kms.toml",)
)
@click.argument("document", type=FILE)
@click.option("--signature", "signatures", multiple=True, type=FILE, help="Signature over it. Repeatable.")
@click.option("--key", "keys", multiple=True, type=FILE, help="Public key of a signature (PEM). Repeatable.")
@administering(TELLING)
def references_add(
    service: AdminClient, *, document: Path, signatures: tuple[Path, ...], keys: tuple[Path, ...]
) -> None:
    """Put a newer version of a document into force.

    This takes effect with the next request. It applies to every key whose policy accepts it. The version must increase.
    If a version leaves a policy without values, the keys of that policy are not released.
    """
    (given,) = given_references(read_documents((document,), signatures, keys))
    done = service.post("/v1/references", given)
    word = "is in force" if done["new"] else "was in force already"
    named = {name: done[name] for name in ("name", "version", "sha256")}
    tell_change(
        "references-add",
        "{name} version {version} ({sha256})".format(**named) + f" {word} for {', '.join(done['keys'])}",
        details={"document": named, "new": done["new"], "keys": done["keys"], "blocked": done["blocked"]},
    )
    for key_id, why in done["blocked"].items():
        say(f"warning: the key {key_id} is not released at present: {why}")


@references.command("list", examples=("kms references list --config kms.toml",))
@administering(AS_JSON)
def references_list(service: AdminClient) -> None:
    """List all documents, their states and keys.

    Every version is listed, with the keys for which it is in force.
    """
    found = service.get("/v1/references")["references"]
    none = "there are no documents; add the first with 'kms key import --references'"
    print_rows({"schema": "kms.references/1", "references": found}, found, _line, none=none)


def _line(one: JsonObject) -> str:
    line = "{name}  version {version}  {sha256}  {state}, until {expires}  for {keys}"
    keys = ", ".join(one["keys"]) or "no key"
    return line.format(**{**one, "keys": keys, "expires": one["expires"] or "no end"})
