"""The part of the agent's configuration about the interface of the Confidential Data Hub on the loopback.

::

    [cdh]
    anyone_here = "one program runs in this pod"   # a TCP peer has no credentials
    port = 8006                                    # unless given
    evidence = "the programs are those of the image"   # gives evidence too; off unless given

    [cdh.resources]                                # REPO/TYPE/TAG, and the key or secret that it names
    "default/model-key/llama" = "llama-70b"
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from attest.agent.toml_tables import MAX_ENTRIES, Table, config_invalid, require_known, table_of, text_of
from attest.release.names import KeyReference

DEFAULT_PORT: Final = 8006
"""The port of api-server-rest of Confidential Containers."""
_MAX_PORT: Final = 65535
_RESOURCE: Final = re.compile(r"(?:(?!\.{1,2}/)[A-Za-z0-9_.-]{1,128}/){2}(?!\.{1,2}$)[A-Za-z0-9_.-]{1,128}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CdhConfig:
    """An interface that any process of this network namespace may use.

    Attributes:
        anyone_here: the reason why any of them may have these keys.
        resources: keys and secrets by REPO/TYPE/TAG.
        evidence: the reason why any of them may have evidence with report data of its own choice; None: it may not.
    """

    anyone_here: str
    resources: Mapping[str, KeyReference]
    port: int = DEFAULT_PORT
    evidence: str | None = None


def cdh_of(document: Table) -> CdhConfig | None:
    """Parse the table, if there is one.

    Raises:
        ConfigurationError: ``agent-config-invalid``, or as ``KeyReference.parse``.
    """
    if "cdh" not in document:
        return None
    table = table_of(document, "cdh")
    require_known(table, {"anyone_here", "evidence", "port", "resources"}, "cdh.")
    reason = text_of(table, "anyone_here", "cdh.")
    port = table.get("port", DEFAULT_PORT)
    if isinstance(port, bool) or not isinstance(port, int) or not 1 <= port <= _MAX_PORT:
        raise config_invalid("cdh.port", f"a number from 1 to {_MAX_PORT}", repr(port)[:80])
    evidence = text_of(table, "evidence", "cdh.") if "evidence" in table else None
    resources = references_of(table, "resources", "cdh.", _RESOURCE)
    return CdhConfig(anyone_here=reason, evidence=evidence, port=port, resources=resources)


def references_of(table: Table, name: str, where: str, form: re.Pattern[str]) -> dict[str, KeyReference]:
    """Parse a table of keys and secrets, whose names have a form; it is not empty."""
    found = table_of(table, name, where)
    if not 1 <= len(found) <= MAX_ENTRIES:
        raise config_invalid(where + name, f"1 to {MAX_ENTRIES} entries", str(len(found)))
    for one in found:
        if not form.fullmatch(one):
            raise config_invalid(where + name, f"names that match {form.pattern}", repr(one)[:80])
    return {one: KeyReference.parse(text_of(found, one, f"{where}{name}.")) for one in found}
