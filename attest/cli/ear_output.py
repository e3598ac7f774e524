"""The signed EAR that ``attest appraise --token`` writes: its options, its key and the file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal

import click

from attest.cli.option_values import hex_of
from attest.terminal.display import Command, stacked

if TYPE_CHECKING:
    from attest.appraisal import AttestationResult
    from attest.results.issuer import TokenIssuer
    from attest.results.raw_signatures import SigningKey

DEVELOPER = "attest-kms"
"""``ear_verifier_id.developer``: the developer of the Verifier. Its operator is ``iss``."""
DEFAULT_ISSUER = "attest"
MAX_LIFETIME_SECONDS = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRequest:
    """The EAR that ``attest appraise`` writes besides its answer; an option ``--token-…`` for each field.

    ``file`` may be ``-`` for standard output, which then has nothing else; ``key`` is a file in PEM; ``lifetime`` is in
    seconds.
    """

    file: str
    key: str
    form: Literal["jwt", "cwt"]
    lifetime: int
    issuer: str
    audience: tuple[str, ...]
    nonce: bytes | None
    force: bool


def token_options(command: Command) -> Command:
    """Add the options of ``--token``; the command takes ``token_request: TokenRequest | None``."""
    names = [field.name for field in fields(TokenRequest)]

    @wraps(command)
    def run(**options: Any) -> object:  # noqa: ANN401  as the options are
        given = {name: options.pop(f"token_{name}") for name in names}
        if (given["file"] is None) != (given["key"] is None):
            raise click.UsageError("--token FILE and --token-key FILE belong together")
        return command(token_request=None if given["file"] is None else TokenRequest(**given), **options)

    return stacked(_TOKEN_OPTIONS, title="Result as a signed token")(run)


_TOKEN_OPTIONS = (
    click.option("--token", "token_file", metavar="FILE", help="Write the result as a signed EAR, affirmed or not."),
    click.option("--token-key", metavar="FILE", help="Private key that signs it; see 'attest token keygen'."),
    click.option(
        "--token-format",
        "token_form",
        type=click.Choice(["jwt", "cwt"]),
        default="jwt",
        show_default=True,
        help="JWT or CWT.",
    ),
    click.option(
        "--token-lifetime",
        type=click.IntRange(1, MAX_LIFETIME_SECONDS),
        default=300,
        show_default=True,
        metavar="SECONDS",
        help="Time from the appraisal to its expiry.",
    ),
    click.option("--token-issuer", metavar="NAME", default=DEFAULT_ISSUER, show_default=True, help="Value of iss."),
    click.option(
        "--token-audience", metavar="NAME", multiple=True, help="Value of aud. Repeatable. Default: any audience."
    ),
    click.option(
        "--token-nonce", type=hex_of(longest=64), metavar="HEX", help="Value of eat_nonce, from the Relying Party."
    ),
    click.option("--token-force", is_flag=True, help="Replace an existing file."),
)


def prepare_token(request: TokenRequest) -> TokenIssuer:
    """Read the key before the appraisal, so that a wrong key is reported first.

    Raises:
        ConfigurationError: ``file-unreadable``, ``token-key-invalid`` or ``token-nonce-length``.
    """
    from attest import __version__
    from attest.results.ear import VerifierId
    from attest.results.issuer import IssuerKey, SigningKeyState, TokenIssuer

    require_ear_nonce(request.nonce, what="--token-nonce: a nonce")
    return TokenIssuer(
        issuer=request.issuer,
        verifier=VerifierId(developer=DEVELOPER, build=f"attest {__version__}"),
        keys=(IssuerKey(key=read_token_key(request.key), state=SigningKeyState.CURRENT),),
        max_lifetime=timedelta(seconds=MAX_LIFETIME_SECONDS),
    )


def require_ear_nonce(nonce: bytes | None, *, what: str) -> None:
    """Require a length that EARs allow.

    Raises:
        ConfigurationError: ``token-nonce-length``.
    """
    from attest.errors import ConfigurationError
    from attest.results.ear import NONCE_BYTES

    if nonce is not None and len(nonce) not in NONCE_BYTES:
        raise ConfigurationError(
            f"{what} of an EAR has 8 to 64 bytes",
            code="token-nonce-length",
            expected="8 to 64 bytes",
            got=f"{len(nonce)} bytes",
        )


def write_token(results: Sequence[AttestationResult], request: TokenRequest, issuer: TokenIssuer) -> None:
    """Sign the EAR of these results and write it; a JWT ends with a line feed.

    Raises:
        ConfigurationError: ``output-exists``, ``output-unwritable`` or ``output-terminal``.
    """
    import secrets

    from attest.cli.files import write_output

    signed = issuer.issue(
        results,
        token_id=secrets.token_bytes(16),
        lifetime=timedelta(seconds=request.lifetime),
        nonce=request.nonce,
        audience=request.audience,
        form=request.form,
    )
    data = signed + b"\n" if request.form == "jwt" else signed
    write_output(request.file, data, force=request.force, option="--token-force")


def read_token_key(file: str) -> SigningKey:
    """Read a private key that signs EARs.

    Raises:
        ConfigurationError: ``file-unreadable``, ``secret-file-exposed`` or ``token-key-invalid``.
    """
    from attest.cli.files import MAX_KEY_BYTES, read_file
    from attest.errors import ConfigurationError
    from attest.results.raw_signatures import read_signing_key

    try:
        return read_signing_key(read_file(file, limit=MAX_KEY_BYTES, what="token key", secret=True))
    except ConfigurationError as exc:
        if exc.code != "token-key-invalid":
            raise
        raise ConfigurationError(f"{file}: {exc.message}", code=exc.code, expected=exc.expected, hint=exc.hint) from exc
