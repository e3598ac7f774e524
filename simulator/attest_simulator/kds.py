"""A software AMD key distribution service: its answers, without a socket.

An HTTP server passes it path and query and sends its answers.

Spec: AMD 57230; specs/sev-snp.md, section 11.
"""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from urllib.parse import parse_qsl

from attest.evidence.snp.certificates import LeafKind
from attest.evidence.snp.needs import KDS_SPL_NAMES
from attest.evidence.snp.tcb import SnpProduct, SnpTcbVersion
from attest_simulator.certificates import CERTIFIED_FROM, ca_role, simulated_chain, vcek_template
from attest_simulator.keys import CaRole, simulated_ca_key
from attest_simulator.revocation_lists import crl_template

_PATH = re.compile(r"/(?P<kind>vcek|vlek)/v1/(?P<product>[A-Za-z0-9]{1,32})/(?P<item>[A-Za-z0-9_]{1,256})")
_HEX = re.compile(r"(?:[0-9a-fA-F]{2})+")
_LEVEL = re.compile(r"[0-9]{1,3}")
_MAX_LEVEL = 255
_MAX_PARAMETERS = 8
_PEM_LINE = 64


class KdsAnswer(NamedTuple):
    """An answer.

    Attributes:
        status: HTTP status.
        content_type: media type of the body.
        body: for an error, one line of text.
    """

    status: int
    content_type: str
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedKds:
    """The service at one moment, for all chips: a VCEK is derived from the path's values.

    Attributes:
        this_update: start of its lists' currency, included.
        next_update: end of their currency, excluded.
        revoked: serial numbers in its lists; they differ between product lines.
        certified_from: first valid second of its VCEKs.
    """

    this_update: datetime
    next_update: datetime
    revoked: tuple[int, ...] = ()
    certified_from: datetime = CERTIFIED_FROM

    def answer(self, path: str, query: str = "") -> KdsAnswer:
        """Answer a GET request.

        Args:
            path: part of the URL between the host and ``?``, such as ``/vcek/v1/Milan/cert_chain``.
            query: part of the URL after ``?``, still encoded, such as ``blSPL=04&teeSPL=00&snpSPL=24&ucodeSPL=219``.

        Returns:
            200 with a certificate or list in DER or a chain in PEM; 400 for a misspelt chip or TCB;
            401 for a VLEK, which only a cloud provider gets; otherwise 404.
        """
        match = _PATH.fullmatch(path)
        product = next((line for line in SnpProduct if match and line == match["product"]), None)
        if match is None or product is None:
            return _refusal(404, "no such resource")
        kind, item = LeafKind(match["kind"]), match["item"]
        if item == "cert_chain":
            chain = simulated_chain(product, kind=kind)
            return KdsAnswer(200, "application/x-pem-file", b"".join(map(_pem, chain)))
        if item == "crl":
            return self._crl(product)
        if kind is LeafKind.VLEK:
            return _refusal(401, "credentials needed") if item == "cert" else _refusal(404, "no such resource")
        return self._vcek(product, item, query)

    def _crl(self, product: SnpProduct) -> KdsAnswer:
        """Answer with the list of the ARK, the same under ``/vcek/`` and ``/vlek/``."""
        template = crl_template(
            product, this_update=self.this_update, next_update=self.next_update, revoked=self.revoked
        )
        return KdsAnswer(200, "application/pkix-crl", template.issue(simulated_ca_key(product, CaRole.ARK)))

    def _vcek(self, product: SnpProduct, hwid: str, query: str) -> KdsAnswer:
        if not _HEX.fullmatch(hwid) or len(hwid) != 2 * product.hwid_bytes or not any(bytes.fromhex(hwid)):
            return _refusal(400, f"hwid: expected {2 * product.hwid_bytes} hex digits, not all zero")
        tcb = _tcb(product, query)
        if tcb is None:
            return _refusal(400, f"expected each of {', '.join(_spl_names(product).values())} once, 0 to {_MAX_LEVEL}")
        template = vcek_template(product=product, hwid=bytes.fromhex(hwid), tcb=tcb, not_before=self.certified_from)
        issuer = simulated_ca_key(product, ca_role(LeafKind.VCEK))
        return KdsAnswer(200, "application/pkix-cert", template.issue(issuer))


def _spl_names(product: SnpProduct) -> dict[str, str]:
    """Return parameter names by component of the TCB; fmcSPL is Turin's alone."""
    return {part: name for part, name in KDS_SPL_NAMES.items() if part != "fmc" or product.has_fmc}


def _tcb(product: SnpProduct, query: str) -> SnpTcbVersion | None:
    """Parse the TCB of the query; None with a missing, unknown, repeated or invalid parameter."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True, max_num_fields=_MAX_PARAMETERS)
    except ValueError:
        return None
    given, names = dict(pairs), _spl_names(product)
    if len(pairs) != len(given) or set(given) != set(names.values()):
        return None
    if not all(_LEVEL.fullmatch(level) and int(level) <= _MAX_LEVEL for level in given.values()):
        return None
    return SnpTcbVersion(**{part: int(given[name]) for part, name in names.items()})


def _pem(certificate: bytes) -> bytes:
    text = b64encode(certificate)
    lines = [text[at : at + _PEM_LINE] for at in range(0, len(text), _PEM_LINE)]
    return b"\n".join((b"-----BEGIN CERTIFICATE-----", *lines, b"-----END CERTIFICATE-----", b""))


def _refusal(status: int, text: str) -> KdsAnswer:
    return KdsAnswer(status, "text/plain; charset=utf-8", text.encode())
