"""The settings: one TOML file, environment and flags, checked once, at start.

A flag beats the environment, which beats the file, which beats the default. Unknown names are refused. No setting is a
secret: keys are named by the file that holds them.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, ValidationError, field_validator, model_validator

from attest.errors import ConfigurationError
from attest.fetch import OCSP_URL, PCS_URL, RIM_URL
from kms.keys.wrapping.definitions import DEFINITION_PATHS, KEK_MEMBERS, Definition, definition_of
from kms.leases.granting import LONGEST_LEASE_SECONDS, SHORTEST_LEASE_SECONDS
from kms.logs import LogFormat
from kms.settings_admin import ADMIN_PATHS, ADMIN_TABLE, AdminSettings
from kms.store import Access, locate
from kms.tls import TlsVersion

__all__ = ["ENVIRONMENT_PREFIX", "MAX_BODY_BYTES", "LoadedSettings", "Settings", "load_settings", "require_origin"]

ENVIRONMENT_PREFIX: Final = "KMS_"
CONFIG_VARIABLE: Final = "KMS_CONFIG"
MAX_BODY_BYTES: Final = 16 * 1024 * 1024
"""An evidence envelope has at most 8 MiB (``attest.evidence.envelope``); no setting goes beyond twice that."""
MAX_FILE_BYTES: Final = 64 * 1024

SelfEvidence = Literal["off", "auto", "snp", "tdx", "azure", "simulated-snp", "simulated-tdx"]
_ORIGIN_LIKE = "expected letters, digits, '.', '_', '/' and '-', with a letter or digit at both ends"
_ORIGIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/-]{0,126}[A-Za-z0-9])?")
_SERVICE_LINKS = re.compile(r"KMS_(?:SERVICE|PORT)_.*")
"""Kubernetes sets these in every pod when a service is called ``kms``; they are nobody's settings."""


class Settings(AdminSettings):
    """What the operator decides.

    Attributes:
        database: SQLite file, as a path or ``sqlite:///`` and a path; or a ``postgresql://`` URL without a password.
        database_password_file: holds the password of a PostgreSQL server; without it libpq's password file counts.
        database_connections: most connections to a PostgreSQL server.
        kek_backend: what holds the key-encryption key: ``file``, ``pkcs11`` or ``transit``; its members follow, each
            called ``kek_`` and its name in the table ``[kek]``, see ``kms.keys.wrapping.definitions``.
        kek_file: the key-encryption key; better not beside the database and its backups.
        kek_directory: holds a definition (TOML) of each further key-encryption key.
        origin: the service's name, which its clients know it by for ever (``kms.example/prod``).
        host: address to listen on.
        port: port to listen on; 0 takes any free one.
        workers: processes that serve, all on the same socket.
        drain_seconds: longest time that requests which have begun get to finish when the service ends.
        tls_certificate_file: PEM certificates of the server; with it the service speaks HTTPS.
        tls_key_file: the key of the first of them.
        tls_minimum: oldest version of TLS that is spoken.
        plain_http: what becomes of listening beyond the loopback address without TLS: a warning, or a refusal.
        lock_memory: keep the service's memory out of the swap.
        self_evidence: how the service proves the machine that it runs on: not at all, by whatever TEE is there, by the
            TEE that is named and nothing else, or by the simulator, which proves nothing.
        self_evidence_per_minute: most reports that each worker makes of it in a minute.
        destroy_delay_seconds: the shortest time for which the destruction of a key can be undone.
        challenge_seconds: how long a challenge counts.
        lease_seconds: how long a released key is meant to be used before its holder attests again.
        max_body_bytes: longest request body.
        request_seconds: longest time to receive and answer one request.
        max_concurrent: most releases that a worker works on at the same time.
        endorsements: files and directories with certificates, revocation lists and bundles.
        bundle_keys: PEM files of those who may sign bundles; empty demands no signature of a bundle.
        fetch: whether AMD's, Intel's and NVIDIA's services are asked for what the files lack.
        pcs_url: which service is asked for Intel's endorsements: Intel's own, or the PCCS of a data centre.
        rim_url: which service is asked for NVIDIA's RIMs.
        ocsp_url: which responder is asked whether NVIDIA revoked a certificate.
        cache_directory: where their answers are kept.
        anchors_file: changes to the accepted roots.
        verifiers_file: Verifiers whose EARs are genuine here, with their keys; without it no passport is.
        witnesses_file: witnesses that are asked to cosign the log's checkpoints.
        publish_entries: let everybody read the entries of the log, and with them the names of keys and policies.
        allow_simulated: accept evidence of the simulator, which proves nothing about hardware.
        allow_thaw_by_one: let one person thaw what was frozen, as long as no quorum is set up for it.
        break_glass_seconds: how long break-glass may be open at most.
        log_format: ``text`` for people or ``json`` for programs, on standard error.
        metrics_host: address where metrics are read.
        metrics_port: port where metrics are read, without a proof of who asks; without it there are none.
        otlp_endpoint: where OpenTelemetry traces are sent (OTLP over HTTP); without it there are none.
        trace_percent: of the traces that begin here, how many are kept.
        client_requests_per_second: requests that one address may send in the long run, to each worker; 0 is no limit.
        client_burst: requests that it may send at once.
        profile: ``production`` refuses to start with any relaxed switch, and takes no unsigned bundle.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    database: Annotated[str, Field(min_length=1, max_length=4096)]
    origin: Annotated[str, Field(min_length=1, max_length=128)]
    kek_backend: Annotated[str, Field(max_length=16)] = "file"
    kek_file: Path | None = None
    kek_module: Path | None = None
    kek_token: str | None = None
    kek_key: str | None = None
    kek_pin_file: Path | None = None
    kek_url: str | None = None
    kek_mount: str | None = None
    kek_token_file: Path | None = None
    kek_ca_file: Path | None = None
    kek_namespace: str | None = None
    kek_directory: Path | None = None
    database_password_file: Path | None = None
    database_connections: Annotated[int, Field(ge=1, le=256)] = 10
    host: Annotated[str, Field(min_length=1, max_length=255)] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8750
    workers: Annotated[int, Field(ge=1, le=64)] = 1
    drain_seconds: Annotated[int, Field(ge=1, le=600)] = 10
    tls_certificate_file: Path | None = None
    tls_key_file: Path | None = None
    tls_minimum: TlsVersion = "1.3"
    plain_http: Literal["warn", "refuse"] = "warn"
    lock_memory: bool = False
    self_evidence: SelfEvidence = "off"
    self_evidence_per_minute: Annotated[int, Field(ge=1, le=6000)] = 60
    destroy_delay_seconds: Annotated[int, Field(ge=0, le=315_360_000)] = 604_800
    challenge_seconds: Annotated[int, Field(ge=10, le=3600)] = 300
    lease_seconds: Annotated[int, Field(ge=SHORTEST_LEASE_SECONDS, le=LONGEST_LEASE_SECONDS)] = 86_400
    max_body_bytes: Annotated[int, Field(ge=4096, le=MAX_BODY_BYTES)] = MAX_BODY_BYTES
    request_seconds: Annotated[int, Field(ge=1, le=300)] = 30
    max_concurrent: Annotated[int, Field(ge=1, le=1024)] = 32
    endorsements: tuple[Path, ...] = ()
    bundle_keys: tuple[Path, ...] = ()
    fetch: bool = False
    pcs_url: Annotated[str, Field(min_length=1, max_length=2048)] = PCS_URL
    rim_url: Annotated[str, Field(min_length=1, max_length=2048)] = RIM_URL
    ocsp_url: Annotated[str, Field(min_length=1, max_length=2048)] = OCSP_URL
    cache_directory: Path | None = None
    anchors_file: Path | None = None
    verifiers_file: Path | None = None
    witnesses_file: Path | None = None
    publish_entries: bool = False
    allow_simulated: bool = False
    allow_thaw_by_one: bool = False
    break_glass_seconds: Annotated[int, Field(ge=60, le=86_400)] = 14_400
    log_format: LogFormat = "text"
    metrics_host: Annotated[str, Field(min_length=1, max_length=255)] = "127.0.0.1"
    metrics_port: Annotated[int, Field(ge=0, le=65535)] | None = None
    otlp_endpoint: Annotated[str, Field(min_length=1, max_length=2048)] | None = None
    trace_percent: Annotated[int, Field(ge=1, le=100)] = 100
    client_requests_per_second: Annotated[int, Field(ge=0, le=100_000)] = 100
    client_burst: Annotated[int, Field(ge=1, le=100_000)] = 200
    profile: Literal["standard", "production"] = "standard"

    @property
    def is_production(self) -> bool:
        """Whether nothing may be relaxed."""
        return self.profile == "production"

    @property
    def kek(self) -> Definition:
        """Where the key-encryption key is.

        Raises:
            ConfigurationError: ``config-invalid``: a member is missing, wrong, or of another back-end.
        """
        names = {name: f"kek_{name}" for name in _KEK_TABLE if name != "directory"}
        members = {name: getattr(self, setting) for name, setting in names.items()}
        given = {name: value for name, value in members.items() if value is not None}
        return definition_of(given, source="the settings", prefix="kek_")

    @property
    def database_access(self) -> Access:
        """How the database is reached, beside where it is."""
        return Access(password_file=self.database_password_file, connections=self.database_connections)

    @field_validator("otlp_endpoint")
    @classmethod
    def _address_of_a_collector(cls, value: str | None) -> str | None:
        """Traces hold no secret; who asks when is nobody else's business all the same."""
        if value is None:
            return None
        parts = urlsplit(value)
        local = parts.hostname in {"localhost", "127.0.0.1", "::1"}
        if not parts.hostname or parts.scheme not in {"https", "http"} or (parts.scheme == "http" and not local):
            msg = "expected https://HOST/PATH, or http:// and the loopback address"
            raise ValueError(msg)
        if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
            msg = "expected an address without user, password, query or fragment"
            raise ValueError(msg)
        return value

    @field_validator("origin")
    @classmethod
    def _name_like(cls, value: str) -> str:
        """Names of signed notes have no white space and no ``+``; this is stricter, so that it fits a URL as well."""
        if not _ORIGIN.fullmatch(value):
            raise ValueError(_ORIGIN_LIKE)
        return value

    @model_validator(mode="after")
    def _certificate_with_key(self) -> Settings:
        if (self.tls_certificate_file is None) is not (self.tls_key_file is None):
            msg = "tls_certificate_file and tls_key_file belong together; one of them is not set"
            raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _simulated_only_where_allowed(self) -> Settings:
        if self.self_evidence.startswith("simulated") and not self.allow_simulated:
            msg = "self_evidence of the simulator needs allow_simulated"
            raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _planes_apart(self) -> Settings:
        if self.admin_port == self.port != 0:
            msg = "admin_port and port are the same"
            raise ValueError(msg)
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSettings:
    """Settings, and for each where it came from.

    Attributes:
        settings: validated.
        sources: by name: ``flag``, ``environment KMS_…``, ``file …`` or ``default``.
    """

    settings: Settings
    sources: Mapping[str, str]


def load_settings(
    *, flags: Mapping[str, object], environ: Mapping[str, str], config: Path | None = None
) -> LoadedSettings:
    """Put the settings together and check them.

    Args:
        flags: what was given on the command line; None means not given.
        environ: the environment.
        config: the file; None takes ``KMS_CONFIG``, and without it there is no file.

    Raises:
        ConfigurationError: ``config-unreadable`` or ``config-invalid``, naming the setting and where it came from; or
            as ``locate``: a password in the URL of a database is refused before anything could show it.
    """
    path = config or (Path(environ[CONFIG_VARIABLE]) if environ.get(CONFIG_VARIABLE) else None)
    layers = (
        ("default", {}) if path is None else (f"file {path}", _from_file(path)),
        ("environment", _from_environment(environ)),
        ("flag", {name: value for name, value in flags.items() if value is not None}),
    )
    for _, layer in layers:
        if isinstance(layer.get("database"), str):
            locate(str(layer["database"]))
    values: dict[str, object] = {}
    sources = dict.fromkeys(Settings.model_fields, "default")
    for source, layer in layers:
        values |= layer
        for name in layer:
            sources[name] = f"environment {ENVIRONMENT_PREFIX}{name.upper()}" if source == "environment" else source
    try:
        settings = Settings.model_validate({name: _plain(value) for name, value in values.items()})
    except ValidationError as exc:
        raise _invalid(exc, sources) from exc
    _ = settings.kek  # which is checked with them
    return LoadedSettings(settings=settings, sources=sources)


def require_origin(name: str) -> None:
    """Refuse what can be no service's name.

    Raises:
        ConfigurationError: ``config-invalid``.
    """
    if not _ORIGIN.fullmatch(name):
        raise ConfigurationError(
            f"origin: {_ORIGIN_LIKE}, got {name[:80]!r}",
            code="config-invalid",
            field="origin",
            expected=_ORIGIN_LIKE,
            got=repr(name)[:80],
            hint="name it like kms.example/prod; it stays for ever",
        )


def _from_file(path: Path) -> dict[str, object]:
    """Read the file; relative paths in it are meant from where it lies."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as exc:
        raise _unreadable(path, exc.strerror or str(exc)) from exc
    if len(content) > MAX_FILE_BYTES:
        raise _unreadable(path, f"more than {MAX_FILE_BYTES} bytes")
    try:
        values = tomllib.loads(content.decode("utf-8"))
    except ValueError as exc:
        raise _unreadable(path, str(exc)) from exc
    for table, members in _TABLES.items():
        values = _with_table(values, table, members, f"file {path}")
    for name in values:
        _require_known(name, f"file {path}")
    return {name: _from_folder(name, value, path.absolute().parent) for name, value in values.items()}


_STORE_TABLE: Final = {
    "url": "database",
    "password_file": "database_password_file",
    "connections": "database_connections",
}
_KEK_TABLE: Final = ("backend", *sorted({name for one in KEK_MEMBERS for name in one}), "directory")
_TABLES: Final = {
    "admin": {name: f"admin_{name}" for name in ADMIN_TABLE},
    "store": _STORE_TABLE,
    "kek": {name: f"kek_{name}" for name in _KEK_TABLE},
    "tls": {name: f"tls_{name}" for name in ("certificate_file", "key_file", "minimum")},
    "self": {name: f"self_{name}" for name in ("evidence", "evidence_per_minute")},
}
"""Tables of the file, what may stand in each, and the settings that these are."""


def _with_table(
    values: dict[str, object], name_of_table: str, members: Mapping[str, str], source: str
) -> dict[str, object]:
    """Read a table, which says the same as the settings of its subject beside it; never both."""
    table = values.get(name_of_table)
    if not isinstance(table, dict):
        return values
    rest = {name: value for name, value in values.items() if name != name_of_table}
    for name, value in table.items():
        setting = members.get(name)
        if setting is None:
            _require_known(f"{name_of_table}.{name}", source)
        elif setting in rest:
            raise ConfigurationError(
                f"{source}: [{name_of_table}] {name} and {setting} are the same setting",
                code="config-invalid",
                field=setting,
                expected="one of the two",
                hint="remove one of them",
            )
        else:
            rest[setting] = value
    return rest


_KEK_PATHS = {f"kek_{name}" for name in (*DEFINITION_PATHS, "directory")}
_PATHS = {
    "cache_directory",
    "anchors_file",
    "database_password_file",
    "tls_certificate_file",
    "tls_key_file",
    "verifiers_file",
    "witnesses_file",
    *(f"admin_{name}" for name in ADMIN_PATHS),
    "callers_issuers_file",
} | _KEK_PATHS
_PATH_LISTS = {"endorsements", "bundle_keys"}


def _from_folder(name: str, value: object, folder: Path) -> object:
    if name in _PATHS and isinstance(value, str):
        return folder / value
    if name in _PATH_LISTS and isinstance(value, list):
        return tuple(folder / entry if isinstance(entry, str) else entry for entry in value)
    if name == "database" and isinstance(value, str) and "://" not in value:
        return str(folder / value)
    return value


def _from_environment(environ: Mapping[str, str]) -> dict[str, object]:
    """Read ``KMS_…``; text becomes what the setting is, and nothing else does."""
    values: dict[str, object] = {}
    for variable, text in environ.items():
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable == CONFIG_VARIABLE:
            continue
        if _SERVICE_LINKS.fullmatch(variable):
            continue
        name = variable.removeprefix(ENVIRONMENT_PREFIX).lower()
        _require_known(name, f"environment {variable}")
        values[name] = _from_text(name, text)
    return values


def _from_text(name: str, text: str) -> object:
    kind = Settings.model_fields[name].annotation
    if kind is bool:
        return {"true": True, "false": False}.get(text, text)
    if kind in {int, int | None}:
        return int(text) if re.fullmatch(r"[0-9]{1,10}", text) else text
    if name in _PATH_LISTS:
        return tuple(Path(part) for part in text.split(os.pathsep) if part)
    return Path(text) if name in _PATHS else text


def _plain(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


def _require_known(name: str, source: str) -> None:
    if name in Settings.model_fields:
        return
    near = difflib.get_close_matches(name, Settings.model_fields, n=1)
    raise ConfigurationError(
        f"{source}: there is no setting {name!r}",
        code="config-invalid",
        field=name,
        expected=f"did you mean {near[0]!r}?" if near else "a known setting",
        got=name,
        hint="'kms config show' lists every setting",
    )


def _invalid(exc: ValidationError, sources: Mapping[str, str]) -> ConfigurationError:
    first = exc.errors(include_url=False)[0]
    name = str(first["loc"][0]) if first["loc"] else None
    problem = first["msg"].removeprefix("Value error, ")
    missing = first["type"] == "missing"
    where = f" ({sources[name]})" if name and name in sources and not missing else ""
    return ConfigurationError(
        f"{name or 'settings'}{where}: {'not set' if missing else problem}",
        code="config-invalid",
        field=name or "settings",
        expected=problem,
        got="nothing" if missing else repr(first["input"])[:80],
        hint=_remedy(name, missing=missing),
    )


def _remedy(name: str | None, *, missing: bool) -> str:
    """Say where a setting is set; of several that do not fit together, where all of them are told."""
    if name is None:
        return "'kms config show' says of each setting where it comes from; docs/operations.md says what they mean"
    places = f"{ENVIRONMENT_PREFIX}{name.upper()} in the environment, or {name} in the file that --config names"
    if not missing:
        return f"change it where it comes from: a flag, {places}"
    written = "name the settings with --config or KMS_CONFIG ('kms init DIRECTORY --origin NAME' writes them)"
    return f"{written}, or set --{name.replace('_', '-')}, {places}"  # what has no default has a flag


def _unreadable(path: Path, problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"the settings {path} cannot be read: {problem}",
        code="config-unreadable",
        field="config",
        got=problem,
        hint="name a file that is there with --config or KMS_CONFIG; 'kms init DIRECTORY --origin NAME' writes one",
    )
