"""Made quotes, judged under the made root."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import pytest

from attest.endorsements.anchors import Anchor, TrustAnchors
from attest.endorsements.pool import NO_ENDORSEMENTS, Endorsements
from attest.endorsements.x509 import parse_certificate
from attest.errors import (
    AttestError,
)
from attest.evidence.intel.authenticity import AuthenticQuote
from attest.evidence.intel.quote import parse_quote
from attest.evidence.intel.verify import authenticate_quote, procedure_of
from tests.evidence.intel.made_quotes import AT, HELD, MadeQuote, pem


def pool(*certificates: bytes) -> Endorsements:
    return Endorsements(certificates=tuple(map(parse_certificate, certificates)))


def authentic(
    quote: MadeQuote | bytes | None = None,
    *,
    endorsements: Endorsements = NO_ENDORSEMENTS,
    anchors: Iterable[Anchor] = (HELD,),
    at: datetime = AT,
) -> AuthenticQuote:
    data = quote if isinstance(quote, bytes) else (quote or MadeQuote()).to_bytes()
    held = TrustAnchors(anchors=tuple(anchors))
    parsed = parse_quote(data)
    return authenticate_quote(procedure_of(parsed.tee), parsed, endorsements=endorsements, anchors=held, at=at)


def refused(quote: MadeQuote | bytes | None = None, **given: Any) -> AttestError:  # noqa: ANN401  as authentic takes
    with pytest.raises(AttestError) as caught:
        authentic(quote, **given)
    return caught.value


def chained(*certificates: bytes) -> MadeQuote:
    return MadeQuote(certification_data=pem(*certificates))
