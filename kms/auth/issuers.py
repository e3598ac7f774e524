"""Accepted issuers of tokens: a TOML file of the operator, with a table ``[[issuer]]`` for each.

It contains all inputs of the validation of a token. None of them is taken or discovered from a token.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from attest.errors import ConfigurationError
from attest.named_files import read_bounded

MAX_ISSUERS: Final = 16
MAX_FILE_BYTES: Final = 64 * 1024
_PATHS: Final = ("jwks_file", "ca_file")
_ISSUER = re.compile(r"[\x21-\x7e]{1,255}")
Algorithm = Literal["RS256", "PS256", "ES256", "ES384", "EdDSA"]
JtiUse = Literal["optional", "required", "single-use"]


class BearerIssuer(BaseModel):
    """Issuer of tokens that identify callers; ``docs/administration.md`` explains each member."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    issuer: str
    audience: Annotated[str, Field(min_length=1, max_length=255)]
    algorithms: Annotated[tuple[Algorithm, ...], Field(min_length=1)]
    jwks_file: Path | None = None
    jwks_url: Annotated[str, Field(max_length=2048)] | None = None
    ca_file: Path | None = None
    refresh_seconds: Annotated[int, Field(ge=10, le=86400)] = 300
    max_age_seconds: Annotated[int, Field(ge=10, le=30 * 86400)] = 86400
    max_lifetime_seconds: Annotated[int, Field(ge=10, le=86400)] = 3600
    skew_seconds: Annotated[int, Field(ge=0, le=120)] = 30
    jti: JtiUse = "optional"
    required_claims: dict[str, str | int | bool] = {}

    @property
    def files(self) -> tuple[Path, ...]:
        """Return the files that the issuer names."""
        return tuple(one for one in (self.jwks_file, self.ca_file) if one is not None)

    @field_validator("issuer")
    @classmethod
    def _no_bar(cls, value: str) -> str:
        if not _ISSUER.fullmatch(value) or "|" in value:
            raise ValueError("expected 1 to 255 visible ASCII characters without '|'")
        return value

    @field_validator("jwks_url")
    @classmethod
    def _https(cls, value: str | None) -> str | None:
        parts = None if value is None else urlsplit(value)
        if parts is not None and (parts.scheme != "https" or not parts.hostname or parts.username is not None):
            raise ValueError("expected an https address without a user name")
        return value

    @model_validator(mode="after")
    def _one_key_set(self) -> BearerIssuer:
        if (self.jwks_file is None) == (self.jwks_url is None):
            raise ValueError("expected either jwks_file or jwks_url")
        if self.ca_file is not None and self.jwks_url is None:
            raise ValueError("ca_file requires jwks_url")
        if self.refresh_seconds > self.max_age_seconds:
            raise ValueError("refresh_seconds exceeds max_age_seconds")
        return self


def read_issuers(path: Path) -> tuple[BearerIssuer, ...]:
    """Read the file; its relative paths start at its own folder.

    Raises:
        ConfigurationError: ``issuers-invalid``: it is unreadable, has an unknown or missing name, no issuer, too many,
            or a duplicate.
    """
    try:
        document = tomllib.loads(read_bounded(path, MAX_FILE_BYTES).decode("utf-8"))
    except (OSError, ValueError) as exc:
        raise _invalid(path, getattr(exc, "strerror", None) or str(exc)) from exc
    tables = document.get("issuer")
    if set(document) != {"issuer"} or not isinstance(tables, list):
        raise _invalid(path, "expected tables [[issuer]] and nothing else")
    if not 0 < len(tables) <= MAX_ISSUERS:
        raise _invalid(path, f"expected 1 to {MAX_ISSUERS} issuers")
    found = tuple(_issuer(path, number, table) for number, table in enumerate(tables))
    if len({one.issuer for one in found}) != len(found):
        raise _invalid(path, "duplicate issuer")
    return found


def _issuer(path: Path, number: int, table: object) -> BearerIssuer:
    if not isinstance(table, dict):
        raise _invalid(path, f"issuer[{number}]: expected a table")
    values: dict[str, object] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in table.items()
    }
    for name in _PATHS:
        if isinstance(given := values.get(name), str):
            values[name] = path.absolute().parent / given
    try:
        return BearerIssuer.model_validate(values)
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        message = first["msg"].removeprefix("Value error, ")
        raise _invalid(path, f"issuer[{number}]{'.' if where else ''}{where}: {message}") from exc


def _invalid(path: Path, problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"the issuers file {path}: {problem}",
        code="issuers-invalid",
        field="issuers_file",
        got=problem,
        hint="docs/administration.md has an example",
    )
