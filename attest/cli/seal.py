"""``attest seal`` and ``attest unseal``: a model into ciphertext that anybody may store, and back into memory."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from attest.cli.model_keys import MODEL_ID, TRUST, KeyOptions, key_options, signing_key, trusted_keys
from attest.cli.option_values import TIME, Hex
from attest.cli.options import Network, network_options
from attest.cli.service_options import service_options
from attest.terminal.display import Display, display_options
from attest.terminal.lazy_commands import ExampleCommand

if TYPE_CHECKING:
    from attest.encoding import JsonValue
    from attest.sealed import SealedManifest, VerifiedDirectory
    from attest.sealed.inventory import ModelScan

__all__ = ["THREADS", "manifest_document", "seal", "show", "unseal"]

SEALED_SCHEMA = "attest.sealed-model/1"
UNSEALED_SCHEMA = "attest.unsealed-model/1"
THREADS = click.option(
    "--threads", type=click.IntRange(min=1, max=1024), metavar="N", help="Default: one for each processor."
)


@click.command(
    cls=ExampleCommand,
    short_help="Encrypt and sign a model, so that anybody may store it.",
    examples=(
        "attest sealed keygen --signing-key owner.pem --public-key owner.pub --model-key model.key",
        "attest seal my-model my-model.sealed --key my-model@1 --key-file model.key --signing-key owner.pem",
        "attest seal my-model sealed --key my-model --kms https://kms.example --identity … --signing-key owner.pem",
    ),
)
@click.argument("model", metavar="DIR")
@click.argument("target", metavar="TARGET")
@click.option("--key", "key_name", metavar="KEY[@VERSION]", required=True, help="Which key it is sealed under.")
@click.option("--signing-key", "signer", metavar="PEM", required=True, help="The owner's private key, P-384 or P-256.")
@click.option("--policy-digest", type=Hex(length=32), metavar="HEX", help="The policy that the key is released under.")
@click.option("--creator", metavar="TEXT", help="Who seals, for people.")
@click.option("--no-fingerprints", is_flag=True, help="Leave the SHA-256 of plaintexts out: they tell a public model.")
@click.option("--follow-symlinks", is_flag=True, help="Seal the files that links lead to.")
@click.option("--at", type=TIME, metavar="TIME", help="When it was sealed, for people, RFC 3339. Default: now.")
@click.option("--dry-run", is_flag=True, help="Say what would be sealed, and ask for no key.")
@THREADS
@service_options(required=False)
@key_options
@network_options
@display_options
@click.pass_context
def seal(
    ctx: click.Context,
    *,
    model: str,
    target: str,
    key_name: str,
    signer: str,
    policy_digest: bytes | None,
    creator: str | None,
    no_fingerprints: bool,
    follow_symlinks: bool,
    at: datetime | None,
    dry_run: bool,
    threads: int | None,
    key_from: KeyOptions,
    network: Network,
    display: Display,
) -> int:
    """Encrypt every file of DIR under a key of its own, and sign the result: a new folder TARGET.

    The key of the model (--key-file, --key-fd, or from a service) encrypts that one. With --key-file nothing is asked
    of a service; --kms and --identity then say who keeps the key. Interrupted, the same command goes on.

    Exit codes: 0 sealed, 1 the service refused, 2 usage, 3 a file is too large, 4 and 5 as for 'attest release', 6 a
    file cannot be read or written.
    """
    from attest.clock import this_second
    from attest.release.names import KeyReference
    from attest.sealed import seal_directory
    from attest.sealed.inventory import scan_model
    from attest.sealed.staging import require_new
    from attest.terminal.progress import shown_progress

    if not dry_run:
        key_from.require_one()
    reference, owner = KeyReference.parse(key_name), signing_key(signer)
    scan = scan_model(Path(model), follow_symlinks=follow_symlinks)
    for name in scan.left_out:
        display.warn(f"{name} is no part of a model and is left out")
    require_new(Path(target), kind="sealing")
    _tell_resumption(target, "sealing", display=display)
    if dry_run:
        return _plan_sealing(scan, target, display=display)
    key, names = key_from.for_sealing(
        ctx, reference, policy=policy_digest, creator=creator, network=network, display=display
    )
    with shown_progress("sealing", scan.size, quiet=display.quiet) as progress:
        made = seal_directory(
            model,
            target,
            key=key,
            names=names,
            signer=owner,
            random=os.urandom,
            at=this_second() if at is None else at,
            fingerprints=not no_fingerprints,
            follow_symlinks=follow_symlinks,
            threads=threads,
            progress=progress,
        )
    document: dict[str, JsonValue] = {"schema": SEALED_SCHEMA, "outcome": "sealed", "target": target, "kept": made.kept}
    show({**document, **manifest_document(made.manifest)}, display=display)
    return 0


@click.command(
    cls=ExampleCommand,
    short_help="Verify and decrypt a sealed model into memory.",
    examples=(
        "attest unseal my-model.sealed /dev/shm/my-model --key-file model.key --trust owner.pub",
        "attest unseal my-model.sealed /dev/shm/my-model --kms https://kms.example --identity … --trust owner.pub",
    ),
)
@click.argument("sealed", metavar="DIR")
@click.argument("target", metavar="TARGET")
@TRUST
@MODEL_ID
@click.option("--allow-disk", is_flag=True, help="Also write plaintext to a file system that is not in memory.")
@click.option("--verify-digests", is_flag=True, help="Also compare ciphertext and plaintext with their SHA-256.")
@click.option(
    "--verify-plaintext-key",
    "plaintext_keys",
    metavar="PEM",
    multiple=True,
    help="Repeatable: demand a signature over the plaintext (model.sig in the model), by this key.",
)
@click.option("--dry-run", is_flag=True, help="Verify the signature, names and sizes, and ask for no key.")
@THREADS
@service_options(required=False)
@key_options
@network_options
@display_options
@click.pass_context
def unseal(
    ctx: click.Context,
    *,
    sealed: str,
    target: str,
    trust: tuple[str, ...],
    model_id: bytes | None,
    allow_disk: bool,
    verify_digests: bool,
    plaintext_keys: tuple[str, ...],
    dry_run: bool,
    threads: int | None,
    key_from: KeyOptions,
    network: Network,
    display: Display,
) -> int:
    """Verify the sealed model in DIR and write its plaintext to a new folder TARGET, in memory (tmpfs).

    DIR is a folder, an address of the web, or s3://bucket/prefix. The key is the one that the verified model names, in
    its version. Interrupted, the same command goes on.

    Exit codes: 0 unsealed, 1 the service refused, 2 usage, 3 no sealed model, 4 something does not verify, 5 as for
    'attest release', 6 a file cannot be read or written.
    """
    from attest.sealed import unseal_directory, verify_directory
    from attest.sealed.locations import connections_of, store_of
    from attest.sealed.model_unsealer import require_memory
    from attest.sealed.staging import require_new
    from attest.terminal.progress import shown_progress

    if not dry_run:
        key_from.require_one()
    trusted = trusted_keys(trust)
    plaintext_trusted = trusted_keys(plaintext_keys, what="--verify-plaintext-key") or None
    store = store_of(sealed)
    threads = connections_of(store) if threads is None else threads
    verified = verify_directory(store, trusted=trusted, model=model_id)
    if verify_digests:
        with shown_progress("comparing", _sealed_size(verified), quiet=display.quiet) as progress:
            verified = verify_directory(
                store, trusted=trusted, model=model_id, digests=True, threads=threads, progress=progress
            )
    require_new(Path(target), kind="unsealing")
    memory = require_memory(Path(target), allow_disk=allow_disk)
    _tell_resumption(target, "unsealing", display=display)
    if dry_run:
        return _plan_unsealing(verified, target, memory=memory, display=display)
    _warn_of_swap(display=display)
    obtain = key_from.for_opening(ctx, network=network, display=display)
    size = sum(one.size for one in verified.manifest.files)
    with (
        verified.unlock(obtain, threads=threads) as directory,
        shown_progress("unsealing", size, quiet=display.quiet) as progress,
    ):
        made = unseal_directory(
            directory,
            target,
            random=os.urandom,
            allow_disk=allow_disk,
            verify_digests=verify_digests,
            plaintext_trusted=plaintext_trusted,
            progress=progress,
        )
    document: dict[str, JsonValue] = {
        "schema": UNSEALED_SCHEMA,
        "outcome": "unsealed",
        "target": target,
        "in_memory": made.in_memory,
        "kept": made.kept,
        "plaintext_signed_by": made.plaintext_key,
    }
    show({**document, **manifest_document(verified.manifest)}, display=display)
    return 0


def _sealed_size(verified: VerifiedDirectory) -> int:
    return sum(one.sealed_size for one in verified.manifest.files)


def manifest_document(manifest: SealedManifest) -> dict[str, JsonValue]:
    """Return what a manifest says of the model as a whole."""
    return {
        "model": manifest.model.hex(),
        "key": str(manifest.key),
        "kms": None if manifest.service is None else manifest.service.text,
        "kms_url": manifest.service_url,
        "policy_sha256": None if manifest.policy_digest is None else manifest.policy_digest.hex(),
        "creator": manifest.creator,
        "created_at": None if manifest.created_at is None else manifest.created_at.isoformat().replace("+00:00", "Z"),
        "files": len(manifest.files),
        "bytes": sum(one.size for one in manifest.files),
        "sealed_bytes": sum(one.sealed_size for one in manifest.files),
    }


def _plan_sealing(scan: ModelScan, target: str, *, display: Display) -> int:
    from attest.sealed import ciphertext_size

    sealed = sum(ciphertext_size(one.size) for one in scan.files)
    document = _plan(target, "would seal", sealed)
    files: list[JsonValue] = [{"path": one.path, "size": one.size} for one in scan.files]
    counts: dict[str, JsonValue] = {"files": len(files), "bytes": scan.size, "sealed_bytes": sealed, "list": files}
    show({"schema": SEALED_SCHEMA, **document, **counts}, display=display)
    return 0


def _plan_unsealing(verified: VerifiedDirectory, target: str, *, memory: bool, display: Display) -> int:
    document = _plan(target, "would unseal", sum(one.size for one in verified.manifest.files))
    told = {**document, "in_memory": memory, **manifest_document(verified.manifest)}
    show({"schema": UNSEALED_SCHEMA, **told}, display=display)
    return 0


def _plan(target: str, outcome: str, size: int) -> dict[str, JsonValue]:
    from attest.sealed.staging import require_room

    require_room(Path(target).parent, size)
    return {"outcome": outcome, "target": target}


def _tell_resumption(target: str, kind: str, *, display: Display) -> None:
    from attest.sealed.staging import workplace_of

    place = workplace_of(Path(target), kind=kind)
    if place.is_dir():
        display.warn(f"going on with an interrupted {kind}, in {place}; remove it to begin again")


def _warn_of_swap(*, display: Display) -> None:
    """Memory that is swapped is a disk."""
    try:
        swaps = Path("/proc/swaps").read_text(encoding="utf-8").splitlines()[1:]
    except OSError:
        return
    if swaps:
        display.warn(f"this machine swaps to {swaps[0].split()[0]}: plaintext in memory may reach it ('swapoff -a')")


def show(document: dict[str, JsonValue], *, display: Display) -> None:
    """Print a document for programs, or what is in it for people."""
    if display.json:
        from attest.cli.output import print_document

        print_document(document)
    elif not display.quiet:
        from attest.cli.json_tree import print_tree

        known: dict[str, JsonValue] = {
            name: value for name, value in document.items() if name != "schema" and value is not None
        }
        print_tree(known, display=display)
