"""Settings of a session: arguments, environment, and the image's files.

One table ``[kms]`` of ``attest.toml``, in the working directory, the user's configuration, or ``/etc/attest``::

    [kms]
    url = "https://kms.example"
    key = "kms.example/prod+0f3a…"       # its verifier key, from 'kms init'
    tls_ca = "ca.pem"                    # paths are relative to this file
    policy = "kms-policy.yaml"           # requirements for the service's own machine

Nothing here is secret. Each value has the first of these origins: argument, environment, project file, user
file, machine file.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from attest.errors import ConfigurationError
from attest.release.notes import VerifierKey

FILE_NAME: Final = "attest.toml"
CONFIG_VARIABLE: Final = "ATTEST_CONFIG"
MACHINE_FILE: Final = Path("/etc/attest") / FILE_NAME
VARIABLES: Final = {
    "url": "ATTEST_KMS_URL",
    "key": "ATTEST_KMS_KEY",
    "key_file": "ATTEST_KMS_KEY_FILE",
    "tls_ca": "ATTEST_KMS_CA",
    "policy": "ATTEST_KMS_POLICY",
    "log_memory": "ATTEST_KMS_LOG_MEMORY",
    "tcti": "ATTEST_TCTI",
}
DEFAULT_TIMEOUT_SECONDS: Final = 30.0
MAX_TIMEOUT_SECONDS: Final = 3600.0
MAX_FILE_BYTES: Final = 1024 * 1024
_TABLE: Final = "kms"
_DIGEST_BYTES: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """Settings of a session for its service.

    Attributes:
        url: of the service.
        service: its verifier key, from configuration and never from the service itself.
        tls_ca: the only accepted issuers of its TLS certificate (PEM); None uses the system's.
        policy: requirements for its own machine before any other request; None means no requirements.
        configuration: SHA-256 of its required configuration, 32 bytes.
        unchecked_tls: reason to accept a connection that ends elsewhere than proven.
        endorsements: files and directories with endorsements of its machine.
        anchors: file that adds and removes trust anchors.
        allow_simulated: accept a simulated machine.
        offline: query no vendor about its machine.
        log_memory: file with its last log checkpoint, across processes.
        gpus: include this machine's NVIDIA GPUs; None: if their driver is loaded.
        tcti: Azure: connection to the virtual TPM.
        timeout_seconds: deadline of one call.
        origins: source of each value that is not a default.
    """

    url: str
    service: VerifierKey
    tls_ca: Path | None = None
    policy: Path | None = None
    configuration: bytes | None = None
    unchecked_tls: str | None = None
    endorsements: tuple[Path, ...] = ()
    anchors: Path | None = None
    allow_simulated: bool = False
    offline: bool = False
    log_memory: Path | None = None
    gpus: bool | None = None
    tcti: str | None = None
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    origins: Mapping[str, str] = field(default_factory=dict)


def load_settings(
    given: Mapping[str, object], *, environ: Mapping[str, str], files: tuple[Path, ...] | None = None
) -> SessionSettings:
    """Return the effective settings of a session.

    Args:
        given: arguments by the names of the table, values as in the table; None is ignored.
        environ: the environment.
        files: settings files, the most specific first; missing ones are ignored. None: as ``settings_files``.

    Raises:
        ConfigurationError: ``kms-not-configured``, ``session-settings-invalid``, ``verifier-key-invalid`` or
            ``file-unreadable``.
    """
    layers = list(_layers(given, environ, settings_files(environ) if files is None else files))
    values: dict[str, object] = {}
    origins: dict[str, str] = {}
    for layer in layers:
        for name, value in layer.values.items():
            if name not in values and not (name in _KEYS and _KEYS & values.keys()):
                values[name] = _READERS[name](value, layer.where(name), layer.folder)
                origins[name] = layer.where(name)
    service = values.pop("key", None) or _service_in(values.pop("key_file", None))
    if service is None or "url" not in values:
        raise _not_configured("url" if "url" not in values else "key")
    return SessionSettings(service=service, origins=origins, **values)  # type: ignore[arg-type]  # each reader returns its field's type


def effective_settings(settings: SessionSettings | None, **given: object) -> SessionSettings:
    """Return settings that are given as a whole, or those of single arguments as ``load_settings``.

    Raises:
        ConfigurationError: as ``load_settings``.
        TypeError: settings together with single arguments.
    """
    if settings is None:
        return load_settings(given, environ=os.environ)
    if any(value is not None for value in given.values()):
        raise TypeError("settings contain everything: pass them, or the single arguments")
    return settings


def settings_files(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the settings files, the most specific first; one in the environment is the only one."""
    named = environ.get(CONFIG_VARIABLE)
    if named:
        return (Path(named),)
    home = environ.get("XDG_CONFIG_HOME") or (f"{environ['HOME']}/.config" if environ.get("HOME") else None)
    users = () if home is None else (Path(home) / "attest" / FILE_NAME,)
    return (Path(FILE_NAME), *users, MACHINE_FILE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layer:
    """Settings of one origin."""

    values: Mapping[str, object]
    where: Callable[[str], str]
    folder: Path


def _layers(given: Mapping[str, object], environ: Mapping[str, str], files: tuple[Path, ...]) -> Iterator[_Layer]:
    here = Path()
    stated = {name: value for name, value in given.items() if value is not None}
    unknown = stated.keys() - _READERS.keys()
    if unknown:
        raise TypeError(f"no such setting of a session: {', '.join(sorted(unknown))}")
    yield _Layer(values=stated, where=lambda name: f"argument {name}", folder=here)
    variables = {name: environ[variable] for name, variable in VARIABLES.items() if environ.get(variable)}
    yield _Layer(values=variables, where=lambda name: VARIABLES[name], folder=here)
    for file in files:
        table = _table_in(file, required=bool(environ.get(CONFIG_VARIABLE)))
        if table is not None:
            yield _Layer(values=table, where=lambda name, file=file: f"{file} [{_TABLE}] {name}", folder=file.parent)  # type: ignore[misc]  # mypy infers no default of a lambda


def _table_in(file: Path, *, required: bool) -> dict[str, object] | None:
    try:
        with file.open("rb") as stream:
            text = stream.read(MAX_FILE_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError) as exc:
        if required:
            raise _unreadable(file, exc) from exc
        return None
    except OSError as exc:
        raise _unreadable(file, exc) from exc
    if len(text) > MAX_FILE_BYTES:
        raise _invalid(str(file), f"at most {MAX_FILE_BYTES} bytes", f"more than {MAX_FILE_BYTES} bytes")
    try:
        document: dict[str, Any] = tomllib.loads(text.decode())  # Any: TOML
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
        raise _invalid(str(file), "TOML", str(exc)) from exc
    table = document.get(_TABLE, {})
    unknown = (document.keys() - {_TABLE}) or (table.keys() - _READERS.keys() if isinstance(table, dict) else {_TABLE})
    if unknown:
        raise _invalid(str(file), f"a table [{_TABLE}] of {', '.join(_READERS)}", ", ".join(sorted(unknown)))
    return dict(table)


# -- values


def _text(value: object, where: str, _: Path) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _invalid(where, "a text that is not empty", repr(value)[:80])
    return value


def _url(value: object, where: str, folder: Path) -> str:
    text = _text(value, where, folder)
    if not text.startswith(("https://", "http://")):
        raise _invalid(where, "an address that begins with https:// (or http://)", repr(text)[:80])
    return text


def _path(value: object, where: str, folder: Path) -> Path:
    return folder / (value if isinstance(value, Path) else _text(value, where, folder))


def _paths(value: object, where: str, folder: Path) -> tuple[Path, ...]:
    if not isinstance(value, list | tuple):
        raise _invalid(where, "a list of paths", repr(value)[:80])
    return tuple(_path(one, where, folder) for one in value)


def _switch(value: object, where: str, _: Path) -> bool:
    if not isinstance(value, bool):
        raise _invalid(where, "true or false", repr(value)[:80])
    return value


def _digest(value: object, where: str, folder: Path) -> bytes:
    if isinstance(value, bytes) and len(value) == _DIGEST_BYTES:
        return value
    text = _text(value, where, folder) if isinstance(value, str) else ""
    try:
        found = bytes.fromhex(text)
    except ValueError:
        found = b""
    if len(found) != _DIGEST_BYTES:
        raise _invalid(where, "64 hexadecimal digits", repr(value)[:80])
    return found


def _seconds(value: object, where: str, _: Path) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MAX_TIMEOUT_SECONDS:
        raise _invalid(where, f"more than 0 and at most {MAX_TIMEOUT_SECONDS:g} seconds", repr(value)[:80])
    return float(value)


def _identity(value: object, where: str, folder: Path) -> VerifierKey:
    return value if isinstance(value, VerifierKey) else VerifierKey.parse(_text(value, where, folder).strip())


_Reader = Callable[[object, str, Path], object]
_READERS: Final[dict[str, _Reader]] = {
    "url": _url,
    "key": _identity,
    "key_file": _path,
    "tls_ca": _path,
    "policy": _path,
    "configuration": _digest,
    "unchecked_tls": _text,
    "endorsements": _paths,
    "anchors": _path,
    "allow_simulated": _switch,
    "offline": _switch,
    "log_memory": _path,
    "gpus": _switch,
    "tcti": _text,
    "timeout_seconds": _seconds,
}
_KEYS: Final = frozenset({"key", "key_file"})
"""Alternative names of one setting: the first one present counts."""


def _service_in(file: object) -> VerifierKey | None:
    if not isinstance(file, Path):
        return None
    try:
        with file.open("rb") as stream:
            text = stream.read(MAX_FILE_BYTES)
    except OSError as exc:
        raise _unreadable(file, exc) from exc
    return VerifierKey.parse(text.decode("utf-8", errors="replace").strip())


def _not_configured(name: str) -> ConfigurationError:
    missing = {"url": "the address of the key-release service", "key": "the key-release service's verifier key"}[name]
    return ConfigurationError(
        f"no setting for {missing}",
        code="kms-not-configured",
        field=name,
        expected=f"an argument, {VARIABLES[name]}, or {name!r} in the table [{_TABLE}] of {FILE_NAME}",
        hint=f"set {VARIABLES[name]}; 'kms init' and 'kms serve' print the verifier key"
        if name == "key"
        else f"set {VARIABLES[name]} to its address, such as https://kms.example",
    )


def _invalid(where: str, expected: str, got: str) -> ConfigurationError:
    return ConfigurationError(
        f"{where}: expected {expected}, got {got}",
        code="session-settings-invalid",
        field=where,
        expected=expected,
        got=got,
    )


def _unreadable(file: Path, exc: OSError) -> ConfigurationError:
    problem = exc.strerror or str(exc)
    return ConfigurationError(
        f"{file} cannot be read: {problem}",
        code="file-unreadable",
        field=os.fspath(file),
        got=problem,
        hint="check the path",
    )
