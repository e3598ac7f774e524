"""The configuration file of the service: TOML, without unknown settings, and checked as a whole at the start.

::

    name = "rag.example"                      # its name for clients

    [listen]
    host = "127.0.0.1"
    port = 8460

    [model]
    place = "minilm.sealed"                   # paths are relative to this file
    trust = ["model-owner.pub"]
    [model.key]
    name = "minilm"
    url = "https://kms.model-owner.example"   # and every other setting of a session (docs/sdk.md)
    key = "kms.model-owner.example+0f3a…"

    [database]
    file = "documents.db"
    [database.key]
    name = "rag-database"
    url = "https://kms.documents.example"
    key_file = "documents-kms.key"
    policy = "documents-kms-policy.yaml"
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, get_args

from attest.agent import read_guarded
from attest.encoding import hex_bytes
from attest.errors import ConfigurationError, EvidenceError
from attest.release import KeyReference
from attest.session import SessionSettings, load_settings
from rag_demo.enclave.service.settings import (
    MODEL_NAME,
    POSTGRES_SCHEMES,
    EnclaveSettings,
    KeySource,
    LlmSettings,
    MachineSettings,
    ModelSettings,
    ServiceLimits,
    SimulatedKind,
)

MAX_CONFIG_BYTES: Final = 1024 * 1024
MAX_NAME: Final = 255
MODEL_ID_BYTES: Final = 16
_AUTHORITY: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789.-:[]_/")
_PATHS_OF_A_SESSION: Final = frozenset({"key_file", "tls_ca", "policy", "anchors", "log_memory"})


def load_config(path: Path, *, changes: Mapping[str, object] | None = None) -> EnclaveSettings:
    """Read the file.

    Args:
        path: of the file.
        changes: settings of the command line, by dotted names (``listen.port``); None is left out.

    Raises:
        ConfigurationError: ``rag-config-invalid``, ``file-unreadable``, ``file-writable-by-others``, or as
            ``attest.session.load_settings``.
    """
    text = read_guarded(path, what="the service's configuration", limit=MAX_CONFIG_BYTES)
    return parse_config(text, folder=path.absolute().parent, changes=changes)


def parse_config(text: bytes, *, folder: Path, changes: Mapping[str, object] | None = None) -> EnclaveSettings:
    """Read the text of the file; relative paths start at ``folder``. Changes and errors as ``load_config``."""
    if len(text) > MAX_CONFIG_BYTES:
        raise _invalid("the file", f"at most {MAX_CONFIG_BYTES} bytes", f"more than {MAX_CONFIG_BYTES}")
    try:
        document: dict[str, Any] = tomllib.loads(text.decode())  # Any: TOML
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise _invalid("the file", "TOML", str(exc)) from exc
    for name, value in (changes or {}).items():
        if value is not None:
            _change(document, name, value)
    return _settings(_Reader(document, "", folder))


def _change(document: dict[str, Any], name: str, value: object) -> None:  # Any: TOML
    *tables, last = name.split(".")
    for table in tables:
        document = document.setdefault(table, {})
        if not isinstance(document, dict):
            raise _invalid(name, "a table", f"a {type(document).__name__}")
    if name == "llm.url" and value != document.get(last):
        for word in ("inside_boundary", "weights"):  # what the file says is about the address in the file alone
            document.pop(word, None)
    document[last] = value


class _Reader:
    """A table of the file, read member by member; members left at the end are refused."""

    def __init__(self, table: object, where: str, folder: Path) -> None:
        if not isinstance(table, dict):
            raise _invalid(where.rstrip("."), "a table", f"a {type(table).__name__}")  # it may hold a password
        self._left: dict[str, Any] = dict(table)  # Any: TOML
        self._asked: set[str] = set()
        self._where = where
        self.folder = folder

    def has(self, name: str) -> bool:
        self._asked.add(name)
        return name in self._left

    def _pop(self, name: str, default: object = None) -> Any:  # noqa: ANN401  TOML
        self._asked.add(name)
        return self._left.pop(name, default)

    def table(self, name: str) -> _Reader:
        return _Reader(self._pop(name, {}), f"{self._where}{name}.", self.folder)

    def text(self, name: str) -> str:
        value = self._pop(name)
        if value is None:
            raise self._missing(name, "a text that is not empty")
        if not isinstance(value, str) or not value.strip() or "\0" in value:
            raise _invalid(self._where + name, "a text that is not empty", repr(value)[:80])
        return value

    def maybe(self, name: str) -> str | None:
        return self.text(name) if self.has(name) else None

    def texts(self, name: str, *, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        if default is not None and not self.has(name):
            return default
        value = self._pop(name)
        if value is None:
            raise self._missing(name, "a list that is not empty")
        if not isinstance(value, list) or not value:
            raise _invalid(self._where + name, "a list that is not empty", repr(value)[:80])
        return tuple(_Reader({name: one}, self._where, self.folder).text(name) for one in value)

    def choice(self, name: str, among: tuple[str, ...]) -> str | None:
        value = self.maybe(name)
        if value is not None and value not in among:
            raise _invalid(self._where + name, ", ".join(map(repr, among)), repr(value)[:80])
        return value

    def number(self, name: str, default: float, least: float, most: float) -> float:
        value = self._pop(name, default)
        whole = isinstance(default, int)
        fits = isinstance(value, int) if whole else isinstance(value, int | float)
        if isinstance(value, bool) or not fits or not least <= value <= most:
            kind = "a whole number" if whole else "a number"
            raise _invalid(self._where + name, f"{kind} from {least:g} to {most:g}", repr(value)[:80])
        return value if whole else float(value)

    def switch(self, name: str) -> bool | None:
        value = self._pop(name)
        if value is not None and not isinstance(value, bool):
            raise _invalid(self._where + name, "true or false", repr(value)[:80])
        return value

    def rest(self) -> dict[str, Any]:  # Any: TOML
        rest, self._left = self._left, {}
        return rest

    def done(self) -> None:
        if self._left:
            raise _unknown(self._where, min(self._left), self._asked)

    def _missing(self, name: str, expected: str) -> ConfigurationError:
        """Return the error for a missing setting, with a similar name in the file if there is one."""
        near = get_close_matches(name, self._left, n=1)
        hint = f"there is {near[0][:80]!r}: did you mean {name!r}?" if near else None
        return _invalid(self._where + name, expected, "nothing", hint=hint)


def _settings(reader: _Reader) -> EnclaveSettings:
    listen, model, database = reader.table("listen"), reader.table("model"), reader.table("database")
    documents, channel = reader.table("documents"), reader.table("channel")
    database_key = _key(database.table("key"), "database.key")
    defaults = {one.name: one.default for one in fields(EnclaveSettings)}
    settings = EnclaveSettings(
        name=_authority(reader.text("name"), "name"),
        authorities=tuple(_authority(one, "authorities") for one in reader.texts("authorities", default=())),
        host=listen.maybe("host") or str(defaults["host"]),
        port=int(listen.number("port", int(str(defaults["port"])), 0, 65535)),
        machine=_machine(reader.table("machine")),
        model_key=_key(model.table("key"), "model.key"),
        model=_model(model),
        database_key=database_key,
        database=reader.folder / database.text("file"),
        prompt_key=_prompt_key(reader, database_key.service) if reader.has("prompt_key") else None,
        x25519=channel.maybe("x25519"),
        replay_window=_window(reader),
        llm=_llm(reader.table("llm")) if reader.has("llm") else None,
        unconfined_documents=documents.maybe("unconfined"),
        limits=_limits(reader.table("limits")),
    )
    for one in (listen, model, database, documents, channel, reader):
        one.done()
    if settings.prompt_key is not None and settings.replay_window is None:
        raise _invalid("replay_window", "a replay window that all holders of the released key share", "none")
    if settings.prompt_key is None and settings.replay_window is not None:
        raise _invalid("replay_window", "nothing: the key belongs to this process", "one")
    if settings.prompt_key is not None and settings.x25519 is not None:
        raise _invalid("channel.x25519", "nothing: the service that releases the key determines its kind", "a reason")
    return settings


def _authority(text: str, where: str) -> str:
    if len(text) > MAX_NAME or not set(text) <= _AUTHORITY:
        raise _invalid(where, "a host in lower case, optionally with a port", repr(text)[:80])
    return text


def _machine(reader: _Reader) -> MachineSettings:
    kind: Any = reader.choice("simulate", get_args(SimulatedKind))  # Any: one of the literal's
    machine = MachineSettings(
        simulate=kind,
        gpus=int(reader.number("gpus", 0, 0, 8)),
        simulated_change=None if (change := reader.maybe("simulated_change")) is None else reader.folder / change,
        with_gpus=reader.switch("with_gpus"),
        tcti=reader.maybe("tcti"),
        endorsements=tuple(reader.folder / one for one in reader.texts("endorsements", default=())),
    )
    reader.done()
    if machine.gpus and machine.simulate is None:
        raise _invalid("machine.gpus", "a simulated machine beside it; real GPUs are found", str(machine.gpus))
    if machine.simulated_change is not None and machine.simulate is None:
        raise _invalid("machine.simulated_change", "a simulated machine beside it", str(machine.simulated_change))
    return machine


def _model(reader: _Reader) -> ModelSettings:
    return ModelSettings(
        place=reader.folder / reader.text("place"),
        trust=tuple(reader.folder / one for one in reader.texts("trust")),
        model_id=_model_id(reader.maybe("model_id")),
        name=reader.maybe("name") or MODEL_NAME,
    )


def _model_id(text: str | None) -> bytes | None:
    if text is None:
        return None
    try:
        return hex_bytes(text, what="model_id", length=MODEL_ID_BYTES)
    except EvidenceError as exc:
        raise _invalid("model.model_id", f"{2 * MODEL_ID_BYTES} hex digits", repr(text)[:80]) from exc


def _key(reader: _Reader, where: str) -> KeySource:
    name = reader.text("name")
    KeyReference.parse(name)
    given = {one: _session_value(one, value, reader.folder) for one, value in reader.rest().items()}
    known = {one.name for one in fields(SessionSettings)} - {"service", "origins"} | {"key", "key_file"}
    if unknown := sorted(given.keys() - known):
        raise _unknown(f"{where}.", unknown[0], known)
    # The environment and the machine's own files are ignored: this file alone counts.
    try:
        service = load_settings(given, environ={}, files=())
    except ConfigurationError as exc:
        raise _invalid(where, exc.expected or "the settings of a session", exc.message) from exc
    return KeySource(name=name, service=service)


def _prompt_key(reader: _Reader, service: SessionSettings) -> KeySource:
    """Return the source of the channel's key: by default the service of the database's key."""
    table = reader.table("prompt_key")
    if table.has("url"):
        return _key(table, "prompt_key")
    name = table.text("name")
    table.done()
    return KeySource(name=str(KeyReference.parse(name)), service=service)


def _session_value(name: str, value: object, folder: Path) -> object:
    """Resolve paths against the file's folder."""
    if name in _PATHS_OF_A_SESSION and isinstance(value, str) and value:
        return folder / value
    if name == "endorsements" and isinstance(value, list):
        return [folder / one if isinstance(one, str) and one else one for one in value]
    return value


def _window(reader: _Reader) -> str | None:
    text = reader.maybe("replay_window")
    if text is None or text.startswith(POSTGRES_SCHEMES):
        return text
    return str(reader.folder / text)


def _llm(reader: _Reader) -> LlmSettings:
    url = reader.text("url")
    if not url.startswith(("http://", "https://")):
        raise _invalid("llm.url", "an address that starts with http:// or https://", repr(url)[:80])
    llm = LlmSettings(
        url=url,
        model=reader.maybe("model") or "default",
        inside_boundary=reader.maybe("inside_boundary"),
        weights=reader.maybe("weights"),
    )
    reader.done()
    return llm


_BOUNDS: Final[Mapping[str, tuple[float, float]]] = {
    "document_bytes": (1, 256 * 1024 * 1024),
    "waiting_bytes": (1, 1 << 40),
    "passages_per_document": (1, 200_000),
    "documents_per_user": (1, 100_000),
}


def _limits(reader: _Reader) -> ServiceLimits:
    values: dict[str, Any] = {}  # Any: each is as its field
    for one in fields(ServiceLimits):
        default: Any = one.default  # Any: a number
        least, most = _BOUNDS.get(one.name, (1, 1_000_000) if isinstance(default, int) else (0.01, 86_400.0))
        values[one.name] = reader.number(one.name, default, least, most)
    reader.done()
    return ServiceLimits(**values)


def _unknown(where: str, name: str, known: Collection[str]) -> ConfigurationError:
    near = get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else None
    return _invalid(where + name[:80], "no such setting", "an unknown name", hint=hint)


def _invalid(where: str, expected: str, got: str, *, hint: str | None = None) -> ConfigurationError:
    return ConfigurationError(
        f"the service's configuration: {where}: expected {expected}, got {got}",
        code="rag-config-invalid",
        field=where,
        expected=expected,
        got=got,
        hint=hint,
    )
