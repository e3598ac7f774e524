"""HTTP requests and responses, with the rules for their names, values and sizes.

``bhttp_decoder`` reads and ``bhttp`` writes both; the same rules hold in both directions, so that no message is sent
that the other side refuses.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from attest.errors import ChannelError

Fields = tuple[tuple[bytes, bytes], ...]
"""Lines of a header or trailer section: names in lower case, values as bytes. Repeated names stay separate."""

_CLAUSE = "RFC 9292, section 3"
_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]+")
_METHOD = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VISIBLE = re.compile(r"[!-~]*")
_AUTHORITY = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:\[\]%-]*")
_FORBIDDEN_IN_VALUE = re.compile(rb"[\x00\r\n]")
_OWN_PSEUDO_FIELDS = frozenset((b":method", b":scheme", b":authority", b":path", b":status"))
CONNECTION_FIELDS: Final = frozenset(
    (b"connection", b"transfer-encoding", b"te", b"upgrade", b"keep-alive", b"proxy-connection")
)
"""Fields of one connection; encrypted messages have none."""
SCHEME: Final = "https"


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageLimits:
    """Limits of a decoder, in bytes unless stated otherwise, checked before the bytes are awaited.

    The sizes of names, lines and sections are those of common servers.
    """

    method: int = 32
    scheme: int = 8
    authority: int = 255
    path: int = 8192
    name: int = 256
    value: int = 8192
    fields: int = 100
    section: int = 32 * 1024
    interim: int = 8
    content: int = 8 * 1024 * 1024
    padding: int = 64 * 1024

    @property
    def message(self) -> int:
        """Length of the longest message within all of these limits."""
        control = self.method + self.scheme + self.authority + self.path + 64
        return control + (2 + self.interim) * (self.section + 64) + 10 * self.content + self.padding

    @property
    def single(self) -> int:
        """Length of the longest message of the single form, which is held as a whole before any of it can be opened.

        Its content comes in one piece or in pieces of 16 bytes or more.
        """
        control = self.method + self.scheme + self.authority + self.path + 64
        return control + 2 * (self.section + 64) + self.content + self.content // 16 + self.padding


LIMITS: Final = MessageLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """An HTTP request.

    Attributes:
        method: in its own case (``POST``).
        authority: host and port; empty if the field ``host`` has it.
        path: with the query.
        scheme: always ``https``.

    Raises:
        ChannelError: ``bhttp-field-invalid``: invalid control data or fields.
    """

    method: str
    authority: str
    path: str
    fields: Fields = ()
    content: bytes = b""
    trailers: Fields = ()
    scheme: str = SCHEME

    def __post_init__(self) -> None:
        for name, value, pattern in (
            ("method", self.method, _METHOD),
            ("authority", self.authority, _AUTHORITY),
            ("path", self.path, _VISIBLE),
        ):
            if not pattern.fullmatch(value):
                raise _invalid(name, "permitted characters", ascii(value)[:80])
        if self.scheme != SCHEME:
            raise _invalid("scheme", SCHEME, ascii(self.scheme)[:80])
        require_section(self.fields, trailers=False)
        require_section(self.trailers, trailers=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """An HTTP response.

    Attributes:
        status: 200 to 599.
        interim: responses of 1xx before it, each with its fields.

    Raises:
        ChannelError: ``bhttp-field-invalid``: an invalid status or invalid fields.
    """

    status: int
    fields: Fields = ()
    content: bytes = b""
    trailers: Fields = ()
    interim: tuple[tuple[int, Fields], ...] = ()

    def __post_init__(self) -> None:
        require_status(self.status, interim=False)
        require_section(self.fields, trailers=False)
        require_section(self.trailers, trailers=True)
        for status, fields in self.interim:
            require_status(status, interim=True)
            require_section(fields, trailers=False)


def field_values(fields: Fields, name: bytes) -> tuple[bytes, ...]:
    """Return the values of every line of a name, in order."""
    return tuple(value for found, value in fields if found == name)


def require_status(status: int, *, interim: bool) -> None:
    """Require 100 to 199, or 200 to 599.

    Raises:
        ChannelError: ``bhttp-field-invalid``.
    """
    allowed = range(100, 200) if interim else range(200, 600)
    if status not in allowed:
        raise _invalid("status", f"{allowed.start} to {allowed.stop - 1}", str(status))


def require_section(fields: Fields, *, trailers: bool) -> None:
    """Require a valid section (RFC 9292, section 3.6).

    Raises:
        ChannelError: ``bhttp-field-invalid``.
    """
    ordinary = trailers
    for name, value in fields:
        ordinary = require_field(name, value, ordinary=ordinary)


def require_field(name: bytes, value: bytes, *, ordinary: bool) -> bool:
    """Require a valid line, and return True once an ordinary field has occurred, this one included.

    Pseudo-fields are refused if ``ordinary``: an ordinary field preceded the line, or it is a trailer.

    Raises:
        ChannelError: ``bhttp-field-invalid``.
    """
    pseudo = name.startswith(b":")
    # (1) Names are tokens in lower case: peers would disagree about two spellings of one name.
    if not _TOKEN.fullmatch(name[1:] if pseudo else name):
        raise _invalid("field name", "a token in lower case", ascii(name)[:80])
    # (2) Control data is never repeated.
    if name in _OWN_PSEUDO_FIELDS:
        raise _invalid("field name", "no pseudo-field that the control data holds", name.decode("ascii"))
    # (3) Other pseudo-fields come first, and never in trailers.
    if pseudo and ordinary:
        raise _invalid("field name", "pseudo-fields before all others", name.decode("ascii")[:80])
    # (4) A value contains no line ends and no surrounding white space (RFC 9113, section 8.2.1).
    if _FORBIDDEN_IN_VALUE.search(value) or value.strip(b" \t") != value:
        raise _invalid("field value", "no NUL, CR or LF, and no white space around it", name.decode("ascii")[:80])
    return ordinary or not pseudo


def too_long(what: str, limit: int, got: int) -> ChannelError:
    """Return the error for an exceeded limit."""
    return ChannelError(
        f"{what}: {got} is more than {limit}",
        code="bhttp-too-long",
        field=what,
        expected=f"at most {limit}",
        got=str(got),
    )


def _invalid(what: str, expected: str, got: str) -> ChannelError:
    return ChannelError(
        f"{what} is not valid in HTTP: expected {expected}",
        code="bhttp-field-invalid",
        field=what,
        expected=expected,
        got=got,
        clause=_CLAUSE,
    )
