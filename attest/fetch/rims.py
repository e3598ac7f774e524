"""Client of NVIDIA's RIM service: reference integrity manifests of drivers, VBIOSes and switch BIOSes by id.

The service needs no authentication beyond TLS: all trust in a RIM comes from its signature.

Spec: specs/nvidia-gpu.md, section 9.1.
"""

from __future__ import annotations

from typing import Final

from attest.endorsements.requests import EndorsementRequest, NvidiaRimRequest
from attest.endorsements.rims import is_rim_id
from attest.errors import EndorsementError
from attest.fetch.client import ServiceWords
from attest.fetch.service import NvidiaServiceClient

RIM_URL: Final = "https://rim.attestation.nvidia.com"


class RimServiceClient(NvidiaServiceClient):
    """Client of NVIDIA's RIM service, or of a mirror of it; errors begin with ``rim``."""

    default_url = RIM_URL
    words = ServiceWords(
        prefix="rim",
        name="a RIM service",
        known="a RIM with this id",
        unknown="NVIDIA publishes no RIM for a driver or VBIOS that is not for confidential computing, or withdrew it",
    )

    def url_of(self, request: EndorsementRequest) -> str:
        """Return the URL for a request.

        Raises:
            EndorsementError: ``rim-not-found``, an impossible id, from odd versions in the evidence.
            TypeError: the request is for another service.
        """
        if not isinstance(request, NvidiaRimRequest):
            raise TypeError(f"NVIDIA's RIM service does not answer {type(request).__name__}")
        if not is_rim_id(request.id):
            raise EndorsementError(
                f"{request.id[:64]!r} is not the id of a RIM",
                code=f"{self.words.prefix}-not-found",
                expected="NV_ with letters, digits, dots, hyphens and underscores",
                got=repr(request.id[:64]),
            )
        return f"{self._base_url}/v1/rim/{request.id}"
