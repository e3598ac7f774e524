"""Keys at the command line: create, import, list, show, disable and enable. No command prints a key.

``key_life.py`` has the later lifecycle.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from attest.terminal import ExampleGroup
from kms.cli.administration import AdminClient, administering
from kms.cli.changes import TELLING, tell_change
from kms.cli.inputs import given_references, read_input, read_policy_input, references_options
from kms.cli.options import (
    AS_JSON,
    FILE,
    JsonObject,
    key_argument,
    key_path,
    print_json,
    print_rows,
    reference_argument,
    say,
    wants_json,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kms.domain.keys import KeyName, KeyReference
    from kms.domain.references import StoredDocument
    from kms.domain.secret import SecretBytes


def material_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that supply an owner's key; the command gets ``source`` and ``wrapped``."""
    clear = click.option("--from", "source", type=FILE, help="File with the key, raw, or the secret; - for stdin.")
    sealed = click.option("--wrapped", type=FILE, help="File with a sealed key, the output of 'kms key wrap'.")
    return clear(sealed(command))


def secret_option(command: Callable[..., None]) -> Callable[..., None]:
    """Add ``--secret``."""
    return click.option("--secret", is_flag=True, help="An opaque secret of up to 64 KiB, not a key.")(command)


@click.group(
    cls=ExampleGroup,
    examples=(
        "kms key import my-model --from model.key --policy policy.yaml --config kms.toml",
        "kms key list --config kms.toml",
        "kms key disable my-model --config kms.toml",
    ),
)
def key() -> None:
    """Create, import, list, rotate, disable and destroy keys.

    No command prints a key.
    """


@key.command(
    "create",
    examples=(
        "kms key create my-model --policy policy.yaml --config kms.toml",
        "kms key create prompts --purpose prompt-key --policy policy.yaml --config kms.toml",
    ),
)
@key_argument
@click.option("--policy", "policy_file", required=True, type=FILE, help="Policy document.")
@click.option(
    "--purpose", type=click.Choice(["model-key", "prompt-key"]), default="model-key", help="Purpose of the key."
)
@click.option("--algorithm", help="For prompt keys: hpke-mlkem768-x25519 (default) or hpke-x25519.")
@references_options
@administering(AS_JSON)
def key_create(
    *,
    service: AdminClient,
    name: KeyName,
    policy_file: Path,
    purpose: str,
    algorithm: str | None,
    references: tuple[StoredDocument, ...],
) -> None:
    """Create a key that the service generates.

    Only this service and conforming workloads can see it.
    """
    wanted = _wanted(name, policy_file, algorithm, references)
    tell_versions([service.post("/v1/keys", {**wanted, "purpose": purpose})])


@key.command(
    "import",
    examples=(
        "kms key import my-model --from model.key --policy policy.yaml --config kms.toml",
        "kms key import my-model --wrapped model.wrapped --policy policy.yaml --server https://kms.example:8751",
        "kms key import database-url --secret --from - --policy policy.yaml --config kms.toml",
    ),
)
@key_argument
@material_options
@secret_option
@click.option("--algorithm", help="Algorithm of the key, which also determines its purpose (default symmetric-256).")
@click.option("--policy", "policy_file", required=True, type=FILE, help="Policy document.")
@references_options
@administering(AS_JSON)
def key_import(
    *,
    service: AdminClient,
    name: KeyName,
    source: Path | None,
    wrapped: Path | None,
    secret: bool,
    algorithm: str | None,
    policy_file: Path,
    references: tuple[StoredDocument, ...],
) -> None:
    """Import a key that its owner created. A server accepts it only sealed, as written by 'kms key wrap'.

    With --secret, import a secret of 1 byte to 64 KiB: a password, a URL, a token or a PEM. Its bytes are stored as
    they are, a newline at the end included, and no command prints them.
    """
    algorithm = algorithm_of(algorithm, secret=secret)
    require_one_source(service, source, wrapped)
    if source is None and wrapped is None:
        raise click.UsageError("give the key with --from or --wrapped")
    wanted = _wanted(name, policy_file, algorithm, references)
    if wrapped is not None:
        made = service.post("/v1/keys/import", {**wanted, "wrapped": read_wrapped(wrapped)})
    else:
        made = service.post("/v1/keys", wanted, material=material_of(source))
    tell_versions([made])


def _wanted(
    name: KeyName, policy_file: Path, algorithm: str | None, references: tuple[StoredDocument, ...]
) -> JsonObject:
    policy = read_policy_input(policy_file).decode()
    named = {"tenant": name.tenant, "key_id": name.key_id, "algorithm": algorithm}
    return {**named, "policy": policy, "references": given_references(references)}


def algorithm_of(algorithm: str | None, *, secret: bool) -> str:
    """Return the algorithm of an imported key or, with ``--secret``, of a secret."""
    if secret and algorithm is not None:
        raise click.UsageError("give either --secret or --algorithm")
    return "opaque" if secret else algorithm or "symmetric-256"


def tell_versions(keys: Sequence[JsonObject]) -> None:
    """Print versions of keys: a line each, or one document."""
    print_rows({"schema": "kms.keys/1", "keys": keys}, keys, _line)


def _line(one: JsonObject) -> str:
    from attest.release import KeyName

    name = KeyName(tenant=one["tenant"], key_id=one["key_id"])
    until = {"overlap": one["overlap_until"], "destroying": one["destroy_at"]}.get(one["state"])
    words = [one["state"], *([f"until {until}"] if until is not None else [])]
    if not one["enabled"]:
        words.append("disabled")
    return f"{name}  version {one['version']}  {one['purpose']}  {' '.join(words)}  policy {one['policy_sha256']}"


def require_one_source(service: AdminClient, source: Path | None, wrapped: Path | None) -> None:
    """Refuse a key that is given twice, or in plaintext to a server."""
    if source is not None and wrapped is not None:
        raise click.UsageError("give either --from or --wrapped, not both")
    if source is not None and service.is_remote:
        raise click.UsageError("a server takes only sealed keys: 'kms key import-key', 'kms key wrap', then --wrapped")


def read_wrapped(file: Path) -> str:
    """Read a sealed key as written by 'kms key wrap'."""
    return read_input(file).decode("utf-8", errors="replace")


def material_of(source: Path | None) -> SecretBytes | None:
    """Read a key from a file, if one is given."""
    return None if source is None else read_material(source)


def read_material(source: Path) -> SecretBytes:
    """Read a key or a secret from a file that only its owner can read, or from standard input.

    A terminal does not show what is typed.
    """
    from kms.domain.secret import SecretBytes

    if str(source) == "-" and sys.stdin.isatty():
        typed: str = click.prompt("Secret", hide_input=True, confirmation_prompt=True, err=True)
        return SecretBytes(typed.encode())
    return SecretBytes(read_input(source, secret=True))


@key.command(
    "list",
    examples=(
        "kms key list --config kms.toml",
        "kms key list --tag team=search --json --config kms.toml",
    ),
)
@click.option("--tenant", help="Only the keys of this tenant.")
@click.option(
    "--tag", "tags", multiple=True, metavar="NAME=VALUE", help="Only keys with this tag. Repeatable: with all."
)
@administering(AS_JSON)
def key_list(service: AdminClient, *, tenant: str | None, tags: tuple[str, ...]) -> None:
    """List all versions of all keys with state and policy."""
    from kms.keys.tags import parse_tags

    wanted = [f"{tag}={value}" for tag, value in parse_tags(tags).items()]
    found = service.get("/v1/keys", tenant=tenant, tag=wanted)["keys"]
    tell_versions(found)
    if not found and not wants_json():
        which = "such keys" if wanted or tenant is not None else "keys"
        say(f"note: there are no {which}; add one with 'kms key import' or 'kms key create'")


@key.command("show", examples=("kms key show hospital/records --config kms.toml",))
@key_argument
@administering(AS_JSON)
def key_show(service: AdminClient, *, name: KeyName) -> None:
    """Show a key: state, policy, reference values in force."""
    found = service.get(key_path(name))
    if wants_json():
        print_json({"schema": "kms.key/1", **found})
        return
    _show(found)


def _show(found: JsonObject) -> None:
    *before, newest = found["versions"]
    for label, value in newest.items():
        click.echo(f"{label + ':':15} {value}")
    for one in before:
        click.echo("before:         version {version} {state}".format(**one))
    if found["schedule"] is not None:
        click.echo("rotation:       due {due_at}, every {every_seconds} s".format(**found["schedule"]))
    for tag, text in found["tags"].items():
        click.echo(f"tag:            {tag}={text}")
    for one in found["references"]:
        click.echo("references:     {name} version {version} {sha256}".format(**one))
    for one in found["floors"]:
        because = "; ".join(one["because"])
        click.echo("floor:          {scope} version {version} {sha256}".format(**one) + f" ({because})")
    if found["obstacle"] is not None:
        say(f"warning: the key is not released at present: {found['obstacle']}")
    click.echo(f"policy:\n{found['policy'].rstrip()}")


@key.command(
    "disable",
    examples=(
        "kms key disable my-model --config kms.toml",
        "kms key disable my-model@2 --config kms.toml",
    ),
)
@reference_argument
@administering(TELLING)
def key_disable(service: AdminClient, *, reference: KeyReference) -> None:
    """Immediately stop the release of a key or version.

    Workloads that already hold it keep it.
    """
    _set_enabled(service, reference, enabled=False)


@key.command("enable", examples=("kms key enable my-model --config kms.toml",))
@reference_argument
@administering(TELLING)
def key_enable(service: AdminClient, *, reference: KeyReference) -> None:
    """Allow the release of a disabled key or version again."""
    _set_enabled(service, reference, enabled=True)


def _set_enabled(service: AdminClient, reference: KeyReference, *, enabled: bool) -> None:
    verb = "enable" if enabled else "disable"
    service.post(key_path(reference.name, verb), {"version": reference.version})
    details = {
        "tenant": reference.name.tenant,
        "key_id": reference.name.key_id,
        "version": reference.version,
        "enabled": enabled,
    }
    tell_change(f"key-{verb}", f"{reference} is {verb}d", details=details)
