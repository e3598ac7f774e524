"""Tables and values of the agent's configuration; ``where`` is the path of a table in errors, such as ``socket.``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attest.agent.peers import MAX_ID, NOBODY_ID
from attest.errors import ConfigurationError

MAX_ENTRIES: Final = 256
"""Largest number of peers, of keys, of models, and of files."""
Table = Mapping[str, Any]  # Any: TOML


def entries_of(document: Table, name: str) -> dict[str, Table]:
    """Return the entries of a table of tables, such as ``keys``."""
    found = table_of(document, name)
    if len(found) > MAX_ENTRIES:
        raise config_invalid(name, f"at most {MAX_ENTRIES} entries", str(len(found)))
    return {one: table_of(found, one, f"{name}.") for one in found}


def table_of(document: Table, name: str, where: str = "") -> dict[str, Any]:  # Any: TOML
    """Return a table; an absent one is empty."""
    found = document.get(name, {})
    if not isinstance(found, dict):
        raise config_invalid(where + name, "a table", repr(found)[:80])
    return found


def text_of(table: Table, name: str, where: str) -> str:
    """Return a text that is not empty."""
    value = table.get(name)
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise config_invalid(where + name, "a text that is not empty", repr(value)[:80])
    return value


def texts_of(table: Table, name: str, where: str) -> tuple[str, ...]:
    """Return a list of texts that is not empty."""
    value = table.get(name)
    if not isinstance(value, list) or not value:
        raise config_invalid(where + name, "a list that is not empty", repr(value)[:80])
    return tuple(text_of({name: one}, name, where) for one in value)


def id_of(table: Table, name: str, where: str) -> int | None:
    """Return the number of a user or group, or None if absent."""
    if name not in table:
        return None
    value = table[name]
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_ID:
        raise config_invalid(where + name, f"a number from 0 to {MAX_ID}", repr(value)[:80])
    if value == NOBODY_ID:
        raise config_invalid(
            where + name, f"the number of a user or group; {NOBODY_ID} is that of all without one here", str(value)
        )
    return value


def number_of(value: object, where: str, *, whole: bool) -> float:
    """Return a number within the limits of the configuration."""
    least, most = (1, 4096) if whole else (0.01, 3600.0)
    fits = isinstance(value, int) if whole else isinstance(value, int | float)
    if isinstance(value, bool) or not fits or not isinstance(value, int | float) or not least <= value <= most:
        raise config_invalid(where, f"a {'whole ' if whole else ''}number from {least:g} to {most:g}", repr(value)[:80])
    return value


def require_known(table: Table, known: set[str], where: str) -> None:
    """Refuse keys that a table does not have."""
    unknown = sorted(table.keys() - known)
    if unknown:
        raise config_invalid(where + unknown[0][:80], f"one of {', '.join(sorted(known))}", "a key that is not known")


def config_invalid(where: str, expected: str, got: str) -> ConfigurationError:
    """Return the error for a value that is not as expected."""
    return ConfigurationError(
        f"the agent's configuration: {where}: expected {expected}, got {got}",
        code="agent-config-invalid",
        field=where,
        expected=expected,
        got=got,
    )
