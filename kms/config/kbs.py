"""The file ``kbs_file``: how guests of Confidential Containers are served, and who administers their resources.

::

    tenant = "default"              # tenant of uploaded resources
    policy = "guests.yaml"          # policy that guards uploaded resources; a path from the folder of this file
    profile = "coco"                # accepts guests of version 0.2.0, too, as older_clients = true does
    token_seconds = 300             # lifetime of tokens

    [[administrators]]              # who may sign tokens of administrators
    keys = "administrators.pem"     # public keys, PEM or a key set
    issuer = "https://idp.example"  # required value of iss; any without it
    audience = "KBS"                # required member of aud; any without it
    # role = "admin"                # for tokens that name no role: those that clients up to 0.20 sign themselves

    [[roles]]
    role = "admin"
    endpoints = ["^/kbs/v0/.*$"]    # expressions, one of which the address of a request must match
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from attest.errors import AttestError, ConfigurationError
from attest.named_files import read_named
from attest.release import DEFAULT_TENANT, require_tenant
from attest.results import MAX_JWKS_BYTES, TokenKey, read_public_keys

SETTING: Final = "kbs_file"
MAX_FILE_BYTES: Final = 64 * 1024
MAX_ENTRIES: Final = 64
_TOKEN_SECONDS: Final = range(30, 3601)
_MEMBERS: Final = {"tenant", "policy", "profile", "older_clients", "token_seconds", "administrators", "roles"}
_PROFILE: Final = "coco"


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityProvider:
    """A signer of administrators' tokens.

    Attributes:
        issuer: required value of ``iss``; None accepts any.
        audience: required member of ``aud``; None accepts any.
        role: role of a token that names none; None refuses such a token.
    """

    keys: tuple[TokenKey, ...]
    issuer: str | None = None
    audience: str | None = None
    role: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleEndpoints:
    """The addresses that a role may use."""

    role: str
    endpoints: tuple[re.Pattern[str], ...]

    def permits(self, address: str) -> bool:
        """Return whether the role may use an address: the path with its query."""
        return any(one.search(address) for one in self.endpoints)


@dataclass(frozen=True, slots=True, kw_only=True)
class KbsSettings:
    """The content of the file.

    Attributes:
        tenant: of uploaded resources.
        policy: the policy document that guards uploaded resources, as its author wrote it; None: nothing can be
            uploaded.
        older_clients: guests of version 0.2.0 are accepted.
    """

    tenant: str
    policy: bytes | None
    older_clients: bool
    token_seconds: int
    administrators: tuple[IdentityProvider, ...]
    roles: tuple[RoleEndpoints, ...]


def read_kbs_settings(path: Path) -> KbsSettings:
    """Read the file, and the keys and the policy that it names.

    Raises:
        ConfigurationError: ``kbs-file-invalid``, ``file-unreadable``, ``tenant-invalid`` or ``jwks-invalid``.
    """
    members = _members(path)
    unknown = set(members) - _MEMBERS
    if unknown:
        _refuse(path, f"there is no member {min(unknown)!r}")
    policy = members.get("policy")
    profile, older = members.get("profile"), members.get("older_clients")
    if profile not in {None, _PROFILE} or not isinstance(older, bool | None):
        _refuse(path, f"profile: expected {_PROFILE!r}; older_clients: true or false")
    seconds = members.get("token_seconds", 300)
    if isinstance(seconds, bool) or not isinstance(seconds, int) or seconds not in _TOKEN_SECONDS:
        _refuse(path, f"token_seconds: expected {_TOKEN_SECONDS.start} to {_TOKEN_SECONDS.stop - 1}")
    return KbsSettings(
        tenant=require_tenant(_text(path, members, "tenant", DEFAULT_TENANT) or ""),
        policy=None if policy is None else read_named(path.parent / _path_of(path, policy, "policy"), SETTING),
        older_clients=profile == _PROFILE if older is None else older,
        token_seconds=seconds,
        administrators=tuple(_provider(path, one) for one in _tables(path, members, "administrators")),
        roles=tuple(_role(path, one) for one in _tables(path, members, "roles")),
    )


def named_by_kbs(path: Path) -> tuple[Path, ...]:
    """Return the files that the file names; they are not read.

    Raises:
        ConfigurationError: ``kbs-file-invalid`` or ``file-unreadable``.
    """
    members = _members(path)
    named = [members.get("policy"), *(one.get("keys") for one in _tables(path, members, "administrators"))]
    return tuple(path.parent / one for one in named if isinstance(one, str))


def _members(path: Path) -> dict[str, Any]:  # Any: TOML
    content = read_named(path, SETTING, limit=MAX_FILE_BYTES)
    if len(content) > MAX_FILE_BYTES:
        _refuse(path, f"more than {MAX_FILE_BYTES} bytes")
    try:
        return tomllib.loads(content.decode("utf-8"))
    except ValueError as exc:
        _refuse(path, str(exc))


def _tables(path: Path, members: dict[str, Any], name: str) -> list[dict[str, Any]]:  # Any: TOML
    found = members.get(name, [])
    if not isinstance(found, list) or len(found) > MAX_ENTRIES or not all(isinstance(one, dict) for one in found):
        _refuse(path, f"{name}: expected at most {MAX_ENTRIES} tables [[{name}]]")
    return found


def _provider(path: Path, entry: dict[str, Any]) -> IdentityProvider:  # Any: TOML
    _require_known(path, entry, {"keys", "issuer", "audience", "role"}, "administrators")
    file = path.parent / _path_of(path, entry.get("keys"), "administrators.keys")
    content = read_named(file, SETTING, limit=MAX_JWKS_BYTES)
    try:
        keys = read_public_keys(content)
    except AttestError as exc:
        raise _invalid(path, f"{file}: {exc.message}") from exc
    return IdentityProvider(
        keys=keys,
        issuer=_text(path, entry, "issuer"),
        audience=_text(path, entry, "audience"),
        role=_text(path, entry, "role"),
    )


def _role(path: Path, entry: dict[str, Any]) -> RoleEndpoints:  # Any: TOML
    _require_known(path, entry, {"role", "endpoints"}, "roles")
    role, endpoints = _text(path, entry, "role"), entry.get("endpoints")
    if not role or not isinstance(endpoints, list) or not 0 < len(endpoints) <= MAX_ENTRIES:
        _refuse(path, "roles: expected a role and a list of endpoints")
    return RoleEndpoints(role=role, endpoints=tuple(_expression(path, one) for one in endpoints))


def _expression(path: Path, text: object) -> re.Pattern[str]:
    """Compile an expression, which covers an address from its beginning to its end."""
    if not isinstance(text, str) or not text.startswith("^/kbs") or not text.endswith("$"):
        _refuse(path, f"roles.endpoints: {text!r}: expected an expression that begins with '^/kbs' and ends with '$'")
    try:
        return re.compile(text.removesuffix("$") + r"\Z")
    except re.error as exc:
        _refuse(path, f"roles.endpoints: {text!r}: {exc}")


def _text(path: Path, members: dict[str, Any], name: str, default: str | None = None) -> str | None:  # Any: TOML
    value = members.get(name, default)
    if value is not None and not (isinstance(value, str) and value and value.isprintable()):
        _refuse(path, f"{name}: expected text")
    return value


def _path_of(path: Path, value: object, name: str) -> str:
    if not isinstance(value, str) or not value:
        _refuse(path, f"{name}: expected the path of a file")
    return value


def _require_known(path: Path, entry: dict[str, Any], names: set[str], table: str) -> None:  # Any: TOML
    if unknown := set(entry) - names:
        _refuse(path, f"{table}: there is no member {min(unknown)!r}")


def _refuse(path: Path, problem: str) -> NoReturn:
    raise _invalid(path, problem)


def _invalid(path: Path, problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"{SETTING}: {path}: {problem}",
        code="kbs-file-invalid",
        field=SETTING,
        got=problem[:200],
        hint="docs/kbs.md shows a whole file",
    )
