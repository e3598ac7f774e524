"""Trusted Verifiers, whose EARs are accepted: a file of the operator with the keys of each.

::

    [[verifier]]
    issuer = "https://verifier.example"      # as in its EARs
    keys = "verifier.jwks.json"              # the key set that it publishes; a path from the folder of this file
    tenants = ["acme"]                       # tenants for whose keys it is trusted; default: all
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeGuard

from attest.errors import ConfigurationError
from attest.named_files import read_named
from attest.release import require_tenant
from attest.results import MAX_JWKS_BYTES, TokenKey, read_jwks
from kms.domain.canonical_json import canonical_digest

MAX_VERIFIERS: Final = 64
MAX_FILE_BYTES: Final = 64 * 1024
_MEMBERS: Final = {"issuer", "keys", "tenants"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedVerifier:
    """A Verifier with the keys that sign for it.

    Attributes:
        issuer: as in its EARs.
        tenants: tenants for whose keys it is trusted; None: all.
    """

    issuer: str
    keys: tuple[TokenKey, ...]
    tenants: frozenset[str] | None = None

    def counts_for(self, tenants: Collection[str]) -> bool:
        """Return True if it is trusted for the keys of all of these tenants."""
        return self.tenants is None or self.tenants.issuperset(tenants)


def read_verifiers(path: Path) -> tuple[TrustedVerifier, ...]:
    """Read the file, and the key sets that it names.

    Raises:
        ConfigurationError: ``verifiers-invalid``, ``file-unreadable`` or ``jwks-invalid``.
    """
    found = tuple(_verifier(path, entry) for entry in _entries(path))
    if len({one.issuer for one in found}) != len(found):
        raise _invalid(path, "duplicate issuer")
    return found


def named_key_sets(path: Path) -> tuple[Path, ...]:
    """Return the files of keys that the file names; they are not read.

    Raises:
        ConfigurationError: ``verifiers-invalid`` or ``file-unreadable``.
    """
    named = (entry.get("keys") for entry in _entries(path) if isinstance(entry, dict))
    return tuple(path.parent / keys for keys in named if isinstance(keys, str))


def _entries(path: Path) -> list[object]:
    try:
        document = tomllib.loads(_read(path, MAX_FILE_BYTES).decode("utf-8"))
    except ValueError as exc:
        raise _invalid(path, str(exc)) from exc
    entries = document.get("verifier")
    if set(document) != {"verifier"} or not isinstance(entries, list) or not 0 < len(entries) <= MAX_VERIFIERS:
        raise _invalid(path, f"expected 1 to {MAX_VERIFIERS} tables [[verifier]], and nothing else")
    return entries


def verifier_lines(verifiers: Iterable[TrustedVerifier]) -> tuple[str, ...]:
    """Return a line for each key that signs for a Verifier, sorted: the keys are roots of trust.

    Each has the tenants, SHA-256 of the key as canonical JSON, and the issuer.
    """
    lines = {
        f"verifier {','.join(sorted(one.tenants or '*'))} {canonical_digest(key.jwk)} {one.issuer}"
        for one in verifiers
        for key in one.keys
    }
    return tuple(sorted(lines))


def _verifier(path: Path, entry: object) -> TrustedVerifier:
    members = entry if isinstance(entry, dict) else {}
    issuer, keys, tenants = (members.get(name) for name in ("issuer", "keys", "tenants"))
    if not set(members) <= _MEMBERS or not _is_name(issuer) or not isinstance(keys, str):
        raise _invalid(path, "expected the texts issuer and keys, and optionally a list of tenants")
    if tenants is not None and not (isinstance(tenants, list) and tenants and all(map(_is_tenant, tenants))):
        raise _invalid(path, f"{issuer}: tenants: expected a list of names of tenants, at least one")
    return TrustedVerifier(
        issuer=issuer,
        keys=read_jwks(_read(path.parent / keys, MAX_JWKS_BYTES)),
        tenants=None if tenants is None else frozenset(tenants),
    )


def _is_name(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and value != "" and value.isprintable()


def _is_tenant(value: object) -> bool:
    try:
        require_tenant(value if isinstance(value, str) else "")
    except ConfigurationError:
        return False
    return True


def _read(path: Path, limit: int) -> bytes:
    content = read_named(path, "verifiers_file", limit=limit)
    if len(content) > limit:
        raise _invalid(path, f"more than {limit} bytes")
    return content


def _invalid(path: Path, problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"verifiers_file: {path}: {problem}", code="verifiers-invalid", field="verifiers_file", got=problem[:200]
    )
