"""Keys of other parties' services for ``attest key get``: resources of Key Broker Services, and keys of vaults."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import click

from attest.cli.access_tokens import bearer_of
from attest.cli.documents import show_document
from attest.errors import ConfigurationError
from attest.terminal.display import Display, gathered

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

    from attest.cli.session_options import SessionOptions
    from attest.encoding import JsonValue
    from attest.kbs import Guest
    from attest.kbs.guest_key import KeyKind
    from attest.policy.foreign.skr import SkrPolicy
    from attest.release.opened_key import OpenedKey
    from attest.results import TokenKey

GOT_SCHEMA: Final = "attest.foreign-key/1"
REQUEST_SCHEMA: Final = "attest.foreign-key-request/1"
KBS_SCHEME: Final = "kbs://"
TEES: Final = ("auto", "snp", "tdx", "az-snp-vtpm", "az-tdx-vtpm", "sample")
"""``auto`` and ``attest.kbs.evidence_forms.TEES``, without importing it; a test compares them."""
KEY_KINDS: Final = ("p256", "p521", "rsa")
"""The same as ``attest.kbs.guest_key.KEY_KINDS``, without importing it; a test compares them."""
_MAX_FILE_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignOptions:
    """The options about other parties' services, as given."""

    kbs: str | None
    tee: str | None
    guest_key: str | None
    token_keys: str | None
    maa: str | None
    maa_issuer: str | None
    maa_keys: str | None
    vault_roots: str | None
    bearer_file: str | None
    bearer_command: str | None
    release_policy: str | None
    dry_run: bool


_OF_KBS: Final = ("kbs", "tee", "guest_key", "token_keys")
_OF_VAULTS: Final = (
    *("maa", "maa_issuer", "maa_keys", "vault_roots"),
    *("bearer_file", "bearer_command", "release_policy"),
)
_OPTION_OF: Final = {
    "url": "kms",
    "key": "identity",
    "policy": "expect-policy",
    "configuration": "expect-configuration",
    "timeout_seconds": "timeout",
}
"""Options by the settings that they state, where the names differ."""
_SHARED: Final = frozenset({"tls_ca", "timeout_seconds", "tcti", "gpus"})
"""Settings of a session that mean the same for every service."""

foreign_options = gathered(
    "foreign",
    ForeignOptions,
    (
        click.option("--kbs", metavar="URL", help="KEY is kbs:///…: the Key Broker Service, without /kbs/v0."),
        click.option(
            "--tee",
            type=click.Choice(TEES),
            help="The TEE that this machine must be a guest of; 'sample' sends evidence that proves nothing. "
            "Default: auto.",
        ),
        click.option(
            "--guest-key",
            type=click.Choice(KEY_KINDS),
            help="Kind of the key pair that the resource is encrypted to. Default: p256.",
        ),
        click.option("--token-keys", metavar="FILE", help="Keys that may sign the service's tokens (JWKS or PEM)."),
        click.option("--maa", metavar="URL", help="KEY is https://VAULT/keys/NAME: the Verifier, as Azure's MAA."),
        click.option("--maa-issuer", metavar="URL", help="Issuer of its tokens. Default: the URL of --maa."),
        click.option(
            "--maa-keys", metavar="FILE", help="Keys that may sign them (JWKS or PEM). Default: those it publishes."
        ),
        click.option(
            "--vault-roots", metavar="FILE", help="Roots of the certificates with which the vault signs its answers."
        ),
        click.option("--bearer-file", metavar="FILE", help="Access token for the vault, in a file of mode 0600."),
        click.option("--bearer-command", metavar="COMMAND", help="Command that prints an access token for the vault."),
        click.option("--release-policy", metavar="FILE", help="Release policy that the vault's key must have (JSON)."),
        click.option("--dry-run", is_flag=True, help="Send no request; show what would be sent."),
    ),
    title="Other parties' services",
)
"""Add the options of other services; the command gets one ``foreign``."""


def is_foreign(name: str) -> bool:
    """Return True for the address of another party's key, rather than a key's name."""
    return "://" in name


def require_native(options: ForeignOptions) -> None:
    """Refuse options about other parties' services for a key of a key-release service.

    Raises:
        ConfigurationError: ``option-not-applicable``.
    """
    _require_none_of(options, (*_OF_KBS, *_OF_VAULTS, "dry_run"), "an address kbs:///… or https://…")


def get_foreign(
    name: str, place: Path | int, *, options: ForeignOptions, service: SessionOptions, display: Display
) -> int:
    """Attest to another party's service, and write its key to a checked place.

    Raises:
        AttestError: as ``KbsClient.resource`` and ``SkrClient.release``.
        ConfigurationError: ``option-not-applicable``: an option of another protocol, or none of this one.
    """
    asking: Callable[[str, ForeignOptions, SessionOptions], AbstractContextManager[_Asked]]
    asking = _of_kbs if name.lower().startswith(KBS_SCHEME) else _of_vault
    with asking(name, options, service) as asked:
        if asked.warning is not None:
            display.warn(asked.warning)
        if options.dry_run:
            to = f"descriptor {place}" if isinstance(place, int) else str(place)
            show_document({"schema": REQUEST_SCHEMA, **asked.plan, "to": to}, display=display)
            return 0
        from attest.cli.key_output import write_key

        with asked.released() as key:
            write_key(place, key.material)
        if isinstance(place, Path):
            got: dict[str, JsonValue] = {one: asked.plan[one] for one in ("key", "protocol", "service", "tee")}
            show_document({"schema": GOT_SCHEMA, **got, "file": str(place)}, display=display)
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A request that is prepared: what would be sent, for people and programs, and the request itself."""

    plan: dict[str, JsonValue]
    released: Callable[[], OpenedKey]
    warning: str | None = None


@contextmanager
def _of_kbs(name: str, options: ForeignOptions, service: SessionOptions) -> Iterator[_Asked]:
    from attest.kbs import KbsClient
    from attest.kbs.addresses import resource_path
    from attest.kbs.handshake import VERSION

    path = resource_path(name)
    given = _shared(service, more=frozenset({"unchecked_tls"}))
    _require_none_of(options, _OF_VAULTS, "an address https://VAULT/keys/NAME")
    url = _required(options.kbs, "--kbs")
    guest, kind = _guest(options, given), cast("KeyKind", options.guest_key or KEY_KINDS[0])
    trusted = _keys(options.token_keys)
    with KbsClient(
        url,
        guest=guest,
        key=kind,
        tls_ca=given.get("tls_ca"),
        unchecked_tls=given.get("unchecked_tls"),
        trusted=trusted,
        timeout=_timeout(given),
    ) as client:
        plan: dict[str, JsonValue] = {
            "key": name,
            "protocol": f"kbs {VERSION}",
            "service": client.url,
            "tee": guest.tee,
            "devices": [*guest.device_kinds],
            "key_pair": kind,
            "token": "verified with --token-keys" if trusted else "its signature is not verified",
            "requests": ["POST /kbs/v0/auth", "POST /kbs/v0/attest", f"GET /kbs/v0/resource/{path}"],
        }
        sample = "sample evidence is sent, which proves nothing" if guest.tee == "sample" else None
        yield _Asked(plan=plan, released=lambda: client.resource(name), warning=sample)


@contextmanager
def _of_vault(name: str, options: ForeignOptions, service: SessionOptions) -> Iterator[_Asked]:
    from attest.cli.machine import machine_of
    from attest.skr import SkrClient, VaultKey
    from attest.skr.client import API_VERSION
    from attest.skr.encryption_key import ENCRYPTION
    from attest.skr.guest import MachineSkrGuest
    from attest.skr.verifier import PATHS

    key = VaultKey.parse(name)
    given = _shared(service)
    _require_none_of(options, _OF_KBS, "an address kbs:///…")
    verifier = _required(options.maa, "--maa").rstrip("/")
    guest = MachineSkrGuest.of(machine_of(given.get("tcti")))
    keys = _keys(options.maa_keys)
    with SkrClient(
        verifier,
        roots=_roots(_required(options.vault_roots, "--vault-roots")),
        bearer=bearer_of(options.bearer_file, options.bearer_command),
        guest=guest,
        issuer=options.maa_issuer,
        verifier_keys=keys,
        policy=_policy(options.release_policy),
        tls_ca=given.get("tls_ca"),
        timeout=_timeout(given),
    ) as client:
        plan: dict[str, JsonValue] = {
            "key": str(key),
            "protocol": f"skr {API_VERSION}",
            "service": key.vault,
            "tee": guest.tee,
            "verifier": verifier,
            "verifier_keys": "given by --maa-keys" if keys else "published by the Verifier",
            "encryption": ENCRYPTION,
            "release_policy": options.release_policy or "any",
            "requests": [
                f"POST {verifier}/{PATHS[guest.tee].partition('?')[0]}",
                f"POST /{key.path}/release",
            ],
        }
        yield _Asked(plan=plan, released=lambda: client.release(name))


# -- options


def _shared(service: SessionOptions, *, more: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Return the options that mean the same for every service; refuse those of a key-release service alone."""
    stated = {name: value for name, value in service.given.items() if value is not None}
    other = sorted(set(stated) - _SHARED - more) or (["config"] if service.config is not None else [])
    if other:
        raise _not_applicable(other[0], "the name of a key in a key-release service")
    return stated


def _timeout(given: dict[str, Any]) -> float:
    from attest.release.transport import TIMEOUT_SECONDS

    seconds: float = given.get("timeout_seconds", TIMEOUT_SECONDS)
    return seconds


def _require_none_of(options: ForeignOptions, names: tuple[str, ...], expected: str) -> None:
    for name in names:
        if getattr(options, name):
            raise _not_applicable(name, expected)


def _required(value: str | None, option: str) -> str:
    if value is None:
        raise ConfigurationError(
            f"this key needs {option}",
            code="option-not-applicable",
            field=option,
            expected=f"{option} with a value",
            hint="'attest key get --help' shows an example for each kind of KEY",
        )
    return value


def _not_applicable(name: str, expected: str) -> ConfigurationError:
    option = f"--{_OPTION_OF.get(name, name).replace('_', '-')}"
    return ConfigurationError(
        f"{option} has no effect for this KEY",
        code="option-not-applicable",
        field=option,
        expected=f"with it, KEY is {expected}",
        hint=f"with {option}, KEY is {expected}",
    )


def _guest(options: ForeignOptions, given: dict[str, Any]) -> Guest:
    from attest.cli.machine import machine_of
    from attest.kbs import MachineGuest, SampleGuest

    tee = options.tee or TEES[0]
    if tee == "sample":
        return SampleGuest()
    wanted: Any = None if tee == TEES[0] else tee  # Any: one of the choices
    return MachineGuest.of(machine_of(given.get("tcti")), tee=wanted, with_gpus=given.get("gpus"))


def _keys(file: str | None) -> tuple[TokenKey, ...]:
    from attest.results import read_public_keys

    return () if file is None else read_public_keys(_content(file, "keys of tokens"))


def _roots(file: str) -> tuple[Certificate, ...]:
    from attest.results.token_roots import read_token_roots

    try:
        return read_token_roots(_content(file, "--vault-roots"))
    except ConfigurationError as exc:
        if exc.code != "token-root-invalid":
            raise
        raise ConfigurationError(
            f"--vault-roots: {file}: {exc.message}",
            code=exc.code,
            field="--vault-roots",
            expected=exc.expected,
            hint=exc.hint,
        ) from exc


def _policy(file: str | None) -> SkrPolicy | None:
    from attest.policy.foreign.skr import parse_skr

    return None if file is None else parse_skr(_content(file, "release policy"), extended=True)


def _content(file: str, what: str) -> bytes:
    from attest.named_files import read_named

    return read_named(Path(file), what, limit=_MAX_FILE_BYTES)
