"""The file ``skr_file``: vaults whose keys Azure's programs release, the authorities that count, and the callers.

::

    refuse_sha1 = false                       # true refuses CKM_RSA_AES_KEY_WRAP, the default of Azure's clients
    max_token_age_seconds = 28800             # oldest iat of an authority's token
    single_use_tokens = false                 # true releases once for each token
    extended_policies = false                 # true accepts operators beside equals, which Azure ignores

    [[vaults]]
    host = "v1.localhost:8443"                # as in the header Host
    tenant = "default"                        # tenant of the keys that are made here
    policy = "vault.yaml"                     # attest policy of the keys that are made here; it names the verifiers
    resource = "https://localhost:8443"       # of the challenge; the host is below it
    login = "https://login.example/TENANT"    # of the challenge
    signing_certificate = "vault.crt"         # answers are signed with it: a server certificate of the vault's name
    signing_key = "vault.key"

    [[authorities]]                           # Verifiers whose tokens count
    # own = true                              # this service's own verifier (maa_file), instead of url and keys
    url = "https://maa.example"
    keys = "maa.jwks.json"                    # their key set; or jwks_url, with the CA of its server in ca
    # jwks_url = "https://maa.example/certs"
    # ca = "ca.pem"

    [[callers]]                               # who signs tokens of callers
    keys = "login.jwks.json"
    issuer = "https://login.example/TENANT/v2.0"
    audience = "https://localhost:8443"

    [[callers.permissions]]
    role = "release"                          # a role of the token, or appid = "..."
    actions = ["get", "release"]
    # vaults = ["v1.localhost:8443"]          # vaults for which it counts; default: all
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from attest.policy import parse_issuer
from attest.release import DEFAULT_TENANT, require_tenant
from attest.results import TokenKey
from kms.config.maa import read_maa_settings
from kms.config.protocol_file import Members, ProtocolFile

SETTING: Final = "skr_file"
ACTIONS: Final = frozenset({"create", "import", "get", "update", "list", "release", "rotate", "delete"})
DAY_SECONDS: Final = 86_400
_MEMBERS: Final = {
    "refuse_sha1",
    "max_token_age_seconds",
    "single_use_tokens",
    "extended_policies",
    "vaults",
    "authorities",
    "callers",
}
_VAULT: Final = ("host", "tenant", "policy", "resource", "login", "signing_certificate", "signing_key")
_AUTHORITY: Final = ("url", "keys", "jwks_url", "ca")
_HTTPS: Final = 443
_HTTPS_PORT: Final = f":{_HTTPS}"
_MAX_ADDRESS: Final = 255
_MAX_SAME_CALLERS: Final = 8
"""Tables of callers whose keys are tried for one token."""
_AGES: Final = range(60, DAY_SECONDS + 1)
_NOT_IN_ADDRESSES: Final = frozenset(',="|')
_HOST: Final = re.compile(r"[a-z0-9.-]{1,253}(:[1-9][0-9]{0,4})?", re.ASCII)
_FILE: Final = partial(ProtocolFile, setting=SETTING, code="skr-file-invalid", page="docs/skr.md")


@dataclass(frozen=True, slots=True, kw_only=True)
class Vault:
    """A vault.

    Attributes:
        host: name and port as clients write them; without the port 443.
        policy: the policy document of keys that are made here, as its author wrote it; None: none can be made.
        policy_file: its file, for errors.
        resource: the audience that clients ask a token for.
        login: the address of the login service, whose first segment is the login's tenant.
        certificate: file of the chain that signs answers, the vault's own certificate first.
        key: file of its private key.
    """

    host: str
    tenant: str
    policy: bytes | None
    policy_file: Path | None
    resource: str
    login: str
    certificate: Path
    key: Path

    @property
    def name(self) -> str:
        """The host name without its port."""
        return self.host.partition(":")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """A Verifier whose tokens count.

    Attributes:
        keys: its pinned key set; empty if it is read from ``jwks_url``.
        ca: file with the CA of the server of ``jwks_url``; None: the system's.
    """

    url: str
    keys: tuple[TokenKey, ...] = ()
    jwks_url: str | None = None
    ca: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    """Actions that tokens with a role, or of an application, may ask for.

    Attributes:
        vaults: hosts of the vaults for which they count; None: all.
    """

    role: str | None
    appid: str | None
    actions: frozenset[str]
    vaults: frozenset[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerIssuer:
    """A signer of callers' tokens, with what its callers may do."""

    keys: tuple[TokenKey, ...]
    issuer: str
    audience: str
    permissions: tuple[Permission, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SkrSettings:
    """The content of the file.

    Attributes:
        max_token_age_seconds: the oldest ``iat`` of an authority's token.
    """

    vaults: tuple[Vault, ...]
    authorities: tuple[Authority, ...]
    callers: tuple[CallerIssuer, ...]
    refuse_sha1: bool = False
    max_token_age_seconds: int = 8 * 3600
    single_use_tokens: bool = False
    extended_policies: bool = False


def read_skr_settings(path: Path, *, maa_file: Path | None = None) -> SkrSettings:
    """Read the file, and the key sets and policies that it names; certificates and keys of answers are not read.

    ``maa_file`` is the setting, for an authority that is this service's own verifier.

    Raises:
        ConfigurationError: ``skr-file-invalid``, ``file-unreadable`` or ``tenant-invalid``; or as
            ``read_maa_settings``.
    """
    toml = _FILE(path=path)
    members = toml.members()
    toml.require_known(members, _MEMBERS)
    vaults = tuple(_vault(toml, one) for one in toml.tables(members, "vaults"))
    authorities = tuple(_authority(toml, one, maa_file) for one in toml.tables(members, "authorities"))
    if not vaults or len({one.host for one in vaults}) != len(vaults):
        toml.refuse("vaults: expected at least one table [[vaults]], each with a host of its own")
    if len({str(parse_issuer(one.url)) for one in authorities}) != len(authorities):
        toml.refuse("authorities: two have one url")
    callers = tuple(_caller(toml, one) for one in toml.tables(members, "callers"))
    if max(Counter((one.issuer, one.audience) for one in callers).values(), default=0) > _MAX_SAME_CALLERS:
        toml.refuse(f"callers: more than {_MAX_SAME_CALLERS} tables have the same issuer and audience")
    stated = frozenset[str]().union(*(one.vaults or () for caller in callers for one in caller.permissions))
    if unknown := stated - {one.host for one in vaults}:
        toml.refuse(f"permissions.vaults: no table [[vaults]] has the host {min(unknown)!r}")
    return SkrSettings(
        vaults=vaults,
        authorities=authorities,
        callers=callers,
        refuse_sha1=_switch(toml, members, "refuse_sha1"),
        max_token_age_seconds=toml.number(members, "max_token_age_seconds", _AGES, 8 * 3600),
        single_use_tokens=_switch(toml, members, "single_use_tokens"),
        extended_policies=_switch(toml, members, "extended_policies"),
    )


def is_below(host: str, resource: str) -> bool:
    """Return True if clients accept a challenge: the host is that of ``resource`` or below it, with the same port."""
    found = parse_issuer(resource)
    name, _, port = host.partition(":")
    if found is None or (found.port or _HTTPS) != int(port or _HTTPS):
        return False
    return name == found.host or name.endswith(f".{found.host}")


def named_by_skr(path: Path) -> tuple[Path, ...]:
    """Return the public files that the file names; they are not read.

    Raises:
        ConfigurationError: ``skr-file-invalid`` or ``file-unreadable``.
    """
    toml = _FILE(path=path)
    tables = {"vaults": ("policy", "signing_certificate"), "authorities": ("keys", "ca"), "callers": ("keys",)}
    return tuple(_named(toml, tables))


def hosts_of_skr(path: Path) -> tuple[str, ...]:
    """Return the hosts of the vaults; as ``named_by_skr``."""
    toml = _FILE(path=path)
    return tuple(_host(toml, one) for one in toml.tables(toml.members(), "vaults"))


def signing_keys_of_skr(path: Path) -> tuple[Path, ...]:
    """Return the files of the keys that sign answers; as ``named_by_skr``."""
    toml = _FILE(path=path)
    return tuple(_named(toml, {"vaults": ("signing_key",)}))


def _named(toml: ProtocolFile, tables: dict[str, tuple[str, ...]]) -> Iterator[Path]:
    members = toml.members()
    for table, names in tables.items():
        for entry in toml.tables(members, table):
            yield from (toml.beside(entry[name]) for name in names if isinstance(entry.get(name), str))


def _vault(toml: ProtocolFile, entry: Members) -> Vault:
    toml.require_known(entry, _VAULT, "vaults")
    texts = {name: toml.text(entry, name, f"vaults.{name}") for name in _VAULT}
    host = _host(toml, entry)
    policy = texts["policy"]
    return Vault(
        host=host,
        tenant=require_tenant(texts["tenant"] or DEFAULT_TENANT),
        policy=None if policy is None else toml.content(toml.beside(policy), "vaults.policy"),
        policy_file=None if policy is None else toml.beside(policy),
        resource=_address(toml, texts["resource"], "vaults.resource"),
        login=_address(toml, texts["login"], "vaults.login"),
        certificate=toml.beside(_required(toml, texts["signing_certificate"], "vaults.signing_certificate")),
        key=toml.beside(_required(toml, texts["signing_key"], "vaults.signing_key")),
    )


def _host(toml: ProtocolFile, entry: Members) -> str:
    host = _required(toml, toml.text(entry, "host", "vaults.host"), "vaults.host").removesuffix(_HTTPS_PORT)
    if not _HOST.fullmatch(host):
        toml.refuse(f"vaults.host: {host!r}: expected a name in lower case, and its port unless that is 443")
    return host


def _authority(toml: ProtocolFile, entry: Members, maa_file: Path | None) -> Authority:
    toml.require_known(entry, (*_AUTHORITY, "own"), "authorities")
    if _switch(toml, entry, "own"):
        return _own(toml, entry, maa_file)
    texts = {name: toml.text(entry, name, f"authorities.{name}") for name in _AUTHORITY}
    url, keys, jwks_url, ca = (texts[name] for name in _AUTHORITY)
    if (keys is None) is (jwks_url is None) or (ca is not None and jwks_url is None):
        toml.refuse("authorities: expected either keys, or jwks_url and perhaps ca")
    return Authority(
        url=_address(toml, url, "authorities.url"),
        keys=() if keys is None else toml.keys(keys, "authorities.keys", only_sets=True),
        jwks_url=None if jwks_url is None else _address(toml, jwks_url, "authorities.jwks_url"),
        ca=None if ca is None else toml.beside(ca),
    )


def _own(toml: ProtocolFile, entry: Members, maa_file: Path | None) -> Authority:
    """Return this service's own verifier, whose key is read from its file."""
    if maa_file is None or len(entry) > 1:
        toml.refuse("authorities: own = true excludes other members, and needs the setting maa_file")
    settings = read_maa_settings(maa_file)
    return Authority(url=settings.issuer, keys=(settings.public_key,))


def _caller(toml: ProtocolFile, entry: Members) -> CallerIssuer:
    toml.require_known(entry, ("keys", "issuer", "audience", "permissions"), "callers")
    return CallerIssuer(
        keys=toml.keys(_required(toml, toml.text(entry, "keys", "callers.keys"), "callers.keys"), "callers.keys"),
        issuer=_required(toml, toml.text(entry, "issuer", "callers.issuer"), "callers.issuer"),
        audience=_required(toml, toml.text(entry, "audience", "callers.audience"), "callers.audience"),
        permissions=tuple(_permission(toml, one) for one in toml.tables(entry, "permissions")),
    )


def _permission(toml: ProtocolFile, entry: Members) -> Permission:
    toml.require_known(entry, ("role", "appid", "actions", "vaults"), "permissions")
    role, appid = (toml.text(entry, name, f"permissions.{name}") for name in ("role", "appid"))
    actions = entry.get("actions")
    if (role is None) is (appid is None):
        toml.refuse("permissions: expected either a role or an appid")
    if not isinstance(actions, list) or not actions or not all(one in ACTIONS for one in actions):
        toml.refuse(f"permissions.actions: expected some of {', '.join(sorted(ACTIONS))}")
    vaults = entry.get("vaults")
    if vaults is not None and not (isinstance(vaults, list) and vaults and all(isinstance(one, str) for one in vaults)):
        toml.refuse("permissions.vaults: expected a list of hosts of vaults")
    return Permission(
        role=role,
        appid=appid,
        actions=frozenset(actions),
        vaults=None if vaults is None else frozenset(one.removesuffix(_HTTPS_PORT) for one in vaults),
    )


def _address(toml: ProtocolFile, value: str | None, name: str) -> str:
    found = None if value is None else parse_issuer(value)
    # Clients split the header of the challenge at commas and equals signs.
    if value is None or found is None or found.scheme != "https" or set(value) & _NOT_IN_ADDRESSES:
        toml.refuse(f"{name}: expected an https address")
    if len(value) > _MAX_ADDRESS:
        toml.refuse(f"{name}: expected at most {_MAX_ADDRESS} characters")
    return value


def _switch(toml: ProtocolFile, members: Members, name: str) -> bool:
    value = members.get(name, False)
    if not isinstance(value, bool):
        toml.refuse(f"{name}: expected true or false")
    return value


def _required(toml: ProtocolFile, value: str | None, where: str) -> str:
    if value is None:
        toml.refuse(f"{where}: expected text")
    return value
