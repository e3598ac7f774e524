"""Issuers of tokens by their URL, as they are compared (azure-skr.md, 3).

Parsed by hand: a general parser of URLs tolerates blanks, tabs and a user before the host, and so confuses two issuers.
"""

from __future__ import annotations

from dataclasses import dataclass

_DEFAULT_PORTS = {"https": 443, "http": 80}
_DIGITS = frozenset("0123456789")
_HOST = _DIGITS.union("abcdefghijklmnopqrstuvwxyz-._")
_ADDRESS = _DIGITS.union("abcdef:.")
_NO_PATH = frozenset(" ?#\\")
_PORT_DIGITS = 5
_HIGHEST_PORT = 0xFFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuerUrl:
    """An issuer's URL in its parts; scheme and host in lower case, ``port`` None where none is written."""

    scheme: str
    host: str
    port: int | None
    path: str

    def __str__(self) -> str:
        """Write it without its default port and without one slash at the end; the path stays as it is."""
        shown = f"[{self.host}]" if ":" in self.host else self.host
        number = "" if self.port in (None, _DEFAULT_PORTS[self.scheme]) else f":{self.port}"
        return f"{self.scheme}://{shown}{number}{self.path.removesuffix('/')}"


def parse_issuer(url: str) -> IssuerUrl | None:
    """Take an issuer's URL apart. Users, queries, fragments and escapes in a host's name are no part of one."""
    scheme, colon, rest = url.partition("://")
    scheme = scheme.lower()
    # ASCII only: the lower case of some other letters is ASCII.
    if not url.isascii() or not url.isprintable() or scheme not in _DEFAULT_PORTS or not colon:
        return None
    end = rest.find("/")
    place, path = (rest, "") if end < 0 else (rest[:end], rest[end:])
    if place.startswith("["):
        host, bracket, tail = place[1:].lower().partition("]")
        known, tail = _ADDRESS, tail if bracket and ":" in host else "?"
    else:
        host, sign, number = place.lower().partition(":")
        known, tail = _HOST, sign + number
    digits = tail[1:]
    is_number = 0 < len(digits) <= _PORT_DIGITS and _DIGITS.issuperset(digits)
    port = int(digits) if tail.startswith(":") and is_number else None
    is_sound = not tail or (port is not None and 0 < port <= _HIGHEST_PORT)
    if not host or not known.issuperset(host) or not is_sound or _NO_PATH & set(path):
        return None
    return IssuerUrl(scheme=scheme, host=host, port=port, path=path)


def normalised_issuer(url: str) -> str | None:
    """Return an issuer's URL in the form in which two are compared, or None for text that is no issuer.

    Scheme and host in lower case, without the default port and without one slash at the end; the path stays as it is.
    """
    issuer = parse_issuer(url)
    return None if issuer is None else str(issuer)
