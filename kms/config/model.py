"""Every setting with its type, bounds and default, and the constraints between settings."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field, field_validator, model_validator

from attest.errors import ConfigurationError
from attest.fetch import OCSP_URL, PCS_URL, RIM_URL
from kms.config.admin import AdminSettings
from kms.config.guards import MAX_GUARDS, is_address, parse_guard
from kms.config.tls import TlsVersion
from kms.domain.lease_grants import LONGEST_LEASE_SECONDS, SHORTEST_LEASE_SECONDS
from kms.keys.wrapping.definitions import KEK_MEMBERS, Definition, definition_of
from kms.store import Access

MAX_BODY_BYTES: Final = 16 * 1024 * 1024
"""An evidence envelope has at most 8 MiB (``attest.evidence.envelope``); the largest setting is twice that."""
BODY_BYTES: Final = 2 * 1024 * 1024
"""Fits the longest release: a quote with its certificates (64 KiB), an event log (1 MiB), sixteen GPUs and switches
with their certificates (16 KiB each), binding and challenge (32 KiB), a third more in base64: 1.8 MiB."""

LogFormat = Literal["text", "json"]
SelfEvidence = Literal["off", "auto", "snp", "tdx", "azure", "simulated-snp", "simulated-tdx"]
_ORIGIN_LIKE = "expected letters, digits, '.', '_', '/' and '-', with a letter or digit at both ends"
_ORIGIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/-]{0,126}[A-Za-z0-9])?")
KEK_TABLE: Final = ("backend", *sorted({name for one in KEK_MEMBERS for name in one}), "directory")
"""Members of the table ``[kek]``; the settings have the prefix ``kek_``."""


class Settings(AdminSettings):
    """Settings of the service; ``docs/operations.md`` explains each.

    The members for the back-ends of key-encryption keys are those of ``kms.keys.wrapping.definitions``, with the prefix
    ``kek_``.
    """

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
    rollback_guard: Annotated[tuple[str, ...], Field(max_length=MAX_GUARDS)] = ()
    allow_no_rollback_guard: bool = False
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
    max_body_bytes: Annotated[int, Field(ge=4096, le=MAX_BODY_BYTES)] = BODY_BYTES
    max_bodies_bytes: Annotated[int, Field(ge=MAX_BODY_BYTES, le=1 << 40)] = 64 * 1024 * 1024
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
    kbs_file: Path | None = None
    maa_file: Path | None = None
    skr_file: Path | None = None
    witnesses_file: Path | None = None
    publish_entries: bool = False
    allow_simulated: bool = False
    allow_thaw_by_one: bool = False
    fsck_every_seconds: Annotated[int, Field(ge=0, le=2_678_400)] = 86_400
    break_glass_seconds: Annotated[int, Field(ge=60, le=86_400)] = 14_400
    log_format: LogFormat = "text"
    metrics_host: Annotated[str, Field(min_length=1, max_length=255)] = "127.0.0.1"
    metrics_port: Annotated[int, Field(ge=0, le=65535)] | None = None
    otlp_endpoint: Annotated[str, Field(min_length=1, max_length=2048)] | None = None
    trace_percent: Annotated[int, Field(ge=1, le=100)] = 100
    client_requests_per_second: Annotated[int, Field(ge=0, le=100_000)] = 100
    client_burst: Annotated[int, Field(ge=1, le=100_000)] = 200
    client_connections_per_second: Annotated[int, Field(ge=0, le=100_000)] = 50
    identity_requests_per_second: Annotated[int, Field(ge=0, le=100_000)] = 50
    identity_burst: Annotated[int, Field(ge=1, le=100_000)] = 200
    chip_releases_per_minute: Annotated[int, Field(ge=0, le=1_000_000)] = 600
    profile: Literal["standard", "production"] = "standard"

    @property
    def is_production(self) -> bool:
        """True if insecure settings are refused."""
        return self.profile == "production"

    @property
    def kek(self) -> Definition:
        """Definition of the key-encryption key.

        Raises:
            ConfigurationError: ``config-invalid``: a member is missing, wrong, or belongs to another back-end.
        """
        names = {name: f"kek_{name}" for name in KEK_TABLE if name != "directory"}
        members = {name: getattr(self, setting) for name, setting in names.items()}
        given = {name: value for name, value in members.items() if value is not None}
        return definition_of(given, source="the settings", prefix="kek_")

    @property
    def database_access(self) -> Access:
        """Connection options of the database, without its location."""
        return Access(password_file=self.database_password_file, connections=self.database_connections)

    @field_validator("otlp_endpoint")
    @classmethod
    def _address_of_a_collector(cls, value: str | None) -> str | None:
        """Traces hold no secret, but show who requests keys and when."""
        if value is not None and not is_address(value):
            raise ValueError("expected https://HOST/PATH without user or query; http:// only for the loopback address")
        return value

    @field_validator("rollback_guard")
    @classmethod
    def _guards(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        """Require different guards; all of them must accept the database."""
        if len({parse_guard(one) for one in value}) != len(value):
            raise ValueError("expected no duplicate guard")
        return value

    @field_validator("origin")
    @classmethod
    def _name_like(cls, value: str) -> str:
        """Require a name for signed notes, without white space and ``+``, that also fits a URL."""
        if not _ORIGIN.fullmatch(value):
            raise ValueError(_ORIGIN_LIKE)
        return value

    @model_validator(mode="after")
    def _agreeing(self) -> Settings:
        if (self.tls_certificate_file is None) is not (self.tls_key_file is None):
            raise ValueError("tls_certificate_file and tls_key_file must be set together")
        if self.self_evidence.startswith("simulated") and not self.allow_simulated:
            raise ValueError("self_evidence of the simulator requires allow_simulated")
        if self.admin_port == self.port != 0:
            raise ValueError("admin_port and port are the same")
        return self


def require_origin(name: str) -> None:
    """Refuse an invalid name of a service.

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
            hint="use a name such as kms.example/prod; it cannot be changed later",
        )
