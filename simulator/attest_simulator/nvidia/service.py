"""The RIM service and the OCSP responder of the software NVIDIA: their answers, without a socket.

An HTTP server passes it the path of a GET request or the body of a POST request and sends its
answers. It also answers the typed requests of ``attest.endorsements.requests`` directly, like the clients of
``attest.fetch``.

Spec: specs/nvidia-gpu.md, sections 8 and 9.1.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Final, NamedTuple

from attest.endorsements.requests import EndorsementRequest, NvidiaOcspRequest, NvidiaRimRequest
from attest.errors import EndorsementError
from attest_simulator import der
from attest_simulator.nvidia.authorities import issuing_authorities
from attest_simulator.nvidia.keys import spki_of
from attest_simulator.nvidia.ocsp import SimulatedOcsp
from attest_simulator.nvidia.rims import rim_answer, rim_of_id, signed_in

SERVICE: Final = "simulation://nvidia"
_RIM_PATH = re.compile(r"/v1/rim/(?P<id>[A-Za-z0-9_.]{1,128})")
_RIM_URL = "/v1/rim/"


class NvidiaAnswer(NamedTuple):
    """An answer.

    Attributes:
        status: HTTP status.
        content_type: media type of the body.
        body: its bytes.
    """

    status: int
    content_type: str
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedNvidiaService:
    """Both services at one moment. Make one with ``SimulatedNvidiaService.of``.

    They have RIMs for every driver and VBIOS of the simulated products, derived from the id.

    Attributes:
        issued: start of the RIM signer's validity.
        ocsp: the responder.
        missing: ids of absent RIMs.
    """

    issued: datetime
    ocsp: SimulatedOcsp
    missing: frozenset[str] = frozenset()

    @staticmethod
    def of(at: datetime, *, ocsp: SimulatedOcsp | None = None) -> SimulatedNvidiaService:
        """Return the services at a moment, without revocations unless ``ocsp`` has some."""
        return SimulatedNvidiaService(issued=signed_in(at), ocsp=ocsp or SimulatedOcsp.of(at))

    # -- over HTTP

    def answer(self, path: str) -> NvidiaAnswer:
        """Answer a GET request for a RIM.

        Args:
            path: part of the URL after the host, such as ``/v1/rim/NV_GPU_DRIVER_GH100_580.95.05``.

        Returns:
            200 with JSON of id, document and digest; 404 with code ``RIM_NOT_FOUND``.
        """
        match = _RIM_PATH.fullmatch(path)
        rim = rim_of_id(match["id"], issued=self.issued) if match and match["id"] not in self.missing else None
        if rim is None:
            error = {"code": "RIM_NOT_FOUND", "message": "no such RIM"}
            return NvidiaAnswer(404, "application/json", json.dumps(error).encode("ascii"))
        return NvidiaAnswer(200, "application/json", rim_answer(rim))

    def answer_ocsp(self, body: bytes) -> NvidiaAnswer:
        """Answer a POST request with an OCSPRequest in DER; errors are in the answer itself."""
        return NvidiaAnswer(200, "application/ocsp-response", self.ocsp.respond(body))

    # -- as a source of endorsements

    @property
    def service(self) -> str:
        """Identity of the service among others."""
        return SERVICE

    def url_of(self, request: EndorsementRequest) -> str:
        """Return a pseudo-URL of a request.

        Raises:
            TypeError: the request is for another vendor's service.
        """
        match request:
            case NvidiaRimRequest():
                return f"{SERVICE}{_RIM_URL}{request.id}"
            case NvidiaOcspRequest():
                issuer = sha256(request.issuer.spki).hexdigest()
                return f"{SERVICE}/ocsp/{issuer}/{request.serial:x}"
            case _:
                raise TypeError(f"NVIDIA's service does not answer {type(request).__name__}")

    def get(self, request: EndorsementRequest, *, progress: Callable[[str], None] | None = None) -> bytes:
        """Return the body of the answer: JSON with a RIM, or an OCSPResponse without a nonce.

        Args:
            request: for an endorsement.
            progress: not called; nothing here takes time.

        Raises:
            EndorsementError: ``rim-not-found``.
            TypeError: as ``url_of``.
        """
        del progress
        if isinstance(request, NvidiaRimRequest):
            found = self.answer(_RIM_URL + request.id)
            if found.status != 200:
                raise EndorsementError(f"the simulated service has no RIM {request.id}", code="rim-not-found")
            return found.body
        if isinstance(request, NvidiaOcspRequest):
            return self._status_of(request)
        raise TypeError(self.url_of(request))

    def _status_of(self, request: NvidiaOcspRequest) -> bytes:
        for authority in issuing_authorities():
            if spki_of(authority.key) == request.issuer.spki and authority.subject == request.issuer.subject:
                return self.ocsp.template(authority, request.serial).issue()
        return UNAUTHORISED


UNAUTHORISED: Final = der.sequence(der.tlv(0x0A, b"\x06"))
"""An OCSPResponse ``unauthorized``: the responder does not serve this issuer (RFC 6960, section 2.3)."""
