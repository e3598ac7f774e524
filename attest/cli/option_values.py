"""Values of options, read from their text: moments, hex, nonces, relaxations, issuers.

Each function is the ``type`` of an option of click. What it cannot read is wrong usage (``click.BadParameter``).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from attest.checks import Unchecked

MAX_NONCE_BYTES = 64


def utc(text: str) -> datetime:
    """Read an RFC 3339 moment."""
    from attest.encoding import rfc3339
    from attest.errors import EvidenceError

    try:
        return rfc3339(text, what="time")
    except EvidenceError as exc:
        raise click.BadParameter(exc.message.removeprefix("time: ")) from exc


def hex_of(length: int | None = None, *, shortest: int = 1, longest: int | None = None) -> Callable[[str], bytes]:
    """Return a reader of hex digits, for exactly ``length`` bytes or for ``shortest`` to ``longest`` bytes."""

    def read_hex(text: str) -> bytes:
        from attest.encoding import hex_bytes
        from attest.errors import EvidenceError

        try:
            data = hex_bytes(text, what="hex", length=length)
        except EvidenceError as exc:
            raise click.BadParameter(exc.message.removeprefix("hex: ")) from exc
        if longest is not None and not shortest <= len(data) <= longest:
            raise click.BadParameter(f"expected {shortest} to {longest} bytes of hex, got {len(data) or 'nothing'}")
        return data

    return read_hex


def nonce_text(text: str) -> bytes:
    """Read text whose UTF-8 bytes are the nonce."""
    data = text.encode("utf-8", "surrogateescape")
    if not 0 < len(data) <= MAX_NONCE_BYTES:
        raise click.BadParameter(f"expected text of 1 to {MAX_NONCE_BYTES} bytes, got {len(data) or 'nothing'}")
    return data


def relaxation(text: str) -> Unchecked:
    """Read ``CHECK=REASON``."""
    from attest.checks import Unchecked

    check, sign, reason = text.partition("=")
    if not sign:
        raise click.BadParameter(f"expected CHECK=REASON, got {text!r}")
    try:
        return Unchecked(check=check, reason=reason)
    except ValueError as exc:
        raise click.BadParameter(str(exc)) from exc


def trusted_issuer(text: str) -> tuple[str, str]:
    """Read ``ISSUER=FILE``."""
    issuer, _, file = text.rpartition("=")
    if not issuer or not file:
        raise click.BadParameter(f"expected ISSUER=FILE, got {text!r}")
    return issuer, file
