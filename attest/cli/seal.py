"""``attest seal`` and ``attest unseal``: encryption of a model for storage anywhere, and decryption into memory."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from attest.cli.documents import show_document
from attest.cli.model_keys import MODEL_ID, TRUST, KeyOptions, model_key_options, signing_key, trusted_keys
from attest.cli.option_values import hex_of, utc
from attest.cli.place_options import PlaceOptions, place_options
from attest.terminal.display import Display, gathered
from attest.terminal.lazy_commands import ExampleCommand

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ec

    from attest.encoding import JsonValue
    from attest.release.names import KeyReference
    from attest.sealed import SealedManifest, SealedModel, UnsealedModel, VerifiedDirectory
    from attest.sealed.inventory import ModelScan
    from attest.sealed.stores import FileStore

SEALED_SCHEMA = "attest.sealed-model/1"
UNSEALED_SCHEMA = "attest.unsealed-model/1"
THREADS = click.option(
    "--threads",
    type=click.IntRange(min=1, max=1024),
    metavar="N",
    help="Number of threads. Default: one for each processor.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SealRequest:
    """The arguments and options of ``attest seal``, as given."""

    model: str
    target: str
    key_name: str
    signer: str
    policy_digest: bytes | None
    creator: str | None
    no_fingerprints: bool
    follow_symlinks: bool
    at: datetime | None
    dry_run: bool
    threads: int | None
    key_from: KeyOptions


_SEAL = (
    click.argument("model", metavar="DIR"),
    click.argument("target", metavar="TARGET"),
    click.option("--key", "key_name", metavar="KEY[@VERSION]", required=True, help="The key that it is sealed under."),
    click.option(
        "--signing-key", "signer", metavar="PEM", required=True, help="The owner's private key, P-384 or P-256."
    ),
    click.option("--policy-digest", type=hex_of(32), metavar="HEX", help="The policy that the key is released under."),
    click.option("--creator", metavar="TEXT", help="Name of the sealer, for information only."),
    click.option(
        "--no-fingerprints", is_flag=True, help="Leave out the SHA-256 of plaintexts, which identify a public model."
    ),
    click.option("--follow-symlinks", is_flag=True, help="Follow links: seal their target files."),
    click.option(
        "--at", type=utc, metavar="TIME", help="Date of sealing, for information only, RFC 3339. Default: now."
    ),
    click.option("--dry-run", is_flag=True, help="Show what would be sealed; request no key."),
    THREADS,
    model_key_options,
)


@click.command(
    cls=ExampleCommand,
    short_help="Encrypt and sign a model, so that any storage can hold it.",
    examples=(
        "attest sealed keygen --signing-key owner.pem --public-key owner.pub --model-key model.key",
        "attest seal my-model my-model.sealed --key my-model@1 --key-file model.key --signing-key owner.pem",
        "attest seal my-model sealed --key my-model --kms https://kms.example --identity … --signing-key owner.pem",
    ),
)
@gathered("request", SealRequest, _SEAL)
def seal(*, request: SealRequest) -> int:
    """Encrypt every file of DIR under a key of its own, and sign the result: a new folder TARGET.

    The key of the model (--key-file, --key-fd, or from a service) encrypts that one. With --key-file nothing is asked
    of a service; --kms and --identity then say who keeps the key. Interrupted, the same command goes on.

    Exit codes: 0 sealed, 1 the service refused, 2 usage, 3 a file is too large, 4 and 5 as for 'attest release', 6 a
    file cannot be read or written.
    """
    from attest.release.names import KeyReference
    from attest.sealed.inventory import scan_model
    from attest.sealed.staging import require_new

    display = request.key_from.display
    if not request.dry_run:
        request.key_from.require_one()
    reference, owner = KeyReference.parse(request.key_name), signing_key(request.signer)
    scan = scan_model(Path(request.model), follow_symlinks=request.follow_symlinks)
    for name in scan.left_out:
        display.warn(f"{name} is not part of a model and is left out")
    require_new(Path(request.target), kind="sealing")
    _warn_of_resumption(request.target, "sealing", display=display)
    if request.dry_run:
        return _plan_sealing(scan, request.target, display=display)
    made = _sealed(request, reference, owner, size=scan.size)
    sealing: dict[str, JsonValue] = {"outcome": "sealed", "target": request.target, "kept": made.kept}
    show({"schema": SEALED_SCHEMA, **sealing, **manifest_document(made.manifest)}, display=display)
    return 0


def _sealed(
    request: SealRequest, reference: KeyReference, owner: ec.EllipticCurvePrivateKey, *, size: int
) -> SealedModel:
    from attest.clock import this_second
    from attest.sealed import seal_directory
    from attest.terminal.progress import shown_progress

    key, names = request.key_from.for_sealing(reference, policy=request.policy_digest, creator=request.creator)
    with shown_progress("sealing", size, quiet=request.key_from.display.quiet) as progress:
        return seal_directory(
            request.model,
            request.target,
            key=key,
            names=names,
            signer=owner,
            random=os.urandom,
            at=this_second() if request.at is None else request.at,
            fingerprints=not request.no_fingerprints,
            follow_symlinks=request.follow_symlinks,
            threads=request.threads,
            progress=progress,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsealRequest:
    """The arguments and options of ``attest unseal``, as given."""

    sealed: str
    target: str
    trust: tuple[str, ...]
    model_id: bytes | None
    allow_disk: bool
    verify_digests: bool
    plaintext_keys: tuple[str, ...]
    dry_run: bool
    threads: int | None
    access: PlaceOptions
    key_from: KeyOptions


_UNSEAL = (
    click.argument("sealed", metavar="DIR"),
    click.argument("target", metavar="TARGET"),
    TRUST,
    MODEL_ID,
    click.option("--allow-disk", is_flag=True, help="Also write plaintext to a file system that is not in memory."),
    click.option("--verify-digests", is_flag=True, help="Also compare ciphertext and plaintext with their SHA-256."),
    click.option(
        "--verify-plaintext-key",
        "plaintext_keys",
        metavar="PEM",
        multiple=True,
        help="Require a signature over the plaintext (model.sig in the model), by this key. Repeatable.",
    ),
    click.option("--dry-run", is_flag=True, help="Verify the signature, names and sizes; request no key."),
    THREADS,
    place_options,
    model_key_options,
)


@click.command(
    cls=ExampleCommand,
    short_help="Verify and decrypt a sealed model into memory.",
    examples=(
        "attest unseal my-model.sealed /dev/shm/my-model --key-file model.key --trust owner.pub",
        "attest unseal my-model.sealed /dev/shm/my-model --kms https://kms.example --identity … --trust owner.pub",
    ),
)
@gathered("request", UnsealRequest, _UNSEAL)
def unseal(*, request: UnsealRequest) -> int:
    """Verify the sealed model in DIR and write its plaintext to a new folder TARGET, in memory (tmpfs).

    DIR is a folder or an address (https:, s3:, az:, gs:, oci:). The key is the one that the verified model names, in
    its version. Interrupted, the same command goes on.

    Exit codes: 0 unsealed, 1 the service refused, 2 usage, 3 no sealed model, 4 something does not verify, 5 as for
    'attest release', 6 a file cannot be read or written.
    """
    if not request.dry_run:
        request.key_from.require_one()
    with request.access.opened(request.sealed) as store:
        return _unseal_from(store, request)


def _unseal_from(store: FileStore, request: UnsealRequest) -> int:
    from attest.sealed.locations import connections_of
    from attest.sealed.model_unsealer import require_memory
    from attest.sealed.staging import require_new

    display, target = request.key_from.display, request.target
    trusted = trusted_keys(request.trust)
    plaintext_trusted = trusted_keys(request.plaintext_keys, what="--verify-plaintext-key") or None
    threads = connections_of(store) if request.threads is None else request.threads
    verified = verify_model(
        store,
        trusted=trusted,
        model_id=request.model_id,
        digests=request.verify_digests,
        threads=threads,
        display=display,
    )
    require_new(Path(target), kind="unsealing")
    memory = require_memory(Path(target), allow_disk=request.allow_disk)
    _warn_of_resumption(target, "unsealing", display=display)
    if request.dry_run:
        return _plan_unsealing(verified, target, memory=memory, display=display)
    _warn_of_swap(display=display)
    made = _unsealed(verified, request, plaintext_trusted, threads=threads)
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


def verify_model(
    store: FileStore,
    *,
    trusted: tuple[ec.EllipticCurvePublicKey, ...],
    model_id: bytes | None,
    digests: bool,
    threads: int | None,
    display: Display,
) -> VerifiedDirectory:
    """Verify a sealed model; with ``digests`` its ciphertext too, once its signature and sizes hold."""
    from attest.sealed import verify_directory
    from attest.terminal.progress import shown_progress

    verified = verify_directory(store, trusted=trusted, model=model_id)
    if not digests:
        return verified
    size = sum(one.sealed_size for one in verified.manifest.files)
    with shown_progress("comparing", size, quiet=display.quiet) as progress:
        return verify_directory(
            store, trusted=trusted, model=model_id, digests=True, threads=threads, progress=progress
        )


def _unsealed(
    verified: VerifiedDirectory,
    request: UnsealRequest,
    plaintext_trusted: tuple[ec.EllipticCurvePublicKey, ...] | None,
    *,
    threads: int | None,
) -> UnsealedModel:
    from attest.sealed import unseal_directory
    from attest.terminal.progress import shown_progress

    size = sum(one.size for one in verified.manifest.files)
    with (
        verified.unlock(request.key_from.for_opening, threads=threads) as directory,
        shown_progress("unsealing", size, quiet=request.key_from.display.quiet) as progress,
    ):
        return unseal_directory(
            directory,
            request.target,
            random=os.urandom,
            allow_disk=request.allow_disk,
            verify_digests=request.verify_digests,
            plaintext_trusted=plaintext_trusted,
            progress=progress,
        )


def manifest_document(manifest: SealedManifest) -> dict[str, JsonValue]:
    """Return the members of a manifest that describe the model as a whole."""
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
    document: dict[str, JsonValue] = {
        "schema": SEALED_SCHEMA,
        **_plan(target, "would seal", sealed),
        "files": len(scan.files),
        "bytes": scan.size,
        "sealed_bytes": sealed,
        "list": [{"path": one.path, "size": one.size} for one in scan.files],
    }
    show(document, display=display)
    return 0


def _plan_unsealing(verified: VerifiedDirectory, target: str, *, memory: bool, display: Display) -> int:
    document = _plan(target, "would unseal", sum(one.size for one in verified.manifest.files))
    model = manifest_document(verified.manifest)
    show({"schema": UNSEALED_SCHEMA, **document, "in_memory": memory, **model}, display=display)
    return 0


def _plan(target: str, outcome: str, size: int) -> dict[str, JsonValue]:
    from attest.sealed.staging import require_room

    require_room(Path(target).parent, size)
    return {"outcome": outcome, "target": target}


def _warn_of_resumption(target: str, kind: str, *, display: Display) -> None:
    from attest.sealed.staging import workplace_of

    place = workplace_of(Path(target), kind=kind)
    if place.is_dir():
        display.warn(f"continuing an interrupted {kind}, in {place}; remove it to start again")


def _warn_of_swap(*, display: Display) -> None:
    """Warn if this machine swaps: swapped memory is on a disk."""
    try:
        swaps = Path("/proc/swaps").read_text(encoding="utf-8").splitlines()[1:]
    except OSError:
        return
    if swaps:
        display.warn(f"this machine swaps to {swaps[0].split()[0]}: plaintext in memory may reach it ('swapoff -a')")


def show(document: dict[str, JsonValue], *, display: Display) -> None:
    """Print a document; the tree for people leaves out absent values."""
    known: JsonValue = {name: value for name, value in document.items() if name != "schema" and value is not None}
    show_document(document, display=display, tree=known)
