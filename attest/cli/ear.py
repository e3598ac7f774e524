"""``attest token``: the keys that sign Attestation Results."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from attest.cli.ear_output import DEFAULT_ISSUER, DEVELOPER, read_token_key
from attest.cli.option_values import utc
from attest.terminal.lazy_commands import ExampleGroup

if TYPE_CHECKING:
    from attest.results.issuer import IssuerKey


@click.group(
    cls=ExampleGroup,
    examples=(
        "attest token keygen -o verifier.pem",
        "attest appraise envelope.json --nonce 5f1c... --token result.jwt --token-key verifier.pem",
        "attest token jwks verifier.pem -o jwks.json",
        "attest verify result.jwt --trust attest=jwks.json",
    ),
)
def token() -> None:
    """Make and publish the keys that sign Attestation Results."""


@token.command(
    short_help="Make a key that signs results.",
    examples=("attest token keygen -o verifier.pem", "attest token keygen -o verifier.pem --algorithm ES384"),
)
@click.option("-o", "--output", metavar="FILE", required=True, help="File for the private key; never overwritten.")
@click.option(
    "--algorithm",
    type=click.Choice(["ES256", "ES384", "Ed25519"]),
    default="ES256",
    show_default=True,
    help="Signature algorithm.",
)
def keygen(output: str, algorithm: str) -> int:
    """Make a key and write it, readable by its owner only, as PEM (PKCS #8); print its thumbprint.

    Exit codes: 0 made, 2 the file already exists or cannot be written.
    """
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    from attest.files import write_file
    from attest.results.raw_signatures import SigningKey

    private: ec.EllipticCurvePrivateKey | Ed25519PrivateKey
    if algorithm == "Ed25519":
        private = Ed25519PrivateKey.generate()
    else:
        private = ec.generate_private_key(ec.SECP256R1() if algorithm == "ES256" else ec.SECP384R1())
    write_file(output, private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    click.echo(SigningKey.of(private).kid)
    return 0


@token.command(
    short_help="Publish public keys.",
    examples=(
        "attest token jwks verifier.pem -o jwks.json",
        "attest token jwks verifier.pem --next new.pem --retired old.pem=2026-12-01T00:00:00Z",
        "attest token jwks verifier.pem --cose -o keys.cbor",
    ),
)
@click.argument("key", metavar="KEY")
@click.option("--next", "upcoming", metavar="FILE", multiple=True, help="A key that signs later. Repeatable.")
@click.option(
    "--retired",
    metavar="FILE=TIME",
    multiple=True,
    help="A retired key, and when its last token expires. Repeatable.",
)
@click.option("--at", type=utc, metavar="TIME", help="Time of the set, RFC 3339. Default: now.")
@click.option("--cose", is_flag=True, help="Write a COSE_KeySet in CBOR instead of a JWKS.")
@click.option("-o", "--output", metavar="FILE", default="-", help="Output file. Default: standard output.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
def jwks(
    *,
    key: str,
    upcoming: tuple[str, ...],
    retired: tuple[str, ...],
    at: datetime | None,
    cose: bool,
    output: str,
    force: bool,
) -> int:
    """Write the key set that Relying Parties trust: the key that signs, the next one, and retired ones in use.

    Files are private keys. Publish a key as next before it signs, and keep it as retired until its last token expired.

    Exit codes: 0 written, 2 a file or an option is wrong.
    """
    from attest.cli.files import write_output
    from attest.clock import this_second
    from attest.errors import ConfigurationError
    from attest.results.ear import VerifierId
    from attest.results.issuer import IssuerKey, SigningKeyState, TokenIssuer

    try:
        issuer = TokenIssuer(
            issuer=DEFAULT_ISSUER,
            verifier=VerifierId(developer=DEVELOPER, build="attest"),
            keys=(
                IssuerKey(key=read_token_key(key), state=SigningKeyState.CURRENT),
                *(IssuerKey(key=read_token_key(file), state=SigningKeyState.NEXT) for file in upcoming),
                *(_retired(entry) for entry in retired),
            ),
        )
    except ValueError as exc:
        raise ConfigurationError(str(exc), code="token-keys-ambiguous", hint="name each key once") from exc
    moment = at or this_second()
    write_output(output, issuer.cose_key_set(moment) if cose else issuer.jwks(moment), force=force)
    return 0


def _retired(entry: str) -> IssuerKey:
    from attest.results.issuer import IssuerKey, SigningKeyState

    file, _, until = entry.rpartition("=")
    if not file:
        raise click.UsageError(f"--retired: expected FILE=TIME, got {entry!r}")
    return IssuerKey(key=read_token_key(file), state=SigningKeyState.RETIRED, until=utc(until))
