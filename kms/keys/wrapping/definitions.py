"""Definitions of key-encryption keys: the table ``[kek]`` of the settings, or a file of their own.

No member is a secret: PIN and token are in files that the members name.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator

from attest.errors import ConfigurationError
from kms.domain.kek_records import Backend

MAX_FILE_BYTES: Final = 64 * 1024
DEFINITION_PATHS: Final = frozenset({"file", "module", "pin_file", "token_file", "ca_file"})
"""Members that name files; relative paths start from the folder of the definition."""
_PATH_SEGMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_Label = Annotated[str, Field(min_length=1, max_length=255)]


class _Definition(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class FileDefinition(_Definition):
    """A key in a file that only its owner may read."""

    backend: Literal[Backend.FILE]
    file: Path

    @property
    def description(self) -> str:
        """Its location, for display."""
        return str(self.file)


class Pkcs11Definition(_Definition):
    """A key in a PKCS#11 token.

    ``token`` and ``key`` are labels; only its owner may read ``pin_file``.
    """

    backend: Literal[Backend.PKCS11]
    module: Path
    token: Annotated[str, Field(min_length=1, max_length=32)]
    key: _Label
    pin_file: Path

    @property
    def description(self) -> str:
        """Its location, for display."""
        return f"key {self.key!r} of the PKCS#11 token {self.token!r}"


class TransitDefinition(_Definition):
    """A key of the transit engine of OpenBao or Vault.

    Attributes:
        url: the server; https, or http on this machine.
        token_file: holds the token; only its owner may read it. It is read again when the token is refused.
        mount: path at which the engine is mounted.
        ca_file: accepted issuers of the server's certificate (PEM); by default those that this machine trusts.
    """

    backend: Literal[Backend.TRANSIT]
    url: Annotated[str, Field(min_length=1, max_length=2048)]
    key: _Label
    token_file: Path
    mount: _Label = "transit"
    ca_file: Path | None = None
    namespace: _Label | None = None

    @property
    def description(self) -> str:
        """Its location, for display."""
        return f"key {self.key!r} of {self.url}/v1/{self.mount}"

    @field_validator("url")
    @classmethod
    def _address(cls, value: str) -> str:
        """Refuse an address to which the token would be sent unencrypted."""
        parts = urlsplit(value)
        local = parts.scheme == "http" and parts.hostname in _LOOPBACK
        plain = not (parts.username or parts.password or parts.query or parts.fragment) and parts.path in {"", "/"}
        if not parts.hostname or not plain or not (parts.scheme == "https" or local):
            raise ValueError("expected https://HOST[:PORT], or http:// only for this machine")
        return value.rstrip("/")

    @field_validator("key", "mount", "namespace")
    @classmethod
    def _segments(cls, value: str | None) -> str | None:
        """Refuse anything unsafe in a path."""
        if value is not None and not all(map(_PATH_SEGMENT.fullmatch, value.split("/"))):
            raise ValueError("expected letters, digits, '.', '_' and '-'; '/' between parts")
        return value


Definition = FileDefinition | Pkcs11Definition | TransitDefinition
KEK_MEMBERS: Final = tuple(
    tuple(name for name in one.model_fields if name != "backend")
    for one in (FileDefinition, Pkcs11Definition, TransitDefinition)
)
"""The members of each back-end."""
_DEFINITION: Final[TypeAdapter[Definition]] = TypeAdapter(Annotated[Definition, Field(discriminator="backend")])


def definition_of(members: Mapping[str, object], *, source: str, prefix: str = "") -> Definition:
    """Make a definition from the members of its table; errors name ``source``, and members with ``prefix``.

    Raises:
        ConfigurationError: ``config-invalid``, naming the member.
    """
    values = dict(members)
    backend = values.get("backend", Backend.FILE)
    if backend in {str(one) for one in Backend}:
        values["backend"] = Backend(str(backend))
    try:
        return _DEFINITION.validate_python(values)
    except ValidationError as exc:
        raise _invalid(exc, str(backend), source, prefix) from exc


def read_definition(path: Path) -> Definition:
    """Read the file of a further key-encryption key; relative paths in it start from its folder.

    Raises:
        ConfigurationError: ``config-unreadable``, or as ``definition_of``.
    """
    try:
        values = tomllib.loads(_content(path).decode("utf-8"))
    except (OSError, ValueError) as exc:
        raise _unreadable(path, getattr(exc, "strerror", None) or str(exc)) from exc
    folder = path.absolute().parent
    members = {
        name: folder / value if name in DEFINITION_PATHS and isinstance(value, str) else value
        for name, value in values.items()
    }
    return definition_of(members, source=str(path))


def _content(path: Path) -> bytes:
    with path.open("rb") as file:
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise _unreadable(path, f"more than {MAX_FILE_BYTES} bytes")
    return content


def read_directory(directory: Path | None) -> tuple[Definition, ...]:
    """Read the definition of every further key-encryption key, in the order of the files' names.

    A missing directory has none.

    Raises:
        ConfigurationError: ``kek-directory-exposed``: other users could write to it and add their keys; or as
            ``read_definition``.
    """
    if directory is None or not directory.exists():
        return ()
    _require_private(directory)
    return tuple(read_definition(path) for path in sorted(directory.glob("*.toml")))


def _require_private(directory: Path) -> None:
    status = directory.stat()
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise ConfigurationError(
            f"other users can write to the directory of key-encryption keys {directory}",
            code="kek-directory-exposed",
            field="kek_directory",
            expected="a directory of the service's user, writable only by its owner",
            got=f"user {status.st_uid}, mode {stat.S_IMODE(status.st_mode):04o}",
            hint=f"chown it, and chmod 700 {directory}",
        )


def _invalid(exc: ValidationError, backend: str, source: str, prefix: str) -> ConfigurationError:
    first = exc.errors(include_url=False)[0]
    where = [str(part) for part in first["loc"][1:]]  # the first part is the back-end
    name = where[0] if where else "backend"
    problem = first["msg"].removeprefix("Value error, ")
    if first["type"] == "missing":
        problem = "not set"
    elif first["type"] == "extra_forbidden":
        problem = f"the back-end {backend!r} has no such member"
    elif not where:
        problem = f"expected {', '.join(Backend)}"
    return ConfigurationError(
        f"{source}: {prefix}{name}: {problem}",
        code="config-invalid",
        field=f"{prefix}{name}",
        expected=problem,
        got="nothing" if first["type"] == "missing" else repr(first["input"])[:80],
        hint=_hint(name, prefix),
    )


def _hint(name: str, prefix: str) -> str:
    more = f"set it with --{prefix.replace('_', '-')}{name}; " if (prefix, name) == ("kek_", "file") else ""
    return f"{more}docs/key-encryption.md lists the members of each back-end"


def _unreadable(path: Path, problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"the definition {path} of a key-encryption key cannot be read: {problem}",
        code="config-unreadable",
        field="kek_directory",
        got=problem,
    )
