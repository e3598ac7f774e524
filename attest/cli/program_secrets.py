"""Secrets for the program that ``attest run`` starts, as variables and files; it does not contact the service."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from attest.errors import ConfigurationError
from attest.files import output_errors
from attest.private_folder import PREFIX, PrivateFolder
from attest.release.names import KeyReference
from attest.release.padded_secret import SECRET_PURPOSE
from attest.session import SessionKey

FOLDER_VARIABLE: Final = "ATTEST_SECRETS_DIR"
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_FILE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedVariable:
    """A variable of the program, and the reference of the secret that is its value."""

    name: str
    reference: str

    @staticmethod
    def parse(text: str) -> WantedVariable:
        """Read ``NAME=SECRET``.

        Raises:
            ConfigurationError: ``run-key-invalid``, or the code for an invalid name of a key.
        """
        name, sign, reference = text.partition("=")
        if not sign or not _VARIABLE.fullmatch(name) or name.startswith("ATTEST_"):
            raise _invalid(
                "--env",
                text,
                "NAME=SECRET, the name of letters, digits and '_', not beginning with a digit or ATTEST_",
                "such as --env DATABASE_URL=database",
            )
        return WantedVariable(name=name, reference=str(KeyReference.parse(reference)))

    def value(self, secret: SessionKey) -> str:
        """Return the value of the variable.

        Raises:
            ConfigurationError: ``run-secret-unfit``: it is a key, or has a byte that no variable can hold.
        """
        if secret.purpose != SECRET_PURPOSE:
            raise self._unfit(f"a {secret.purpose} cannot be an environment variable", "give it with --key or --file")
        content = secret.export()
        if b"\0" in content:
            raise self._unfit("the secret has a zero byte, which no variable can hold", "give it with --file")
        return os.fsdecode(content)

    def _unfit(self, problem: str, hint: str) -> ConfigurationError:
        return ConfigurationError(
            f"--env {self.name}: {problem}", code="run-secret-unfit", field=self.name, got=self.reference, hint=hint
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedFile:
    """A file of the program, and the reference of its content.

    A relative ``path`` is a name in the private folder. At an absolute one stands a link to the file there.
    """

    path: Path
    reference: str

    @staticmethod
    def parse(text: str) -> WantedFile:
        """Read ``PATH=SECRET``; the last ``=`` counts.

        Raises:
            ConfigurationError: ``run-key-invalid``, or the code for an invalid name of a key.
        """
        path, sign, reference = text.rpartition("=")
        if not sign or not (Path(path).is_absolute() or _FILE.fullmatch(path)) or not _FILE.fullmatch(Path(path).name):
            raise _invalid(
                "--file",
                text,
                "PATH=SECRET, an absolute path or a name of letters, digits, '.', '_' and '-'",
                "such as --file /run/app/password=database",
            )
        return WantedFile(path=Path(path), reference=str(KeyReference.parse(reference)))

    @property
    def is_linked(self) -> bool:
        """True for a path outside the private folder."""
        return self.path.is_absolute()


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedSecrets:
    """Variables and files of the program, each name once."""

    variables: tuple[WantedVariable, ...] = ()
    files: tuple[WantedFile, ...] = ()

    def __post_init__(self) -> None:
        for option, names in (
            ("--env", [one.name for one in self.variables]),
            ("--file", [str(one.path) for one in self.files]),
        ):
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ConfigurationError(
                    f"{option}: {twice[0]} is given twice", code="run-key-invalid", field=option, got=twice[0]
                )

    @property
    def references(self) -> tuple[str, ...]:
        """References of the keys and secrets to request."""
        return (*(one.reference for one in self.variables), *(one.reference for one in self.files))

    @property
    def have_names(self) -> bool:
        """True if a file is named relative to the private folder, whose path the program then has to learn."""
        return any(not one.is_linked for one in self.files)


@dataclass(slots=True, kw_only=True)
class ProgramSecrets:
    """The wanted secrets of a running program, ``found`` by their references."""

    wanted: WantedSecrets
    found: Mapping[str, SessionKey]
    _folder: PrivateFolder | None = field(default=None, init=False)

    @contextmanager
    def placed(self) -> Iterator[Mapping[str, str]]:
        """Write the files, yield the variables of the program, and remove the files at the end.

        Raises:
            ConfigurationError: ``run-secret-unfit``, ``memory-folder-missing``, ``output-exists`` or
                ``output-unwritable``.
        """
        variables = {one.name: one.value(self.found[one.reference]) for one in self.wanted.variables}
        with ExitStack() as stack:
            if self.wanted.files:
                folder = stack.enter_context(PrivateFolder())
                for number, one in enumerate(self.wanted.files):
                    name = _file_name(number, one)
                    folder.put(name, self.found[one.reference].material)
                    if one.is_linked:
                        stack.enter_context(_linked(one.path, folder.path / name, base=folder.base))
                if self.wanted.have_names:
                    variables[FOLDER_VARIABLE] = str(folder.path)
                self._folder = folder
            yield variables

    def renewed(self, secret: SessionKey) -> bool:
        """Replace the files of a secret that was rotated; return True if every use of it has the new version."""
        folder, reference = self._folder, str(secret.reference)
        if folder is not None:
            for number, one in enumerate(self.wanted.files):
                if one.reference == reference:
                    folder.put(_file_name(number, one), secret.material)
        return all(one.reference != reference for one in self.wanted.variables)


def _file_name(number: int, wanted: WantedFile) -> str:
    """Return the name of a file in the private folder; two linked files may have the same last part."""
    return f".{number}-{wanted.path.name}" if wanted.is_linked else wanted.path.name


@contextmanager
def _linked(path: Path, target: Path, *, base: Path) -> Iterator[None]:
    """Let a link lead to the file, in place of one that a killed process left behind."""
    with output_errors(str(path), hint="remove it, or name another file"):
        if path.is_symlink() and _is_abandoned(path.readlink(), base):
            path.unlink()
        path.symlink_to(target)
    try:
        yield
    finally:
        with suppress(OSError):
            if path.readlink() == target:
                path.unlink()


def _is_abandoned(target: Path, base: Path) -> bool:
    folder = target.parent
    return folder.parent == base and folder.name.startswith(PREFIX) and not folder.exists()


def _invalid(option: str, text: str, expected: str, hint: str) -> ConfigurationError:
    return ConfigurationError(
        f"{option} {text[:80]!r} does not name a secret",
        code="run-key-invalid",
        field=option,
        expected=expected,
        hint=hint,
    )
