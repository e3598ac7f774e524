"""The content of a mirror: endorsements of bundles and of the cache, by the request that they answer.

A mirror makes nothing trusted: whoever fetches from it verifies the vendors' signatures.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

from cryptography.x509 import ocsp

from attest.endorsements.bundle_records import BundleEntry
from attest.endorsements.intel_answers import parse_intel_crl, parse_intel_document
from attest.endorsements.ocsp_answers import parse_ocsp
from attest.endorsements.requests import (
    AmdChainRequest,
    AmdCrlRequest,
    EndorsementRequest,
    IntelPckCrlRequest,
    IntelQeIdentityRequest,
    IntelRootCrlRequest,
    IntelTcbInfoRequest,
    NvidiaRimRequest,
)
from attest.endorsements.rims import parse_rim_answer
from attest.endorsements.x509 import parse_certificate, parse_crl, pem_blocks
from attest.errors import ChainError, EndorsementError, EvidenceError
from attest.evidence.intel.qe_identity import EnclaveId, parse_qe_identity
from attest.evidence.intel.tcb_info import parse_tcb_info
from attest.evidence.snp.certificates import LeafKind, read_leaf
from attest.evidence.snp.needs import vcek_request
from attest.evidence.snp.tcb import SnpProduct
from attest.fetch.answers import CheckedAnswer, read_answer
from attest.fetch.mirror_paths import MirrorPath, WireAnswer, wire_answer

MAX_OCSP_REQUEST_BYTES = 4096
"""A request about one certificate has 150 bytes."""
_OcspKey = tuple[str, bytes, bytes, int]

Obtain = Callable[[EndorsementRequest, CheckedAnswer | None], CheckedAnswer | None]
"""Returns an answer for a request of which the mirror has an old one, or none."""


class Mirror:
    """Answers by request, and OCSP answers by certificate. Its methods may be called by several threads at a time.

    Args:
        entries: of bundles and of the cache; of several answers to one request the one issued last is served.
        obtain: fetches what is missing or not current; None fetches nothing.
    """

    def __init__(self, entries: Iterable[BundleEntry], *, obtain: Obtain | None = None) -> None:
        self._obtain = obtain
        self._lock = threading.Lock()
        self._answers: dict[EndorsementRequest, CheckedAnswer] = {}
        self._ocsp: dict[_OcspKey, tuple[datetime, bytes]] = {}
        self.unusable = 0
        """Entries that are none of their kind."""
        for entry in entries:
            try:
                self._add(entry)
            except (EvidenceError, ChainError, EndorsementError, ValueError):
                self.unusable += 1

    def __len__(self) -> int:
        return len(self._answers) + len(self._ocsp)

    def _add(self, entry: BundleEntry) -> None:
        if entry.kind == "nvidia-ocsp":
            found = parse_ocsp(entry.data)
            key = found.hash_algorithm, found.issuer_name_hash, found.issuer_key_hash, found.serial
            made = found.this_update, entry.data
            self._ocsp[key] = max(self._ocsp.get(key, made), made)
            return
        for request in requests_of(entry):
            self._keep(read_answer(request, entry.data, source=entry.source))

    def _keep(self, answer: CheckedAnswer) -> CheckedAnswer:
        """Keep an answer unless there is one that was issued later, and return the one that is kept."""
        before = self._answers.get(answer.request)
        if before is None or before.issued is None or answer.issued is None or before.issued <= answer.issued:
            self._answers[answer.request] = answer
        return self._answers[answer.request]

    def answer(self, path: MirrorPath) -> WireAnswer | None:
        """Return the answer to a GET, or None if there is none.

        Raises:
            EndorsementError: it is fetched, and the vendor's service does not answer.
            ConfigurationError: the cache cannot be used.
        """
        with self._lock:
            found = self._answers.get(path.request)
            if self._obtain is not None:
                fetched = self._obtain(path.request, found)
                found = found if fetched is None else self._keep(fetched)
        return None if found is None else wire_answer(path, found.data)

    def ocsp_answer(self, request: bytes) -> bytes | None:
        """Return the stored answer about the certificate of an OCSP request, with the nonce of its own time, or None.

        Raises:
            ValueError: not an OCSP request about one certificate.
        """
        asked = ocsp.load_der_ocsp_request(request)
        key = asked.hash_algorithm.name, asked.issuer_name_hash, asked.issuer_key_hash, asked.serial_number
        found = self._ocsp.get(key)
        return None if found is None else found[1]


def requests_of(entry: BundleEntry) -> Iterator[EndorsementRequest]:
    """Yield the requests that an entry answers, by its content.

    Raises:
        EvidenceError: it cannot be parsed.
        ChainError: a certificate of another kind.
        ValueError: it has another name than the kind's.
    """
    match entry.kind:
        case "amd-vcek":
            leaf = read_leaf(parse_certificate(entry.data))
            if leaf.hwid is not None:
                yield vcek_request(product=leaf.product, hwid=leaf.hwid, tcb=leaf.tcb)
        case "amd-chain":
            yield _chain_request(entry.data)
        case "amd-crl":
            product = SnpProduct((parse_crl(entry.data).issuer_common_name or "").removeprefix("ARK-"))
            yield AmdCrlRequest(product=str(product), kind="vcek")
            yield AmdCrlRequest(product=str(product), kind="vlek")
        case "intel-tcb-info":
            info = parse_tcb_info(parse_intel_document(entry.data, kind="tcb-info")[0].body)
            yield IntelTcbInfoRequest(tee=info.tee, fmspc=info.fmspc)
        case "intel-qe-identity":
            identity = parse_qe_identity(parse_intel_document(entry.data, kind="qe-identity")[0].body)
            yield IntelQeIdentityRequest(tee="tdx" if identity.id is EnclaveId.TD_QE else "sgx")
        case "intel-crl":
            yield _crl_request(parse_intel_crl(entry.data)[0].issuer_common_name)
        case "nvidia-rim":
            yield NvidiaRimRequest(id=parse_rim_answer(entry.data).id)


def _chain_request(pem: bytes) -> AmdChainRequest:
    blocks = pem_blocks(pem)
    name = parse_certificate(blocks[0][1]).common_name if blocks else None
    for product in SnpProduct:
        if name == LeafKind.VLEK.issuer_common_name(product):
            return AmdChainRequest(product=str(product), kind="vlek")
        if name == LeafKind.VCEK.issuer_common_name(product):
            return AmdChainRequest(product=str(product), kind="vcek")
    raise ValueError(f"a chain of {name}")


def _crl_request(issuer: str | None) -> IntelPckCrlRequest | IntelRootCrlRequest:
    match issuer:
        case "Intel SGX PCK Platform CA":
            return IntelPckCrlRequest(ca="platform")
        case "Intel SGX PCK Processor CA":
            return IntelPckCrlRequest(ca="processor")
        case "Intel SGX Root CA":
            return IntelRootCrlRequest()
    raise ValueError(f"a list of {issuer}")
