"""TOML files that describe foreign protocols: one reader of their members, and one form of refusals."""

from __future__ import annotations

import tomllib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from attest.errors import AttestError, ConfigurationError
from attest.named_files import read_named
from attest.results import MAX_JWKS_BYTES, TokenKey, read_jwks, read_public_keys

MAX_FILE_BYTES: Final = 64 * 1024
MAX_ENTRIES: Final = 64
Members = dict[str, Any]  # Any: TOML


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolFile:
    """A file that a setting names.

    Attributes:
        code: of its refusals.
        page: of the documentation, which shows a whole file.
    """

    path: Path
    setting: str
    code: str
    page: str

    def members(self) -> Members:
        """Read the file.

        Raises:
            ConfigurationError: the code of this file, or ``file-unreadable``.
        """
        content = read_named(self.path, self.setting, limit=MAX_FILE_BYTES)
        if len(content) > MAX_FILE_BYTES:
            self.refuse(f"more than {MAX_FILE_BYTES} bytes")
        try:
            return tomllib.loads(content.decode("utf-8"))
        except ValueError as exc:
            self.refuse(str(exc))

    def beside(self, name: str) -> Path:
        """Return the path of a file that this one names, from its folder."""
        return self.path.parent / name

    def tables(self, members: Members, name: str) -> list[Members]:
        """Return the tables of a name."""
        found = members.get(name, [])
        if not isinstance(found, list) or len(found) > MAX_ENTRIES or not all(isinstance(one, dict) for one in found):
            self.refuse(f"{name}: expected at most {MAX_ENTRIES} tables [[{name}]]")
        return found

    def require_known(self, entry: Members, names: Collection[str], table: str = "") -> None:
        """Refuse members that there are not."""
        if unknown := set(entry) - set(names):
            known = ", ".join(sorted(names))
            self.refuse(f"{table and table + ': '}there is no member {min(unknown)!r}; expected some of {known}")

    def text(self, members: Members, name: str, where: str | None = None) -> str | None:
        """Return a text, or None where it is left out."""
        value = members.get(name)
        if value is not None and not (isinstance(value, str) and value and value.isprintable()):
            self.refuse(f"{where or name}: expected text")
        return value

    def number(self, members: Members, name: str, among: range, default: int) -> int:
        """Return an integer of a range."""
        value = members.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or value not in among:
            self.refuse(f"{name}: expected {among.start} to {among.stop - 1}")
        return value

    def content(self, file: Path, where: str, *, limit: int | None = None) -> bytes:
        """Read a file that this one names."""
        hint = f"{self.path.name} names it as {where}; relative paths start at the folder of that file"
        return read_named(file, self.setting, limit=limit, hint=hint)

    def keys(self, name: str, where: str, *, only_sets: bool = False) -> tuple[TokenKey, ...]:
        """Read the public keys in a file that this one names: a key set, or else one key in PEM."""
        place = self.beside(name)
        content = self.content(place, where, limit=MAX_JWKS_BYTES)
        try:
            return read_jwks(content) if only_sets else read_public_keys(content)
        except AttestError as exc:
            expected = "a key set (JWKS)" if only_sets else "a key set (JWKS) or a public key in PEM"
            raise self.invalid(f"{where}: {place}: expected {expected}: {exc.message}") from exc

    def refuse(self, problem: str) -> NoReturn:
        """Refuse the file."""
        raise self.invalid(problem)

    def invalid(self, problem: str) -> ConfigurationError:
        """Return the refusal of the file."""
        return ConfigurationError(
            f"{self.setting}: {self.path}: {problem}",
            code=self.code,
            field=self.setting,
            got=problem[:200],
            hint=f"{self.page} shows a whole file",
        )
