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
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from attest.named_files import read_named
from attest.release import DEFAULT_TENANT, require_tenant
from attest.results import TokenKey
from kms.config.protocol_file import MAX_ENTRIES, Members, ProtocolFile

SETTING: Final = "kbs_file"
_TOKEN_SECONDS: Final = range(30, 3601)
_MEMBERS: Final = {"tenant", "policy", "profile", "older_clients", "token_seconds", "administrators", "roles"}
_PROFILE: Final = "coco"
_FILE: Final = partial(ProtocolFile, setting=SETTING, code="kbs-file-invalid", page="docs/kbs.md")


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
    toml = _FILE(path=path)
    members = toml.members()
    toml.require_known(members, _MEMBERS)
    policy = members.get("policy")
    profile, older = members.get("profile"), members.get("older_clients")
    if profile not in {None, _PROFILE} or not isinstance(older, bool | None):
        toml.refuse(f"profile: expected {_PROFILE!r}; older_clients: true or false")
    return KbsSettings(
        tenant=require_tenant(toml.text(members, "tenant") or DEFAULT_TENANT),
        policy=None if policy is None else read_named(toml.beside(_path_of(toml, policy, "policy")), SETTING),
        older_clients=profile == _PROFILE if older is None else older,
        token_seconds=toml.number(members, "token_seconds", _TOKEN_SECONDS, 300),
        administrators=tuple(_provider(toml, one) for one in toml.tables(members, "administrators")),
        roles=tuple(_role(toml, one) for one in toml.tables(members, "roles")),
    )


def named_by_kbs(path: Path) -> tuple[Path, ...]:
    """Return the files that the file names; they are not read.

    Raises:
        ConfigurationError: ``kbs-file-invalid`` or ``file-unreadable``.
    """
    toml = _FILE(path=path)
    members = toml.members()
    named = [members.get("policy"), *(one.get("keys") for one in toml.tables(members, "administrators"))]
    return tuple(toml.beside(one) for one in named if isinstance(one, str))


def _provider(toml: ProtocolFile, entry: Members) -> IdentityProvider:
    toml.require_known(entry, {"keys", "issuer", "audience", "role"}, "administrators")
    return IdentityProvider(
        keys=toml.keys(_path_of(toml, entry.get("keys"), "administrators.keys"), "administrators.keys"),
        issuer=toml.text(entry, "issuer"),
        audience=toml.text(entry, "audience"),
        role=toml.text(entry, "role"),
    )


def _role(toml: ProtocolFile, entry: Members) -> RoleEndpoints:
    toml.require_known(entry, {"role", "endpoints"}, "roles")
    role, endpoints = toml.text(entry, "role"), entry.get("endpoints")
    if not role or not isinstance(endpoints, list) or not 0 < len(endpoints) <= MAX_ENTRIES:
        toml.refuse("roles: expected a role and a list of endpoints")
    return RoleEndpoints(role=role, endpoints=tuple(_expression(toml, one) for one in endpoints))


def _expression(toml: ProtocolFile, text: object) -> re.Pattern[str]:
    """Compile an expression, which covers an address from its beginning to its end."""
    if not isinstance(text, str) or not text.startswith("^/kbs") or not text.endswith("$"):
        toml.refuse(f"roles.endpoints: {text!r}: expected an expression that begins with '^/kbs' and ends with '$'")
    try:
        return re.compile(text.removesuffix("$") + r"\Z")
    except re.error as exc:
        toml.refuse(f"roles.endpoints: {text!r}: {exc}")


def _path_of(toml: ProtocolFile, value: object, name: str) -> str:
    if not isinstance(value, str) or not value:
        toml.refuse(f"{name}: expected the path of a file")
    return value
