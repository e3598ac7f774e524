"""Wires: the protocols through which a key can be released."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Final

from attest.errors import ConfigurationError


class Wire(enum.StrEnum):
    """A protocol between workloads and this service."""

    NATIVE = "native"
    """``POST /v1/releases``."""
    KBS = "kbs"
    """The protocol of Confidential Containers' Key Broker Service: no receipt, no audience, no renewal of leases."""
    SKR = "skr"
    """Azure's secure key release: a Verifier's token in place of evidence, and the same limits."""


NATIVE_ONLY: Final = frozenset({Wire.NATIVE})


def parse_wires(names: Iterable[str]) -> frozenset[Wire]:
    """Return the wires of these names.

    Raises:
        ConfigurationError: ``wire-unknown``: there are none, or one is unknown.
    """
    given = sorted(set(names))
    unknown = [name for name in given if name not in set(Wire)]
    if unknown or not given:
        raise ConfigurationError(
            f"there is no protocol {unknown[0][:40]!r}" if unknown else "no protocol is named",
            code="wire-unknown",
            field="via",
            expected=f"one or several of {', '.join(Wire)}",
            got=repr(unknown[0][:40]) if unknown else "none",
        )
    return frozenset(map(Wire, given))


def wires_text(wires: Iterable[Wire]) -> str:
    """Return the names, sorted, with commas between them."""
    return ",".join(sorted(wires))
