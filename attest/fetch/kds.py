"""Client of AMD's key distribution service (KDS): VCEKs, certificate chains and revocation lists.

Spec: AMD 57230, chapter 4; specs/sev-snp.md, section 11.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlencode

from attest.endorsements.requests import AmdChainRequest, AmdCrlRequest, AmdVcekRequest, EndorsementRequest
from attest.fetch.client import ServiceWords
from attest.fetch.service import ServiceClient

KDS_URL: Final = "https://kdsintf.amd.com"

_PRODUCT = re.compile(r"[A-Za-z]{1,16}")


class KdsClient(ServiceClient):
    """Client of a KDS, or of a mirror of it; errors begin with ``kds``."""

    default_url = KDS_URL
    words = ServiceWords(
        prefix="kds",
        name="a key distribution service",
        known="an answer for this product line, chip and TCB",
        unknown="the product line may be wrong, or the service does not know this chip at this TCB",
    )

    def url_of(self, request: EndorsementRequest) -> str:
        """Return the URL for a request.

        Raises:
            TypeError: the request is for another vendor's service.
            ValueError: an invalid product name.
        """
        if not isinstance(request, AmdVcekRequest | AmdChainRequest | AmdCrlRequest):
            raise TypeError(f"AMD's service does not answer {type(request).__name__}")
        if not _PRODUCT.fullmatch(request.product):
            raise ValueError(f"{request.product!r} is not a product line")
        match request:
            case AmdVcekRequest():
                query = urlencode([(name, f"{level:02d}") for name, level in request.spls])
                return f"{self._base_url}/vcek/v1/{request.product}/{request.hwid.hex()}?{query}"
            case AmdChainRequest():
                return f"{self._base_url}/{request.kind}/v1/{request.product}/cert_chain"
            case _:  # AmdCrlRequest
                return f"{self._base_url}/{request.kind}/v1/{request.product}/crl"
