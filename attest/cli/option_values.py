"""Types of option values: moments, hex, nonces as text, relaxations, issuers."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from attest.checks import Unchecked


class _Time(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions of click
    """An RFC 3339 moment."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Read it, or fail as wrong usage."""
        if isinstance(value, datetime):
            return value
        from attest.encoding import rfc3339
        from attest.errors import EvidenceError

        try:
            return rfc3339(str(value), what="time")
        except EvidenceError as exc:
            self.fail(exc.message.removeprefix("time: "), param, ctx)


class Hex(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions of click
    """Bytes as hex digits.

    Args:
        length: exactly so many bytes, if given.
        longest: at most so many bytes, at least one.
    """

    name = "hex"

    def __init__(self, *, length: int | None = None, longest: int | None = None) -> None:
        """Keep the bounds."""
        self._length = length
        self._longest = longest

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        """Read it, or fail as wrong usage."""
        if isinstance(value, bytes):
            return value
        from attest.encoding import hex_bytes
        from attest.errors import EvidenceError

        try:
            data = hex_bytes(str(value), what="hex", length=self._length)
        except EvidenceError as exc:
            self.fail(exc.message.removeprefix("hex: "), param, ctx)
        if self._longest is not None and not 0 < len(data) <= self._longest:
            self.fail(f"expected 1 to {self._longest} bytes of hex, got {len(data) or 'nothing'}", param, ctx)
        return data


class NonceText(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions of click
    """Text whose UTF-8 bytes are the nonce."""

    name = "text"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        """Read it, or fail as wrong usage."""
        if isinstance(value, bytes):
            return value
        data = str(value).encode("utf-8", "surrogateescape")
        if not 0 < len(data) <= 64:
            self.fail(f"expected text of 1 to 64 bytes, got {len(data) or 'nothing'}", param, ctx)
        return data


class Relaxation(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions of click
    """``CHECK=REASON``."""

    name = "check=reason"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Unchecked:
        """Read it, or fail as wrong usage."""
        from attest.checks import Unchecked

        if isinstance(value, Unchecked):
            return value
        check, sign, reason = str(value).partition("=")
        if not sign:
            self.fail(f"expected CHECK=REASON, got {value!r}", param, ctx)
        try:
            return Unchecked(check=check, reason=reason)
        except ValueError as exc:
            self.fail(str(exc), param, ctx)


class TrustedIssuer(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions of click
    """``ISSUER=FILE``."""

    name = "issuer=file"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Read it, or fail as wrong usage."""
        if isinstance(value, tuple):
            return value
        issuer, _, file = str(value).rpartition("=")
        if not issuer or not file:
            self.fail(f"expected ISSUER=FILE, got {value!r}", param, ctx)
        return issuer, file


TIME = _Time()
