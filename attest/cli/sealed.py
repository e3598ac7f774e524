"""``attest sealed``: the content of a sealed model, its verification, and its keys."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from attest.cli.model_keys import MODEL_ID, TRUST, KeyOptions, model_key_options, signing_key, trusted_keys
from attest.cli.option_values import hex_of
from attest.cli.place_options import PlaceOptions, place_options
from attest.cli.seal import THREADS, manifest_document, show, verify_model
from attest.cli.sealed_access import cat, ls
from attest.terminal.display import Display, display_options
from attest.terminal.lazy_commands import ExampleGroup

if TYPE_CHECKING:
    from attest.encoding import JsonValue
    from attest.sealed import SealedManifest, SealingNames
    from attest.sealed.manifest import SealedEntry

INFO_SCHEMA = "attest.sealed-info/1"
VERIFIED_SCHEMA = "attest.sealed-verification/1"
REWRAPPED_SCHEMA = "attest.sealed-rewrapped/1"


@click.group(
    cls=ExampleGroup,
    short_help="Show, verify, read and rewrap sealed models; make their keys.",
    examples=(
        "attest sealed verify my-model.sealed --trust owner.pub           # whole, and its owner's? No key needed",
        "attest sealed info my-model.sealed                               # show the content (nothing is verified)",
    ),
)
def sealed() -> None:
    """Show, verify, read and rewrap sealed models; make their keys."""


sealed.add_command(ls)
sealed.add_command(cat)


@sealed.command(
    examples=("attest sealed info my-model.sealed", "attest sealed info my-model.sealed --trust owner.pub --json")
)
@click.argument("model", metavar="DIR")
@click.option("--trust", metavar="PEM", multiple=True, help="Verify first: the public key of the model's owner.")
@place_options
@display_options
def info(*, model: str, trust: tuple[str, ...], access: PlaceOptions, display: Display) -> int:
    """Show the manifest of a sealed model. Without --trust nothing is verified.

    For each file: its name, its sizes, and the associated data with which any Tink library opens it.
    """
    from attest.sealed import verify_directory
    from attest.sealed.directory import unverified_manifest
    from attest.sealed.manifest import associated_data

    with access.opened(model) as store:
        if trust:
            manifest = verify_directory(store, trusted=trusted_keys(trust)).manifest
        else:
            manifest = unverified_manifest(store)
    if not trust:
        display.warn("nothing is verified: --trust names the owner's key")
    files: list[JsonValue] = [_file(one, associated_data(manifest.model, one.path)) for one in manifest.files]
    document = {"schema": INFO_SCHEMA, "verified": bool(trust), **manifest_document(manifest), "list": files}
    show(document, display=display)
    return 0


def _file(one: SealedEntry, associated_data: bytes) -> dict[str, JsonValue]:
    return {
        "path": one.path,
        "size": one.size,
        "sealed": one.sealed,
        "sealed_size": one.sealed_size,
        "sha256": None if one.sha256 is None else one.sha256.hex(),
        "associated_data": associated_data.hex(),
    }


@sealed.command(
    examples=(
        "attest sealed verify my-model.sealed --trust owner.pub",
        "attest sealed verify my-model.sealed --trust owner.pub --sizes-only",
    )
)
@click.argument("model", metavar="DIR")
@TRUST
@MODEL_ID
@click.option("--sizes-only", is_flag=True, help="Check only signature, names and sizes, not the bytes of the files.")
@THREADS
@place_options
@display_options
def verify(
    *,
    model: str,
    trust: tuple[str, ...],
    model_id: bytes | None,
    sizes_only: bool,
    threads: int | None,
    access: PlaceOptions,
    display: Display,
) -> int:
    """Check a sealed model without its key: the owner's signature, and every file by name, size and digest.

    Exit codes: 0 verified, 2 usage, 3 no sealed model, 4 something does not verify, 6 a file cannot be read.
    """
    from attest.sealed.locations import connections_of

    trusted = trusted_keys(trust)
    with access.opened(model) as store:
        threads = connections_of(store) if threads is None else threads
        verified = verify_model(
            store, trusted=trusted, model_id=model_id, digests=not sizes_only, threads=threads, display=display
        )
    document: dict[str, JsonValue] = {
        "schema": VERIFIED_SCHEMA,
        "outcome": "verified",
        "signed_by": verified.model.key,
        "digests": "compared" if verified.digests_verified else "not evaluated",
    }
    show({**document, **manifest_document(verified.manifest)}, display=display)
    return 0


@sealed.command(
    examples=(
        "attest sealed rewrap SEALED --key-file 1.key --new-key m@2 --new-key-file 2.key --signing-key … --trust …",
        "attest sealed rewrap SEALED --kms … --identity … --new-key m --signing-key owner.pem --trust owner.pub",
    )
)
@click.argument("model", metavar="DIR")
@TRUST
@MODEL_ID
@click.option("--new-key", metavar="KEY[@VERSION]", required=True, help="The new key.")
@click.option("--new-key-file", metavar="FILE", help="A file with that key; without it the service provides the key.")
@click.option("--signing-key", "signer", metavar="PEM", required=True, help="The owner's private key, P-384 or P-256.")
@click.option("--policy-digest", type=hex_of(32), metavar="HEX", help="The policy that the key is released under.")
@model_key_options
def rewrap(
    *,
    model: str,
    trust: tuple[str, ...],
    model_id: bytes | None,
    new_key: str,
    new_key_file: str | None,
    signer: str,
    policy_digest: bytes | None,
    key_from: KeyOptions,
) -> int:
    """Put a sealed model under another key or version, and sign it again: two small files change, and no data.

    The old key still opens earlier copies. After an interruption, the same command completes the change.
    """
    import os

    from attest.release.names import KeyReference
    from attest.sealed import rewrap as rewrap_model
    from attest.sealed.directory import verify_manifest
    from attest.sealed.key_rotation import finish_rewrap

    key_from.require_one()
    owner, trusted = signing_key(signer), trusted_keys(trust)
    if finish_rewrap(model, trusted=(*trusted, owner.public_key())):
        key_from.display.warn("an interrupted rewrapping was completed first")
    before, _ = verify_manifest(model, trusted=(*trusted, owner.public_key()), model=model_id)
    new_key_from = key_from if new_key_file is None else replace(key_from, key_file=new_key_file, key_fd=None)
    if new_key_file is None and key_from.is_local:
        raise click.UsageError("name the source of the new key: --new-key-file FILE, or --kms URL for both")
    reference, creator = KeyReference.parse(new_key), before.creator
    material, names = new_key_from.for_sealing(reference, policy=policy_digest, creator=creator)
    made = rewrap_model(
        model,
        key=key_from.for_opening,
        new_key=material,
        names=_names_kept(names, before),
        signer=owner,
        trusted=(*trusted, owner.public_key()),
        random=os.urandom,
        model_id=model_id,
    )
    document: dict[str, JsonValue] = {"schema": REWRAPPED_SCHEMA, "outcome": "rewrapped", "key_before": str(before.key)}
    show({**document, **manifest_document(made)}, display=key_from.display)
    return 0


@sealed.command(
    examples=("attest sealed keyset my-model.sealed --trust owner.pub --key-file model.key -o /dev/shm/keyset.json",)
)
@click.argument("model", metavar="DIR")
@TRUST
@MODEL_ID
@click.option(
    "-o", "--output", metavar="FILE", required=True, help="Output file of the keyset; '-' is standard output."
)
@place_options
@model_key_options
def keyset(
    *,
    model: str,
    trust: tuple[str, ...],
    model_id: bytes | None,
    output: str,
    access: PlaceOptions,
    key_from: KeyOptions,
) -> int:
    """Write the key of a model's files as a Tink keyset: it is the key, and as secret as the model.

    Any Tink library opens each file with it and with the associated data that 'attest sealed info' shows.
    """
    from attest.cli.files import STDIN, write_output
    from attest.files import write_file
    from attest.sealed import open_directory, tink_keyset

    key_from.require_one()
    trusted = trusted_keys(trust)
    with (
        access.opened(model) as store,
        open_directory(store, key=key_from.for_opening, trusted=trusted, model=model_id) as directory,
    ):
        text = tink_keyset(directory.data_key()).encode()
    if output == STDIN:
        write_output(output, text)
    else:
        write_file(output, text)
    return 0


@sealed.command(examples=("attest sealed keygen --signing-key owner.pem --public-key owner.pub --model-key model.key",))
@click.option("--signing-key", "signer", metavar="FILE", help="Make a private key that signs models (P-384).")
@click.option("--public-key", metavar="FILE", help="Also write its public key, for users of the model.")
@click.option("--model-key", metavar="FILE", help="Make a key to seal models under: 32 random bytes.")
@display_options
def keygen(*, signer: str | None, public_key: str | None, model_key: str | None, display: Display) -> int:
    """Make keys: one that signs models, one to seal them under, or both. Nothing is overwritten."""
    import secrets

    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    from attest.cli.files import write_output
    from attest.files import require_absent, write_file

    if (signer is None) is not (public_key is None):
        raise click.UsageError("--signing-key and --public-key go together")
    if signer is None and model_key is None:
        raise click.UsageError("name the keys to make: --signing-key and --public-key, --model-key, or all three")
    for name in (signer, public_key, model_key):
        if name is not None:
            require_absent(name)
    if signer is not None and public_key is not None:
        key = ec.generate_private_key(ec.SECP384R1())
        write_file(signer, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        write_output(public_key, key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    if model_key is not None:
        write_file(model_key, secrets.token_bytes(32))
    made: dict[str, JsonValue] = {"signing_key": signer, "public_key": public_key, "model_key": model_key}
    show({"schema": "attest.sealed-keys/1", **made}, display=display)
    return 0


def _names_kept(names: SealingNames, before: SealedManifest) -> SealingNames:
    """Return the new names, completed from the manifest."""
    service, url = (before.service, before.service_url) if names.service is None else (names.service, names.service_url)
    policy = before.policy_digest if names.policy_digest is None else names.policy_digest
    return replace(names, service=service, service_url=url, policy_digest=policy)
