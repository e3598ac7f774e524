"""Meaning of the settings, as one document with a digest: logged when it changes, and attested by the service.

Paths, limits and settings of one machine are left out, because replicas may differ in these. A file is represented by
its content. No file with a secret is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, cast

import rfc8785

from attest import TrustAnchors, __version__
from attest.encoding import JsonValue, json_value
from attest.errors import EvidenceError
from attest.named_files import read_named
from kms.auth.issuers import BearerIssuer, read_issuers
from kms.config.kbs import named_by_kbs
from kms.config.maa import named_by_maa
from kms.config.settings import Settings
from kms.config.skr import named_by_skr
from kms.domain.actors import Actor
from kms.domain.anchors import anchor_lines, anchors_digest
from kms.domain.errors import IntegrityError
from kms.release.verifiers import read_verifiers, verifier_lines
from kms.store import Store

SCHEMA: Final = "kms.configuration/1"
SETTINGS_CHANGED: Final = "settings-changed"
ANCHORS_CHANGED: Final = "anchors-changed"
FACT: Final = "configuration"
"""Fact: the document that was logged last."""
LEFT_OUT: Final = frozenset(
    {
        "admin_host",
        "admin_port",
        "client_burst",
        "client_connections_per_second",
        "client_requests_per_second",
        "identity_requests_per_second",
        "identity_burst",
        "chip_releases_per_minute",
        "database",
        "database_connections",
        "drain_seconds",
        "host",
        "lock_memory",
        "log_format",
        "max_concurrent",
        "metrics_host",
        "metrics_port",
        "otlp_endpoint",
        "port",
        "request_seconds",
        "rollback_guard",
        "self_evidence_per_minute",
        "trace_percent",
        "workers",
    }
)
"""Settings that may differ between replicas. Files that are not among ``DIGESTED`` are left out too."""
DIGESTED: Final = frozenset(
    {
        "admin_client_ca_file",
        "admin_issuers_file",
        "callers_issuers_file",
        "anchors_file",
        "bundle_keys",
        "kbs_file",
        "maa_file",
        "skr_file",
        "verifiers_file",
        "witnesses_file",
    }
)
"""Settings that name public files, which are represented by their content."""
_ISSUERS: Final = frozenset({"admin_issuers_file", "callers_issuers_file"})
"""Those of them whose files name further files: key sets, and CA certificates for URLs of key sets."""
_NAMING: Final[Mapping[str, Callable[[Path], tuple[Path, ...]]]] = {
    "kbs_file": named_by_kbs,
    "maa_file": named_by_maa,
    "skr_file": named_by_skr,
}
"""Files of foreign protocols, with the functions that return the public files that each names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The meaning of the settings: a JSON document with schema, version, settings and anchors."""

    document: Mapping[str, JsonValue]

    @property
    def raw(self) -> bytes:
        """Canonical JSON (RFC 8785)."""
        return rfc8785.dumps(cast("dict[str, Any]", dict(self.document)))  # Any: JSON

    @property
    def digest(self) -> bytes:
        """SHA-256 of the canonical JSON, 32 bytes."""
        return sha256(self.raw).digest()

    @property
    def settings(self) -> Mapping[str, JsonValue]:
        """The settings of the document."""
        found = self.document.get("settings")
        return found if isinstance(found, dict) else {}

    @property
    def anchors(self) -> frozenset[str]:
        """The accepted roots and Verifier keys, a line each."""
        found = self.document.get("anchors")
        return frozenset(map(str, found)) if isinstance(found, list) else frozenset()

    @property
    def anchors_digest(self) -> bytes:
        """SHA-256 of the sorted lines, 32 bytes."""
        return anchors_digest(self.anchors)


def read_configuration(settings: Settings, anchors: TrustAnchors) -> Configuration:
    """Return the present meaning of the settings; the anchors were read from them.

    Raises:
        ConfigurationError: ``file-unreadable``, or as ``read_issuers`` and ``read_verifiers``.
    """
    values: dict[str, JsonValue] = {}
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        if name in _ISSUERS and value is not None:
            values[name] = _of_issuers(value, name)
        elif name in _NAMING and value is not None:
            values[name] = [_digest_of(one, name) for one in (value, *_NAMING[name](value))]
        elif name in DIGESTED:
            values[name] = _digested(value, name)
        elif name not in LEFT_OUT and not _names_files(value):
            values[name] = list(value) if isinstance(value, tuple) else value
    lines: list[JsonValue] = [*trust_lines(settings, anchors)]
    return Configuration(document={"schema": SCHEMA, "version": __version__, "settings": values, "anchors": lines})


def trust_lines(settings: Settings, anchors: TrustAnchors) -> tuple[str, ...]:
    """Return a line for each accepted root, and for each key of a trusted Verifier, sorted.

    Raises:
        ConfigurationError: as ``read_verifiers``.
    """
    verifiers = () if settings.verifiers_file is None else read_verifiers(settings.verifiers_file)
    return tuple(sorted((*anchor_lines(anchors), *verifier_lines(verifiers))))


def _names_files(value: object) -> bool:
    return isinstance(value, Path) or (isinstance(value, tuple) and any(isinstance(one, Path) for one in value))


def _digested(value: object, name: str) -> JsonValue:
    if isinstance(value, tuple):
        digests = sorted(_digest_of(path, name) for path in value)
        return [*digests]
    return _digest_of(value, name) if isinstance(value, Path) else None


def _of_issuers(path: Path, name: str) -> JsonValue:
    """Return the digest of a file of issuers, and after it those of the files that it names; null for a missing one."""
    return with_key_sets(_digest_of(path, name), read_issuers(path), name)


def with_key_sets(digest: JsonValue, issuers: Iterable[BearerIssuer], name: str) -> JsonValue:
    """Add the digests of the files that issuers name after that of the file of issuers.

    Raises:
        ConfigurationError: ``file-unreadable``.
    """
    named = [one for issuer in issuers for one in issuer.files]
    return [digest, *(_digest_of(one, name) if one.is_file() else None for one in named)] if named else digest


def _digest_of(path: Path, name: str) -> str:
    return sha256(read_named(path, name)).hexdigest()


def log_configuration(store: Store, configuration: Configuration, *, actor: Actor, at: datetime) -> bool:
    """Log the meaning of the settings; return False if the last logged one is the same.

    If replicas with the same settings start at the same time, one of them writes.

    Raises:
        UnavailableError: the database is in use, or the clock is wrong.
        IntegrityError: ``store-fact-invalid``.
    """
    with store.reading() as tx:
        if tx.facts.find(FACT) == configuration.raw:
            return False
    with store.writing() as tx:
        before = tx.facts.find(FACT)
        if before == configuration.raw:
            return False
        old = None if before is None else _stored(before)
        head: dict[str, JsonValue] = {
            "actor": actor.members(),
            "configuration_sha256": configuration.digest.hex(),
            "anchors_sha256": configuration.anchors_digest.hex(),
        }
        tx.log.add(kind=SETTINGS_CHANGED, at=at, body=head | _settings_change(old, configuration))
        if old is not None and old.anchors != configuration.anchors:
            tx.log.add(kind=ANCHORS_CHANGED, at=at, body=head | _anchors_change(old, configuration))
        tx.facts.put(FACT, configuration.raw)
    return True


def _settings_change(old: Configuration | None, new: Configuration) -> dict[str, JsonValue]:
    names = set() if old is None else {*old.settings, *new.settings}
    return {
        "before_sha256": None if old is None else old.digest.hex(),
        "changed": [name for name in sorted(names) if old and old.settings.get(name) != new.settings.get(name)],
        "configuration": dict(new.document),
    }


def _anchors_change(old: Configuration, new: Configuration) -> dict[str, JsonValue]:
    return {
        "before_sha256": old.anchors_digest.hex(),
        "added": [*sorted(new.anchors - old.anchors)],
        "removed": [*sorted(old.anchors - new.anchors)],
    }


def _stored(raw: bytes) -> Configuration:
    try:
        document = json_value(raw, what=FACT)
    except EvidenceError as exc:
        raise _damaged("unreadable") from exc
    if not isinstance(document, dict):
        raise _damaged("unreadable")
    return Configuration(document=document)


def _damaged(problem: str) -> IntegrityError:
    return IntegrityError(
        f"the record of the settings in the database: {problem}",
        code="store-fact-invalid",
        field=FACT,
        hint="another program wrote to the database; the log has every change of the settings",
    )
