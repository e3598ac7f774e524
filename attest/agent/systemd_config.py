"""The part of the agent's configuration about credentials of systemd's units and encrypted volumes.

::

    [systemd]
    socket = "/run/attest/credentials.sock"    # for LoadCredential= and the key file of crypttab

    [systemd.units."app.service"]              # credentials of a unit, and the key or secret of each
    database-password = "acme/database"

    [systemd.volumes]                          # volumes of crypttab
    data = "disk-key"
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from attest.agent.cdh_config import references_of
from attest.agent.toml_tables import Table, config_invalid, entries_of, require_known, table_of, text_of
from attest.release.names import KeyReference

_UNIT: Final = re.compile(r"[A-Za-z0-9:_.\\@-]{1,255}")
_CREDENTIAL: Final = re.compile(r"[A-Za-z0-9_.-]{1,255}")
_VOLUME: Final = re.compile(r"[A-Za-z0-9_.+:@-]{1,127}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemdConfig:
    """A socket for the processes of root.

    Attributes:
        socket: its path.
        units: keys and secrets by unit and credential.
        volumes: keys and secrets by volume.
    """

    socket: Path
    units: Mapping[str, Mapping[str, KeyReference]] = field(default_factory=dict)
    volumes: Mapping[str, KeyReference] = field(default_factory=dict)

    @property
    def references(self) -> tuple[KeyReference, ...]:
        """All keys and secrets."""
        of_units = [reference for unit in self.units.values() for reference in unit.values()]
        return (*of_units, *self.volumes.values())


def systemd_of(document: Table) -> SystemdConfig | None:
    """Parse the table, if there is one.

    Raises:
        ConfigurationError: ``agent-config-invalid``, or as ``KeyReference.parse``.
    """
    if "systemd" not in document:
        return None
    table = table_of(document, "systemd")
    require_known(table, {"socket", "units", "volumes"}, "systemd.")
    path = Path(text_of(table, "socket", "systemd."))
    if not path.is_absolute():
        raise config_invalid("systemd.socket", "an absolute path", repr(str(path))[:80])
    units = {}
    for name in entries_of(table, "units"):
        if not _UNIT.fullmatch(name):
            raise config_invalid("systemd.units", "names of units", repr(name)[:80])
        units[name] = references_of(table_of(table, "units"), name, "systemd.units.", _CREDENTIAL)
    volumes = references_of(table, "volumes", "systemd.", _VOLUME) if "volumes" in table else {}
    if not units and not volumes:
        raise config_invalid("systemd", "a table [systemd.units.UNIT] or [systemd.volumes]", "neither")
    return SystemdConfig(socket=path, units=units, volumes=volumes)
