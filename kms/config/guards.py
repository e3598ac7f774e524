"""Notation of rollback guards in the setting ``rollback_guard``: kind, colon, place."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

MAX_GUARDS: Final = 8
DEFAULT_TCTI: Final = "device:/dev/tpmrm0"
_FORMS: Final = (
    "expected file:PATH, tpm:0x01NNNNNN (or tpm:0x01NNNNNN@TCTI), witness:NAME, "
    "or replica:https://HOST (http:// for the loopback address)"
)
_NV_INDEX: Final = re.compile(r"0x01[0-9a-f]{6}")
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class GuardKind(StrEnum):
    """Kinds of guards."""

    FILE = "file"
    TPM = "tpm"
    WITNESS = "witness"
    REPLICA = "replica"


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardPlace:
    """A guard and its place: a path, an NV index, the name of a witness, or the address of a replica.

    ``tcti`` is the TCTI of a TPM, in tpm2-tools' notation; empty for the other kinds.
    """

    kind: GuardKind
    place: str
    tcti: str = ""


def parse_guard(text: str) -> GuardPlace:
    """Read one guard of the setting.

    Raises:
        ValueError: invalid notation.
    """
    name, _, place = text.partition(":")
    if name not in {one.value for one in GuardKind} or not place:
        raise ValueError(_FORMS)
    kind, tcti = GuardKind(name), ""
    if kind is GuardKind.TPM:
        place, at, tcti = place.partition("@")
        tcti = tcti if at else DEFAULT_TCTI
        if not _NV_INDEX.fullmatch(place) or not tcti:
            raise ValueError(_FORMS)
    if kind is GuardKind.REPLICA and not is_address(place):
        raise ValueError(_FORMS)
    return GuardPlace(kind=kind, place=place, tcti=tcti)


def is_address(url: str) -> bool:
    """Return True for an https address, or an http one of this machine, without user, query and fragment."""
    parts = urlsplit(url)
    if not parts.hostname or parts.query or parts.fragment or parts.username is not None:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)


def from_folder(text: object, folder: Path) -> object:
    """Return a guard of a settings file; its relative path starts at the folder of that file."""
    prefix = f"{GuardKind.FILE}:"
    if isinstance(text, str) and text.startswith(prefix) and text != prefix:
        return prefix + str(folder / text.removeprefix(prefix))
    return text
