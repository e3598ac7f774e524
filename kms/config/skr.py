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
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from attest.errors import AttestError, ConfigurationError
from attest.named_files import read_named
from attest.policy import parse_issuer
from attest.release import DEFAULT_TENANT, require_tenant
from attest.results import MAX_JWKS_BYTES, TokenKey, read_jwks, read_public_keys

SETTING: Final = "skr_file"
MAX_FILE_BYTES: Final = 64 * 1024
MAX_ENTRIES: Final = 64
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
_AGES: Final = range(60, DAY_SECONDS + 1)
_NOT_IN_ADDRESSES: Final = frozenset(',="|')
_HOST: Final = re.compile(r"[a-z0-9.-]{1,253}(:[1-9][0-9]{0,4})?", re.ASCII)
Members = dict[str, Any]  # Any: TOML


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


def read_skr_settings(path: Path) -> SkrSettings:
    """Read the file, and the key sets and policies that it names; certificates and keys of answers are not read.

    Raises:
        ConfigurationError: ``skr-file-invalid``, ``file-unreadable`` or ``tenant-invalid``.
    """
    members = _members(path)
    if unknown := set(members) - _MEMBERS:
        _refuse(path, f"there is no member {min(unknown)!r}; expected some of {', '.join(sorted(_MEMBERS))}")
    age = members.get("max_token_age_seconds", 8 * 3600)
    if isinstance(age, bool) or not isinstance(age, int) or age not in _AGES:
        _refuse(path, f"max_token_age_seconds: expected {_AGES.start} to {_AGES.stop - 1}")
    vaults = tuple(_vault(path, one) for one in _tables(path, members, "vaults"))
    authorities = tuple(_authority(path, one) for one in _tables(path, members, "authorities"))
    callers = tuple(_caller(path, one) for one in _tables(path, members, "callers"))
    if not vaults or len({one.host for one in vaults}) != len(vaults):
        _refuse(path, "vaults: expected at least one table [[vaults]], each with a host of its own")
    if len({str(parse_issuer(one.url)) for one in authorities}) != len(authorities):
        _refuse(path, "authorities: two have one url")
    named = {host for one in callers for permission in one.permissions for host in permission.vaults or ()}
    if unserved := named - {one.host for one in vaults}:
        _refuse(path, f"permissions.vaults: no table [[vaults]] has the host {min(unserved)!r}")
    return SkrSettings(
        vaults=vaults,
        authorities=authorities,
        callers=callers,
        refuse_sha1=_switch(path, members, "refuse_sha1"),
        max_token_age_seconds=age,
        single_use_tokens=_switch(path, members, "single_use_tokens"),
        extended_policies=_switch(path, members, "extended_policies"),
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
    return tuple(_named(path, {"vaults": ("policy", "signing_certificate"), "authorities": ("keys", "ca")}, "keys"))


def signing_keys_of_skr(path: Path) -> tuple[Path, ...]:
    """Return the files of the keys that sign answers; as ``named_by_skr``."""
    return tuple(_named(path, {"vaults": ("signing_key",)}, None))


def _named(path: Path, wanted: dict[str, tuple[str, ...]], of_callers: str | None) -> Iterator[Path]:
    members = _members(path)
    tables = {**wanted, **({"callers": (of_callers,)} if of_callers else {})}
    for table, names in tables.items():
        for entry in _tables(path, members, table):
            yield from (path.parent / entry[name] for name in names if isinstance(entry.get(name), str))


def _members(path: Path) -> Members:
    content = read_named(path, SETTING, limit=MAX_FILE_BYTES)
    if len(content) > MAX_FILE_BYTES:
        _refuse(path, f"more than {MAX_FILE_BYTES} bytes")
    try:
        return tomllib.loads(content.decode("utf-8"))
    except ValueError as exc:
        _refuse(path, str(exc))


def _tables(path: Path, members: Members, name: str) -> list[Members]:
    found = members.get(name, [])
    if not isinstance(found, list) or len(found) > MAX_ENTRIES or not all(isinstance(one, dict) for one in found):
        _refuse(path, f"{name}: expected at most {MAX_ENTRIES} tables [[{name}]]")
    return found


def _vault(path: Path, entry: Members) -> Vault:
    _require_known(path, entry, _VAULT, "vaults")
    texts = {name: _text(path, entry, name, f"vaults.{name}") for name in _VAULT}
    host = _required(path, texts["host"], "vaults.host").removesuffix(_HTTPS_PORT)
    if not _HOST.fullmatch(host):
        _refuse(path, f"vaults.host: {host!r}: expected a name in lower case, and its port unless that is 443")
    policy = texts["policy"]
    return Vault(
        host=host,
        tenant=require_tenant(texts["tenant"] or DEFAULT_TENANT),
        policy=None if policy is None else _content(path, policy, "vaults.policy"),
        policy_file=None if policy is None else path.parent / policy,
        resource=_address(path, texts["resource"], "vaults.resource"),
        login=_address(path, texts["login"], "vaults.login"),
        certificate=path.parent / _required(path, texts["signing_certificate"], "vaults.signing_certificate"),
        key=path.parent / _required(path, texts["signing_key"], "vaults.signing_key"),
    )


def _authority(path: Path, entry: Members) -> Authority:
    _require_known(path, entry, _AUTHORITY, "authorities")
    texts = {name: _text(path, entry, name, f"authorities.{name}") for name in _AUTHORITY}
    url, keys, jwks_url, ca = (texts[name] for name in _AUTHORITY)
    if (keys is None) is (jwks_url is None) or (ca is not None and jwks_url is None):
        _refuse(path, "authorities: expected either keys, or jwks_url and perhaps ca")
    return Authority(
        url=_address(path, url, "authorities.url"),
        keys=() if keys is None else _keys(path, keys, "authorities.keys", only_sets=True),
        jwks_url=None if jwks_url is None else _address(path, jwks_url, "authorities.jwks_url"),
        ca=None if ca is None else path.parent / ca,
    )


def _caller(path: Path, entry: Members) -> CallerIssuer:
    _require_known(path, entry, ("keys", "issuer", "audience", "permissions"), "callers")
    return CallerIssuer(
        keys=_keys(path, _required(path, _text(path, entry, "keys", "callers.keys"), "callers.keys"), "callers.keys"),
        issuer=_required(path, _text(path, entry, "issuer", "callers.issuer"), "callers.issuer"),
        audience=_required(path, _text(path, entry, "audience", "callers.audience"), "callers.audience"),
        permissions=tuple(_permission(path, one) for one in _tables(path, entry, "permissions")),
    )


def _permission(path: Path, entry: Members) -> Permission:
    _require_known(path, entry, ("role", "appid", "actions", "vaults"), "permissions")
    role, appid = (_text(path, entry, name, f"permissions.{name}") for name in ("role", "appid"))
    actions = entry.get("actions")
    if (role is None) is (appid is None):
        _refuse(path, "permissions: expected either a role or an appid")
    if not isinstance(actions, list) or not actions or not all(one in ACTIONS for one in actions):
        _refuse(path, f"permissions.actions: expected some of {', '.join(sorted(ACTIONS))}")
    vaults = entry.get("vaults")
    if vaults is not None and not (isinstance(vaults, list) and vaults and all(isinstance(one, str) for one in vaults)):
        _refuse(path, "permissions.vaults: expected a list of hosts of vaults")
    return Permission(
        role=role,
        appid=appid,
        actions=frozenset(actions),
        vaults=None if vaults is None else frozenset(one.removesuffix(_HTTPS_PORT) for one in vaults),
    )


def _keys(path: Path, name: str, where: str, *, only_sets: bool = False) -> tuple[TokenKey, ...]:
    content = _content(path, name, where, limit=MAX_JWKS_BYTES)
    try:
        return read_jwks(content) if only_sets else read_public_keys(content)
    except AttestError as exc:
        expected = "a key set (JWKS)" if only_sets else "a key set (JWKS) or a public key in PEM"
        raise _invalid(path, f"{where}: {path.parent / name}: expected {expected}: {exc.message}") from exc


def _content(path: Path, name: str, where: str, *, limit: int | None = None) -> bytes:
    hint = f"{path.name} names it as {where}; relative paths start at the folder of that file"
    return read_named(path.parent / name, SETTING, limit=limit, hint=hint)


def _address(path: Path, value: str | None, name: str) -> str:
    found = None if value is None else parse_issuer(value)
    # Clients split the header of the challenge at commas and equals signs.
    if value is None or found is None or found.scheme != "https" or set(value) & _NOT_IN_ADDRESSES:
        _refuse(path, f"{name}: expected an https address")
    if len(value) > _MAX_ADDRESS:
        _refuse(path, f"{name}: expected at most {_MAX_ADDRESS} characters")
    return value


def _switch(path: Path, members: Members, name: str) -> bool:
    value = members.get(name, False)
    if not isinstance(value, bool):
        _refuse(path, f"{name}: expected true or false")
    return value


def _text(path: Path, members: Members, name: str, where: str) -> str | None:
    value = members.get(name)
    if value is not None and not (isinstance(value, str) and value and value.isprintable()):
        _refuse(path, f"{where}: expected text")
    return value


def _required(path: Path, value: str | None, where: str) -> str:
    if value is None:
        _refuse(path, f"{where}: expected text")
    return value


def _require_known(path: Path, entry: Members, names: tuple[str, ...], table: str) -> None:
    if unknown := set(entry) - set(names):
        _refuse(path, f"{table}: there is no member {min(unknown)!r}; expected some of {', '.join(names)}")


def _refuse(path: Path, problem: str) -> NoReturn:
    raise _invalid(path, problem)


def _invalid(path: Path, problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"{SETTING}: {path}: {problem}",
        code="skr-file-invalid",
        field=SETTING,
        got=problem[:200],
        hint="docs/skr.md shows a whole file",
    )
