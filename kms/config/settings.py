"""Settings: flags, environment and one TOML file, validated once, at start.

Flags take precedence over the environment, then the file, then the defaults. Unknown names are refused. No setting is a
secret: keys are in files that the settings name.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from attest.errors import ConfigurationError
from attest.named_files import read_bounded
from kms.config.admin import ADMIN_TABLE
from kms.config.guards import from_folder
from kms.config.model import KEK_TABLE, MAX_BODY_BYTES, Settings, require_origin
from kms.store import locate

__all__ = ["ENVIRONMENT_PREFIX", "MAX_BODY_BYTES", "LoadedSettings", "Settings", "load_settings", "require_origin"]

ENVIRONMENT_PREFIX: Final = "KMS_"
CONFIG_VARIABLE: Final = "KMS_CONFIG"
CONTEXT_VARIABLE: Final = "KMS_CONTEXT"
"""Variables of the command line that are not settings of a service."""
MAX_FILE_BYTES: Final = 64 * 1024

_SERVICE_LINKS = re.compile(r"KMS_(?:SERVICE|PORT)_.*")
"""Variables that Kubernetes sets in every pod if a service is named ``kms``; they are not settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSettings:
    """Validated settings, the file that was read, and the source of each.

    A source is ``flag``, ``environment KMS_…``, ``file …`` or ``default``.
    """

    settings: Settings
    file: Path | None
    sources: Mapping[str, str]


def load_settings(
    *, flags: Mapping[str, object], environ: Mapping[str, str], config: Path | None = None
) -> LoadedSettings:
    """Combine and validate the settings; a flag of None is not given.

    The file is ``config``, or by default that of ``KMS_CONFIG``, if set.

    Raises:
        ConfigurationError: ``config-unreadable`` or ``config-invalid``, with the setting and its source; or as
            ``locate``: a password in the URL of a database is refused before it could be shown.
    """
    path = config or (Path(environ[CONFIG_VARIABLE]) if environ.get(CONFIG_VARIABLE) else None)
    layers = (
        ("default", {}) if path is None else (f"file {path}", _from_file(path)),
        ("environment", _from_environment(environ)),
        ("flag", {name: value for name, value in flags.items() if value is not None}),
    )
    values: dict[str, object] = {}
    sources = dict.fromkeys(Settings.model_fields, "default")
    for source, layer in layers:
        if isinstance(layer.get("database"), str):
            locate(str(layer["database"]))
        values |= layer
        for name in layer:
            sources[name] = f"environment {ENVIRONMENT_PREFIX}{name.upper()}" if source == "environment" else source
    try:
        settings = Settings.model_validate({name: _plain(value) for name, value in values.items()})
    except ValidationError as exc:
        raise _invalid(exc, sources) from exc
    _ = settings.kek  # validates it
    return LoadedSettings(settings=settings, file=path, sources=sources)


def _from_file(path: Path) -> dict[str, object]:
    """Read the file; its relative paths start at its own folder."""
    try:
        values = tomllib.loads(read_bounded(path, MAX_FILE_BYTES).decode("utf-8"))
    except (OSError, ValueError) as exc:
        raise _unreadable(path, getattr(exc, "strerror", None) or str(exc)) from exc
    for table, members in _TABLES.items():
        values = _with_table(values, table, members, f"file {path}")
    for name in values:
        _require_known(name, f"file {path}")
    return {name: _from_folder(name, value, path.absolute().parent) for name, value in values.items()}


_TABLES: Final = {
    "admin": {name: f"admin_{name}" for name in ADMIN_TABLE},
    "store": {"url": "database", **{name: f"database_{name}" for name in ("password_file", "connections")}},
    "kek": {name: f"kek_{name}" for name in KEK_TABLE},
    "tls": {name: f"tls_{name}" for name in ("certificate_file", "key_file", "minimum")},
    "self": {name: f"self_{name}" for name in ("evidence", "evidence_per_minute")},
}
"""Tables of the file, their members, and the settings that these are."""


def _with_table(
    values: dict[str, object], name_of_table: str, members: Mapping[str, str], source: str
) -> dict[str, object]:
    """Read a table, which can replace settings with the prefix of its name; a setting must not be given twice."""
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


_PATHS = {name for name, field in Settings.model_fields.items() if field.annotation == Path | None}
_PATH_LISTS = {name for name, field in Settings.model_fields.items() if field.annotation == tuple[Path, ...]}


def _from_folder(name: str, value: object, folder: Path) -> object:
    if name in _PATHS and isinstance(value, str):
        return folder / value
    if name in _PATH_LISTS and isinstance(value, list):
        return tuple(folder / entry if isinstance(entry, str) else entry for entry in value)
    if name == "rollback_guard" and isinstance(value, list):
        return tuple(from_folder(entry, folder) for entry in value)
    if name == "database" and isinstance(value, str) and "://" not in value:
        return str(folder / value)
    return value


def _from_environment(environ: Mapping[str, str]) -> dict[str, object]:
    """Read ``KMS_…`` variables, and convert text to the type of the setting."""
    values: dict[str, object] = {}
    for variable, text in environ.items():
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable in {CONFIG_VARIABLE, CONTEXT_VARIABLE}:
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
    if name == "rollback_guard":
        return tuple(text.split())
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
    """Return a hint on where a setting is set, or for conflicting settings, how to show all of them."""
    if name is None:
        return "'kms config show' shows the source of each setting; docs/operations.md explains them"
    places = f"{ENVIRONMENT_PREFIX}{name.upper()} in the environment, or {name} in the file given with --config"
    if not missing:
        return f"change it at its source: a flag, {places}"
    written = "give a settings file with --config or KMS_CONFIG ('kms init DIRECTORY --origin NAME' writes one)"
    return f"{written}, or set --{name.replace('_', '-')}, {places}"  # a setting without a default has a flag


def _unreadable(path: Path, problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"the settings {path} cannot be read: {problem}",
        code="config-unreadable",
        field="config",
        got=problem,
        hint="give an existing file with --config or KMS_CONFIG; 'kms init DIRECTORY --origin NAME' writes one",
    )
