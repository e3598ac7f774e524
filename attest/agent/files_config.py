"""The part of the agent's configuration about files that it renders, and the program that uses them.

::

    [files.database]                       # a secret as it is
    path = "/run/app/database-url"         # in a folder that is there, in memory
    secrets = ["database"]

    [files.settings]                       # a template, relative to the configuration's folder
    path = "/run/app/settings.ini"
    template = "settings.ini.j2"
    secrets = ["database", "acme/token@2"] # the ones that it may use, as secret("database")
    mode = "0440"
    group = 2000
    run = ["nginx", "-s", "reload"]        # after a change

    [program]
    command = ["./server", "--settings", "/run/app/settings.ini"]
    on_change = "restart"                  # or a signal: "HUP", "USR1", "USR2"; or "none"
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from attest.agent.templates import SecretTemplate, compile_template
from attest.agent.toml_tables import (
    Table,
    config_invalid,
    entries_of,
    id_of,
    number_of,
    require_known,
    text_of,
    texts_of,
)
from attest.release.names import KeyReference

DEFAULT_MODE: Final = 0o400
DEFAULT_RUN_SECONDS: Final = 30.0
DEFAULT_STOP_SECONDS: Final = 10.0
_MODES: Final = {"0400": 0o400, "0440": 0o440, "0444": 0o444}
_FILE_NAMES: Final = frozenset(
    {"path", "template", "secrets", "mode", "group", "run", "run_seconds", "unchecked_folder", "unchecked_disk"}
)
OnChange = Literal["restart", "none"] | signal.Signals
_SIGNALS: Final = {"HUP": signal.SIGHUP, "USR1": signal.SIGUSR1, "USR2": signal.SIGUSR2}
_ON_CHANGE: Final = ("restart", "none", *_SIGNALS)


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedFile:
    """A file that the agent renders.

    Attributes:
        path: absolute.
        template: None writes the only secret as it is.
        secrets: the keys and secrets that it uses.
        group: None leaves that of the agent.
        run: command after a change, for ``run_seconds`` at most; empty for none.
        unchecked_folder: reason to write where others may write too.
        unchecked_disk: reason to write to a file system that keeps the file.
    """

    name: str
    path: Path
    secrets: tuple[KeyReference, ...]
    template: SecretTemplate | None = None
    mode: int = DEFAULT_MODE
    group: int | None = None
    run: tuple[str, ...] = ()
    run_seconds: float = DEFAULT_RUN_SECONDS
    unchecked_folder: str | None = None
    unchecked_disk: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramConfig:
    """A program that runs while all files are there.

    Attributes:
        on_change: what a changed file means to it: a restart, a signal, or nothing.
        stop_seconds: between SIGTERM and SIGKILL.
    """

    command: tuple[str, ...]
    on_change: OnChange = "restart"
    stop_seconds: float = DEFAULT_STOP_SECONDS


def files_of(document: Table, *, read: Callable[[str], bytes]) -> tuple[RenderedFile, ...]:
    """Parse the tables of files; ``read`` returns the content of a template.

    Raises:
        ConfigurationError: ``agent-config-invalid``, ``template-library-missing``, or as ``KeyReference.parse``.
    """
    files = tuple(_file(name, table, read) for name, table in entries_of(document, "files").items())
    twice = sorted({str(one.path) for one in files if [other.path for other in files].count(one.path) > 1})
    if twice:
        raise config_invalid("files", "a path for each file", f"{twice[0]} twice")
    return files


def program_of(document: Table, *, files: tuple[RenderedFile, ...]) -> ProgramConfig | None:
    """Parse the table of the program, if there is one.

    Raises:
        ConfigurationError: ``agent-config-invalid``.
    """
    if "program" not in document:
        return None
    table, where = document["program"], "program."
    if not isinstance(table, dict):
        raise config_invalid("program", "a table", repr(table)[:80])
    require_known(table, {"command", "on_change", "stop_seconds"}, where)
    if not files:
        raise config_invalid("program", "a table [files.NAME] beside it", "none")
    return ProgramConfig(
        command=texts_of(table, "command", where),
        on_change=_on_change(table.get("on_change", "restart"), f"{where}on_change"),
        stop_seconds=number_of(table.get("stop_seconds", DEFAULT_STOP_SECONDS), f"{where}stop_seconds", whole=False),
    )


def _on_change(value: object, where: str) -> OnChange:
    if value == "restart":
        return "restart"
    if value == "none":
        return "none"
    if isinstance(value, str) and value in _SIGNALS:
        return _SIGNALS[value]
    raise config_invalid(where, ", ".join(map(repr, _ON_CHANGE)), repr(value)[:80])


def _file(name: str, table: Mapping[str, object], read: Callable[[str], bytes]) -> RenderedFile:
    where = f"files.{name[:80]}."
    require_known(table, set(_FILE_NAMES), where)
    path = Path(text_of(table, "path", where))
    if not path.is_absolute() or path.name in {"", ".."}:
        raise config_invalid(f"{where}path", "an absolute path of a file", repr(str(path))[:80])
    secrets = tuple(dict.fromkeys(map(KeyReference.parse, texts_of(table, "secrets", where))))
    mode = table.get("mode", "0400")
    if not isinstance(mode, str) or mode not in _MODES:
        raise config_invalid(f"{where}mode", ", ".join(map(repr, _MODES)), repr(mode)[:80])
    return RenderedFile(
        name=name,
        path=path,
        secrets=secrets,
        template=_template(table, where, read, secrets),
        mode=_MODES[mode],
        group=id_of(table, "group", where),
        run=texts_of(table, "run", where) if "run" in table else (),
        run_seconds=number_of(table.get("run_seconds", DEFAULT_RUN_SECONDS), f"{where}run_seconds", whole=False),
        unchecked_folder=_reason(table, "unchecked_folder", where),
        unchecked_disk=_reason(table, "unchecked_disk", where),
    )


def _template(
    table: Table, where: str, read: Callable[[str], bytes], secrets: tuple[KeyReference, ...]
) -> SecretTemplate | None:
    if "template" in table:
        file = text_of(table, "template", where)
        return compile_template(read(file), name=f"{where}template {file}")
    if len(secrets) != 1:
        raise config_invalid(f"{where}secrets", "one secret, or a template beside several", f"{len(secrets)} secrets")
    return None


def _reason(table: Table, name: str, where: str) -> str | None:
    return text_of(table, name, where) if name in table else None
