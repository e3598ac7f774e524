"""``attest policy sign`` and ``attest policy verify``: signatures over a document."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from attest.cli.documents import print_document
from attest.cli.option_values import utc
from attest.terminal.display import Display, display_options
from attest.terminal.lazy_commands import ExampleCommand

if TYPE_CHECKING:
    from datetime import datetime

    from attest.encoding import JsonValue
    from attest.policy.signatures import VerifiedSignatures

VERIFICATION_SCHEMA = "attest.policy-verification/1"


@click.command(
    cls=ExampleCommand,
    short_help="Sign a policy, or a document of reference values.",
    examples=(
        "openssl genpkey -algorithm ed25519 -out alice.pem",
        "attest policy sign production.yaml --key alice.pem -o production.alice.sig",
    ),
)
@click.argument("file", metavar="FILE")
@click.option(
    "--key", metavar="PEM", required=True, help="Private key: Ed25519, P-256 or P-384; PEM, PKCS #8, not encrypted."
)
@click.option("-o", "--output", metavar="FILE", help="Signature file. Default: FILE.sig beside the document.")
@click.option(
    "--at", type=utc, metavar="TIME", help="Date of the signature, for information only, RFC 3339. Default: now."
)
@click.option("--force", is_flag=True, help="Replace an existing signature file.")
@display_options
def sign(*, file: str, key: str, output: str | None, at: datetime | None, force: bool, display: Display) -> int:
    """Sign a policy, or a document of reference values: one signature, in a file of its own.

    What is signed is the content: the signature of a YAML file is good for the same content in JSON. A document that
    does not load is not signed.

    Exit codes: 0 signed, 2 the document or the key is not good.
    """
    import json

    from attest.cli.files import MAX_KEY_BYTES, STDIN, read_file, write_text
    from attest.cli.policy_documents import read_signable
    from attest.clock import this_second
    from attest.policy.signatures import sign_policy, signature_json
    from attest.policy.signing_keys import read_private_key

    if file == STDIN and output is None:
        raise click.UsageError("for a document from standard input, name the signature file with -o FILE")
    signable = read_signable(file)
    private = read_private_key(read_file(key, limit=MAX_KEY_BYTES, what="--key", secret=True))
    written = signature_json(sign_policy(signable.document, key=private, at=at or this_second()))
    place = output or f"{file}.sig"
    if display.json and place == STDIN:
        raise click.UsageError("--json and '-o -' both use standard output")
    write_text(place, f"{json.dumps(written, indent=2)}\n", force=force)
    if display.json:
        print_document(written)
    elif not display.quiet and place != STDIN:
        click.echo(f"{place}: {signable.identity}, signed by {written['key_id']}")
    return 0


def _version_or_file(text: str) -> int | str:
    """Read a number, or the name of a file; one that is a number needs ``./`` in front."""
    return int(text) if text.isascii() and text.isdigit() else text


@click.command(
    cls=ExampleCommand,
    short_help="Check that enough keys signed a document.",
    examples=(
        "attest policy verify production.yaml --signature production.yaml.sig --key alice.pub.pem",
        "attest policy verify production.yaml --signature a.sig --signature b.sig \\",
        "    --key alice.pub.pem --key bob.pub.pem --key carol.pub.pem --threshold 2 --newer-than in-use.yaml",
    ),
)
@click.argument("file", metavar="FILE")
@click.option(
    "--signature", "signatures", metavar="FILE", multiple=True, required=True, help="Signature file. Repeatable."
)
@click.option(
    "--key", "keys", metavar="PEM", multiple=True, required=True, help="Public key of an accepted signer. Repeatable."
)
@click.option(
    "--threshold",
    type=int,
    metavar="M",
    help="Number of keys that must have signed: 1 to their number. Default: all of them.",
)
@click.option(
    "--newer-than",
    type=_version_or_file,
    metavar="VERSION|FILE",
    help="Refuse a version that is not above this one, or above that of the document in this file.",
)
@display_options
def verify(
    *,
    file: str,
    signatures: tuple[str, ...],
    keys: tuple[str, ...],
    threshold: int | None,
    newer_than: int | str | None,
    display: Display,
) -> int:
    """Verify that enough keys signed a policy, or a document of reference values.

    A key counts once. Signatures of other keys do not count. An invalid signature under an accepted key is refused.

    Exit codes: 0 enough of them signed, 2 usage, 4 they did not, or the version goes back.
    """
    from attest.cli.files import STDIN
    from attest.cli.policies import read_public_keys, read_signatures
    from attest.cli.policy_documents import read_signable
    from attest.policy.signatures import require_newer, verify_signatures
    from attest.policy.signing_keys import key_id

    if [file, *signatures, *keys, newer_than].count(STDIN) > 1:
        raise click.UsageError("standard input can be read once: give '-' once")
    signable = read_signable(file)
    trusted = read_public_keys(keys, what="--key")
    # Keys without a number mean all of them: the strict reading.
    wanted = len({key_id(key) for key in trusted}) if threshold is None else threshold
    read = read_signatures(signatures, what="--signature")
    found = verify_signatures(signable.document, signatures=read, keys=trusted, threshold=wanted)
    if newer_than is not None:
        than = read_signable(newer_than).identity if isinstance(newer_than, str) else newer_than
        require_newer(signable.identity, than=than)
    for ignored in found.ignored:
        display.warn(f"a signature of key {ignored.hex()} has no effect: the key is not among those given")
    if display.json:
        print_document(_document(found, wanted, len(trusted)))
    elif not display.quiet:
        click.echo(f"{file}: {found.document}, signed by {len(found.signers)} (needed: {wanted})")
        for one in found.signers:
            click.echo(f"  {one.hex()}")
    return 0


def _document(found: VerifiedSignatures, threshold: int, keys: int) -> dict[str, JsonValue]:
    return {
        "schema": VERIFICATION_SCHEMA,
        "name": found.document.name,
        "version": found.document.version,
        "digest": found.document.digest.hex(),
        "threshold": threshold,
        "keys": keys,
        "signers": [one.hex() for one in found.signers],
        "ignored": [one.hex() for one in found.ignored],
    }
