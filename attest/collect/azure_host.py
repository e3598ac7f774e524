"""An Azure host's services at the link-local address: the VCEK of its chip, and quotes for its TDs.

Plain HTTP to the host itself, without proxies and redirects. Only AMD's or Intel's signatures in an answer count, so
it is a hint like every endorsement: the host can withhold, not forge.

Spec: specs/azure-cvm.md, sections 6 and 7.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from http.client import HTTPConnection, HTTPException, HTTPResponse
from threading import Event, Timer
from typing import NamedTuple

from attest.encoding import JsonValue, base64url_bytes, base64url_text, json_value
from attest.endorsements.x509 import Certificate, parse_certificate, pem_blocks
from attest.errors import ChainError, CollectionError, EvidenceError

HOST = ("169.254.169.254", 80)
"""Address and port of the host's services, the same on every VM."""
_THIM_PATH = "/metadata/THIM/amd/certification"
_QUOTE_PATH = "/acc/tdquote"
MAX_THIM_BYTES = 64 * 1024
"""Answers have about 8 KiB."""
MAX_QUOTE_ANSWER_BYTES = 64 * 1024
"""A quote of 5,006 bytes, in base64."""
MAX_WAITS_SECONDS = 30.0
_CHAIN = 2
_AGAIN = frozenset({408, 410, 425, 429, 500, 502, 503, 504})
"""Status of a busy or absent service; 410 means that it is being updated."""
_TCB_DIGITS = 16
_RETRY_DIGITS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPatience:
    """Retries and time limits for the host.

    Attributes:
        first_wait: seconds before the second attempt; doubles each time, plus a random part of up to the same length.
        seconds: for one attempt as a whole.
    """

    random: Callable[[int], bytes]
    sleep: Callable[[float], None] = time.sleep
    attempts: int = 5
    first_wait: float = 0.5
    seconds: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ThimCertificates:
    """Answer of THIM (trusted hardware identity management) about the host's chip, not verified.

    Attributes:
        vcek: DER.
        chain_pem: ASK and ARK, PEM; empty without them.
        tcb: TCB_VERSION of the VCEK, 8 bytes as in a report.
    """

    vcek: bytes
    chain_pem: bytes
    tcb: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class AzureHost:
    """The host's services, at a host and port."""

    address: tuple[str, int] = HOST

    def certificates(self, patience: HostPatience) -> ThimCertificates:
        """Return the VCEK of the chip at its present TCB with its issuers, from THIM.

        Raises:
            CollectionError: ``azure-host-unreachable``, ``azure-host-busy`` or ``azure-host-answer-invalid``.
        """
        request = _Request(address=self.address, path=_THIM_PATH, limit=MAX_THIM_BYTES, headers={"Metadata": "true"})
        return _thim_certificates(request, _ask(request, patience))

    def td_quote(self, td_report: bytes, patience: HostPatience) -> bytes:
        """Return a quote of a TDREPORT of 1,024 bytes.

        Raises:
            CollectionError: as ``certificates``.
        """
        request = _Request(
            address=self.address,
            path=_QUOTE_PATH,
            limit=MAX_QUOTE_ANSWER_BYTES,
            headers={"Content-Type": "application/json"},
            body=json.dumps({"report": base64url_text(td_report)}).encode(),
        )
        document = _object(request, _ask(request, patience))
        try:
            return base64url_bytes(_text(request, document, "quote").rstrip("="), what="quote")
        except EvidenceError as exc:
            raise _invalid(request, "base64url", exc.message) from exc

    def answers(self, patience: HostPatience) -> int:
        """Return the HTTP status of THIM for one request, for ``attest doctor``.

        Raises:
            CollectionError: ``azure-host-unreachable``.
        """
        request = _Request(address=self.address, path=_THIM_PATH, limit=MAX_THIM_BYTES, headers={"Metadata": "true"})
        return _once(request, replace(patience, attempts=1)).status


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    address: tuple[str, int]
    path: str
    limit: int
    headers: Mapping[str, str]
    body: bytes | None = None

    @property
    def url(self) -> str:
        """Address, for people."""
        return f"http://{self.address[0]}{self.path}"


class _Answer(NamedTuple):
    """An answer, with the seconds that the service asks to wait; the body of a refusal is not read."""

    status: int
    body: bytes
    wait: float


def _ask(request: _Request, patience: HostPatience) -> bytes:
    """Retry until there is an answer or the attempts are used up."""
    for attempt in range(patience.attempts):
        last = attempt + 1 == patience.attempts
        wait = patience.first_wait * 2**attempt
        try:
            status, body, retry_after = _once(request, patience)
        except CollectionError as exc:
            if last or not exc.retryable:
                raise
        else:
            if status == 200:
                return body
            if status not in _AGAIN:
                raise _invalid(request, "status 200", f"status {status}")
            if last:
                raise _busy(request, status)
            wait = max(wait, retry_after)
        # The random part spreads the guests of one host, which all retry at the same moment after an outage.
        wait = min(wait, MAX_WAITS_SECONDS)
        patience.sleep(wait * (1 + patience.random(1)[0] / 256))
    raise ValueError("a question is sent once at least")


def _once(request: _Request, patience: HostPatience) -> _Answer:
    connection = HTTPConnection(*request.address, timeout=patience.seconds)
    # Single bytes now and then would never exceed the time limit of one read.
    late = Event()
    alarm = Timer(patience.seconds, _hang_up, (connection, late))
    alarm.daemon = True
    alarm.start()
    try:
        connection.request("GET" if request.body is None else "POST", request.path, request.body, dict(request.headers))
        with connection.getresponse() as response:
            body = _body(request, response) if response.status == 200 else b""
            if late.is_set():  # a truncated answer can look complete
                raise TimeoutError(f"no whole answer within {patience.seconds:g} s")
            return _Answer(response.status, body, _retry_after(response))
    except (OSError, HTTPException, ValueError, AttributeError) as exc:  # AttributeError: closed in the middle
        raise _unreachable(request, str(exc) or type(exc).__name__) from exc
    finally:
        alarm.cancel()
        connection.close()


def _retry_after(response: HTTPResponse) -> float:
    """Return the seconds of ``Retry-After``; dates are ignored."""
    seconds = response.headers.get("Retry-After", "").strip()
    return float(seconds) if seconds.isascii() and seconds.isdecimal() and len(seconds) < _RETRY_DIGITS else 0.0


def _hang_up(connection: HTTPConnection, late: Event) -> None:
    late.set()
    sock = connection.sock
    if sock is not None:
        with suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)


def _body(request: _Request, response: HTTPResponse) -> bytes:
    body = response.read(request.limit + 1)
    if len(body) > request.limit:
        raise _invalid(request, f"at most {request.limit} bytes", "more")
    declared = response.headers.get("Content-Length")
    if declared is not None and declared != str(len(body)):
        raise HTTPException(f"{len(body)} of {declared[:20]} bytes")
    return body


# -- answers


def _thim_certificates(request: _Request, body: bytes) -> ThimCertificates:
    document = _object(request, body)
    tcb = _text(request, document, "tcbm")
    if len(tcb) != _TCB_DIGITS or not set(tcb) <= set("0123456789abcdefABCDEF"):
        raise _invalid(request, f"tcbm of {_TCB_DIGITS} hex digits", repr(tcb[:40]))
    leaf = _certificates(request, _text(request, document, "vcekCert"), "vcekCert")
    if len(leaf) != 1:
        raise _invalid(request, "one certificate in vcekCert", f"{len(leaf)}")
    chain = document.get("certificateChain", "")
    if not isinstance(chain, str):
        raise _invalid(request, "text in certificateChain", type(chain).__name__)
    if chain:
        _require_chain(request, _certificates(request, chain, "certificateChain"))
    # Most significant byte first; a report has the reverse order.
    return ThimCertificates(vcek=leaf[0].der, chain_pem=chain.encode(), tcb=bytes.fromhex(tcb)[::-1])


def _certificates(request: _Request, text: str, member: str) -> tuple[Certificate, ...]:
    try:
        blocks = pem_blocks(text.encode("utf-8", "surrogatepass"))
        found = tuple(parse_certificate(der) for label, der in blocks if label == "CERTIFICATE")
    except (EvidenceError, ChainError) as exc:
        raise _invalid(request, f"certificates in {member}", exc.message) from exc
    if len(found) != len(blocks):
        raise _invalid(request, f"certificates in {member}", "other PEM blocks")
    return found


def _require_chain(request: _Request, chain: tuple[Certificate, ...]) -> None:
    """Refuse chains that no bundle may contain: another number of certificates, or no common validity."""
    if len(chain) != _CHAIN:
        raise _invalid(request, f"{_CHAIN} certificates in certificateChain", f"{len(chain)}")
    if max(one.not_before for one in chain) >= min(one.not_after for one in chain):
        raise _invalid(request, "issuers that are valid at one time", "others")


def _object(request: _Request, body: bytes) -> dict[str, JsonValue]:
    try:
        document = json_value(body, what="the host's answer")
    except EvidenceError as exc:
        raise _invalid(request, "JSON", exc.message) from exc
    if not isinstance(document, dict):
        raise _invalid(request, "an object", type(document).__name__)
    return document


def _text(request: _Request, document: Mapping[str, JsonValue], name: str) -> str:
    value = document.get(name)
    if not isinstance(value, str):
        raise _invalid(request, f"text in {name}", "nothing" if value is None else type(value).__name__)
    return value


# -- refusals


def _unreachable(request: _Request, problem: str) -> CollectionError:
    return CollectionError(
        f"{request.url} cannot be reached: {problem}",
        code="azure-host-unreachable",
        field=request.url,
        expected="an answer of the host",
        got=problem,
        hint="let this VM, and in a container its network, out to 169.254.169.254; it is the host itself",
        retryable=True,
    )


def _busy(request: _Request, status: int) -> CollectionError:
    return CollectionError(
        f"{request.url} is busy (status {status})",
        code="azure-host-busy",
        field=request.url,
        expected="status 200",
        got=f"status {status}",
        hint="ask again in a minute; a host throttles its guests",
        retryable=True,
    )


def _invalid(request: _Request, expected: str, got: str) -> CollectionError:
    return CollectionError(
        f"{request.url} answered with {got}, expected {expected}",
        code="azure-host-answer-invalid",
        field=request.url,
        expected=expected,
        got=got,
        hint="look for something else that answers at the link-local address, such as a proxy for metadata",
    )
