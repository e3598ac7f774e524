"""A software Intel PCS, or a data centre's PCCS: its answers, without a socket.

An HTTP server passes it path and query and sends its answers.

Spec: Intel, API for SGX and TDX Provisioning Certification Service v4; specs/intel-tdx-sgx.md, section 17.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple, TypeVar
from urllib.parse import parse_qsl, quote

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from attest.evidence.intel.quote import Tee
from attest_simulator.intel.certificates import issuer_chain, pem_text
from attest_simulator.intel.collateral import Period, current_period, default_qe_identity
from attest_simulator.intel.crls import simulated_intel_crl
from attest_simulator.intel.keys import IntelAuthority
from attest_simulator.intel.machine import SimulatedPlatform
from attest_simulator.intel.tcb import QeIdentity, TcbInfo, compact_json, json_time, signed_document

ROOT_CRL_PATH: Final = "/IntelSGXRootCA.der"
"""On the host of certificates instead of the API's; one object answers for both."""

_PATH = re.compile(r"/(?P<tee>sgx|tdx)/certification/v4/(?P<item>[a-z/]{1,64})")
_TEES: Mapping[str, Tee] = {"sgx": "sgx", "tdx": "tdx"}
"""Path components by type, as a table for the type checker."""
_CAS: Mapping[str, IntelAuthority] = {"platform": IntelAuthority.PLATFORM, "processor": IntelAuthority.PROCESSOR}
_NUMBER = re.compile(r"[0-9]{1,9}")
_MAX_PARAMETERS = 8
_JSON = "application/json"

_Parameters = Mapping[str, str]
_Numbered = TypeVar("_Numbered", TcbInfo, QeIdentity)


class PcsAnswer(NamedTuple):
    """An answer.

    Attributes:
        status: HTTP status.
        headers: in Intel's spelling; issuer chains are percent-encoded PEM.
        body: empty for an error.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes


_BAD_REQUEST = PcsAnswer(400, {}, b"")
_NOT_FOUND = PcsAnswer(404, {}, b"")


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedPcs:
    """The service at one moment. Make one with ``SimulatedPcs.of``.

    Attributes:
        tcb_infos: all known TCB infos, of any FMSPC and evaluation number.
        qe_identities: all known QE identities.
        platforms: machines with available PCK certificates.
        crl_period: currency of the lists of Platform and Processor CA.
        root_crl_period: currency of the root's list.
        revoked: serial numbers by CA; the root's list names CAs and TCB Signing.
        standard_number: the highest evaluation number under ``update=standard``, which is also the default of
            requests; ``update=early`` selects the highest of all. None: no difference.
        pccs: answer like a PCCS: ``rootcacrl``, and the header ``SGX-TCB-Info-Issuer-Chain``.
    """

    tcb_infos: tuple[TcbInfo, ...]
    qe_identities: tuple[QeIdentity, ...]
    crl_period: Period
    root_crl_period: Period
    platforms: tuple[SimulatedPlatform, ...] = ()
    revoked: Mapping[IntelAuthority, tuple[int, ...]] | None = None
    standard_number: int | None = None
    pccs: bool = False

    @staticmethod
    def of(*platforms: SimulatedPlatform, at: datetime, pccs: bool = False) -> SimulatedPcs:
        """Return a service that has these platforms as up to date at ``at``."""
        period = current_period(at)
        tees: tuple[Tee, ...] = ("sgx", "tdx")
        infos = {(p.sgx.fmspc, tee): p.tcb_info(tee, at=at) for p in platforms for tee in tees}
        year = at.astimezone(UTC).year
        return SimulatedPcs(
            tcb_infos=tuple(infos.values()),
            qe_identities=tuple(default_qe_identity(tee, period=period) for tee in tees),
            crl_period=period,
            root_crl_period=Period(datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 2, 1, tzinfo=UTC)),
            platforms=platforms,
            pccs=pccs,
        )

    def answer(self, path: str, query: str = "") -> PcsAnswer:
        """Answer a GET request.

        Args:
            path: part of the URL between the host and ``?``, such as ``/tdx/certification/v4/tcb``.
            query: part of the URL after ``?``, still encoded, such as ``fmspc=53494d000000``.

        Returns:
            200 with signed JSON, a list or a certificate; 400 for a missing, repeated or misspelled parameter; 404
            for an unknown FMSPC, evaluation number, platform or resource.
        """
        if path == ROOT_CRL_PATH:
            return PcsAnswer(200, {"Content-Type": "application/pkix-crl"}, self._crl(IntelAuthority.ROOT))
        match = _PATH.fullmatch(path)
        handler = self._handlers().get(match["item"]) if match else None
        if match is None or handler is None:
            return _NOT_FOUND
        parameters = _parameters(query)
        return _BAD_REQUEST if parameters is None else handler(_TEES[match["tee"]], parameters)

    def _handlers(self) -> Mapping[str, Callable[[Tee, _Parameters], PcsAnswer]]:
        handlers = {
            "tcb": self._tcb_info,
            "qe/identity": self._qe_identity,
            "pckcrl": self._pck_crl,
            "pckcert": self._pck_certificate,
            "tcbevaluationdatanumbers": self._evaluation_numbers,
        }
        return handlers | ({"rootcacrl": self._root_crl_hex} if self.pccs else {})

    # -- one resource each

    def _tcb_info(self, tee: Tee, parameters: _Parameters) -> PcsAnswer:
        fmspc = parameters.get("fmspc", "")
        if not re.fullmatch(r"[0-9a-fA-F]{12}", fmspc):
            return _BAD_REQUEST
        found = tuple(i for i in self.tcb_infos if i.tee == tee and i.fmspc.lower() == fmspc.lower())
        header = "SGX-TCB-Info-Issuer-Chain" if self.pccs else "TCB-Info-Issuer-Chain"
        return self._chosen(found, parameters, header)

    def _qe_identity(self, tee: Tee, parameters: _Parameters) -> PcsAnswer:
        kind = "QE" if tee == "sgx" else "TD_QE"
        found = tuple(identity for identity in self.qe_identities if identity.kind == kind)
        return self._chosen(found, parameters, "SGX-Enclave-Identity-Issuer-Chain")

    def _chosen(self, found: tuple[_Numbered, ...], parameters: _Parameters, header: str) -> PcsAnswer:
        """Answer with the document of the requested number, or with the highest one of the update channel."""
        number, update = parameters.get("tcbEvaluationDataNumber"), parameters.get("update")
        if (number and update) or update not in {None, "early", "standard"}:
            return _BAD_REQUEST
        if number is not None and not _NUMBER.fullmatch(number):
            return _BAD_REQUEST
        if number is not None:
            found = tuple(each for each in found if each.evaluation_data_number == int(number))
        elif update != "early" and self.standard_number is not None:
            found = tuple(each for each in found if each.evaluation_data_number <= self.standard_number)
        if not found:
            return _NOT_FOUND
        best = max(found, key=lambda each: (each.evaluation_data_number, each.issue_date))
        return PcsAnswer(200, _with_chain(_JSON, header, IntelAuthority.TCB_SIGNING), best.document())

    def _pck_crl(self, tee: Tee, parameters: _Parameters) -> PcsAnswer:
        ca, encoding = _CAS.get(parameters.get("ca", "")), parameters.get("encoding", "pem")
        if tee != "sgx":
            return _NOT_FOUND
        if ca is None or encoding not in {"pem", "der"}:
            return _BAD_REQUEST
        crl = self._crl(ca)
        if encoding == "der":
            return PcsAnswer(200, _with_chain("application/pkix-crl", "SGX-PCK-CRL-Issuer-Chain", ca), crl)
        pem = x509.load_der_x509_crl(crl).public_bytes(Encoding.PEM)
        return PcsAnswer(200, _with_chain("application/x-pem-file", "SGX-PCK-CRL-Issuer-Chain", ca), pem)

    def _pck_certificate(self, tee: Tee, parameters: _Parameters) -> PcsAnswer:
        """Answer with the certificate of a platform's current TCB. NOTE: the real service needs a subscription key."""
        encrypted, qe_id = parameters.get("encrypted_ppid", ""), parameters.get("qeid", "")
        if tee != "sgx":
            return _NOT_FOUND
        if not (encrypted or qe_id) or not {"cpusvn", "pcesvn", "pceid"} <= set(parameters):
            return _BAD_REQUEST
        for platform in self.platforms:
            ids = {platform.qe_id(each).hex() for each in _TEES.values()}
            if encrypted.lower() == platform.encrypted_ppid().hex() or (self.pccs and qe_id.lower() in ids):
                return _pck_answer(platform, parameters)
        return _NOT_FOUND

    def _evaluation_numbers(self, tee: Tee, parameters: _Parameters) -> PcsAnswer:
        """Answer with the signed list of evaluation numbers, highest first.

        NOTE: written after Intel's documentation of the API, without a recorded answer for comparison.
        """
        infos = {info.evaluation_data_number: info for info in self.tcb_infos if info.tee == tee}
        if parameters:
            return _BAD_REQUEST
        rows = [
            {
                "tcbEvaluationDataNumber": number,
                "tcbRecoveryEventDate": json_time(max(level.date for level in infos[number].levels)),
                "tcbDate": json_time(max(level.date for level in infos[number].levels)),
            }
            for number in sorted(infos, reverse=True)
        ]
        text = compact_json(
            {
                "id": tee.upper(),
                "version": 1,
                "issueDate": json_time(self.crl_period.start),
                "nextUpdate": json_time(self.crl_period.end),
                "tcbEvalNumbers": rows,
            }
        )
        headers = _with_chain(_JSON, "TCB-Evaluation-Data-Numbers-Issuer-Chain", IntelAuthority.TCB_SIGNING)
        return PcsAnswer(200, headers, signed_document("tcbEvaluationDataNumbers", text))

    def _root_crl_hex(self, tee: Tee, parameters: _Parameters) -> PcsAnswer:
        if tee != "sgx" or parameters:
            return _NOT_FOUND
        body = self._crl(IntelAuthority.ROOT).hex().encode("ascii")
        return PcsAnswer(200, {"Content-Type": "text/html; charset=utf-8"}, body)

    def _crl(self, ca: IntelAuthority) -> bytes:
        period = self.root_crl_period if ca is IntelAuthority.ROOT else self.crl_period
        revoked = (self.revoked or {}).get(ca, ())
        return simulated_intel_crl(ca, this_update=period.start, next_update=period.end, revoked=revoked)


def _pck_answer(platform: SimulatedPlatform, parameters: _Parameters) -> PcsAnswer:
    sgx = platform.sgx
    if parameters["pceid"].lower() != sgx.pce_id.hex():
        return _NOT_FOUND
    headers = dict(_with_chain("application/x-pem-file", "SGX-PCK-Certificate-Issuer-Chain", platform.ca))
    headers["SGX-TCBm"] = (sgx.cpu_svn + sgx.pce_svn.to_bytes(2, "little")).hex()
    headers["SGX-FMSPC"] = sgx.fmspc.hex()
    headers["SGX-PCK-Certificate-CA-Type"] = "platform" if platform.ca is IntelAuthority.PLATFORM else "processor"
    return PcsAnswer(200, headers, pem_text([platform.pck_certificate()]).encode("ascii"))


def _with_chain(content_type: str, header: str, authority: IntelAuthority) -> Mapping[str, str]:
    """Return headers with an issuer chain, percent-encoded except for letters, digits and ``-._~``."""
    return {"Content-Type": content_type, header: quote(issuer_chain(authority), safe="")}


def _parameters(query: str) -> _Parameters | None:
    """Parse the query; None if it is malformed or repeats a parameter."""
    if not query:
        return {}
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True, max_num_fields=_MAX_PARAMETERS)
    except ValueError:
        return None
    given = dict(pairs)
    return given if len(given) == len(pairs) else None
