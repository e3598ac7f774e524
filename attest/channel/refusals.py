"""All refusals of a gateway, inside the encryption or in the clear.

A refusal in the clear carries nothing else: it is not authentic. All refusals inside have one length.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from attest.channel.fields import DATE, REFUSED, http_date
from attest.channel.messages import Fields, Response

PROBLEM_TYPE: Final = "application/problem+json"
REFUSAL_BYTES: Final = 1024
"""Length of every refusal inside, so that observers cannot distinguish them."""
_PROBLEMS = "https://iana.org/assignments/http-problem-types"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelRefusal:
    """A refusal of a request.

    Attributes:
        code: stable name.
        title: for people, fixed for each code.
        problem: fragment of the registered problem type, or None.
        inside: encrypted; otherwise in the clear, without details.
    """

    status: int
    code: str
    title: str
    problem: str | None = None
    inside: bool = True

    def document(self) -> bytes:
        """Return the problem details (RFC 9457)."""
        kind = "about:blank" if self.problem is None else f"{_PROBLEMS}#{self.problem}"
        return json.dumps({"type": kind, "title": self.title, "status": self.status, "code": self.code}).encode()

    def response(self, *, at: datetime) -> Response:
        """Return the refusal as an encrypted answer."""
        fields: Fields = (
            (b"content-type", PROBLEM_TYPE.encode()),
            (b"cache-control", b"no-store"),
            (REFUSED, self.code.encode()),
            (DATE, http_date(at)),
        )
        return Response(status=self.status, fields=fields, content=self.document())


METHOD = ChannelRefusal(status=405, code="method-not-allowed", title="Requests are posted", inside=False)
MEDIA_TYPE = ChannelRefusal(status=415, code="media-type-unsupported", title="No encrypted request", inside=False)
EMPTY = ChannelRefusal(status=400, code="request-malformed", title="No request", inside=False)
TOO_LARGE = ChannelRefusal(status=413, code="body-too-large", title="The request is too large", inside=False)
NOT_OPENED = ChannelRefusal(
    status=422, code="channel-not-opened", title="The request does not open", problem="ohttp-key", inside=False
)
MALFORMED = ChannelRefusal(status=400, code="request-malformed", title="No HTTP request")
CONTENT_TOO_LARGE = ChannelRefusal(status=413, code="body-too-large", title="The request is too large")
STALE_DATE = ChannelRefusal(
    status=400, code="date-refused", title="The request's date is missing or not that of the service", problem="date"
)
REPLAYED = ChannelRefusal(status=409, code="request-replayed", title="The request was seen before")
BUSY = ChannelRefusal(status=503, code="too-busy", title="Too many requests to remember")
STALE_PROOF = ChannelRefusal(status=421, code="evidence-stale", title="The evidence is not current: request it again")
MISDIRECTED = ChannelRefusal(status=421, code="authority-unknown", title="The request is for another service")
FAILED = ChannelRefusal(status=502, code="service-failed", title="The service failed")
