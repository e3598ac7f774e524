"""What the tests of the channel share: published vectors, a service on a simulated machine, clients that trust it."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from attest.channel import (
    AnswerOpener,
    ChannelExpectation,
    ChannelKey,
    ChannelRecord,
    ChannelRefusal,
    Gateway,
    KeyDocument,
    KeyOffer,
    MemoryReplayWindow,
    MessageForm,
    Request,
    RequestSealer,
    Response,
    ServedExchange,
    ServiceKeys,
    channel_binding,
    verify_offer,
)
from attest.channel.records import evidence_proof
from attest.endorsements.anchors import TrustAnchors
from attest.policy import load_policy
from tests.samples import AT, NONCE, bound_evidence, scene

VECTORS = Path(__file__).parent / "vectors.txt"
AUDIENCE = "rag.example/prod"
AUTHORITY = "rag.example"
SECOND = timedelta(seconds=1)
WORLD = scene()
POLICY = load_policy(
    f"""
schema: attest.policy/1
name: channel
version: 1
simulated: {{unchecked: "a test on the simulator"}}
reference_values:
  good:
    values: ["{WORLD.guest.measurement.hex()}"]
    origin: the simulator
snp:
  products: [Genoa]
  measurement: [good]
  minimum_tcb:
    Genoa: {{bootloader: 9, tee: 0, snp: 26, microcode: 80}}
""".encode()
)
ASK = Request(
    method="POST",
    authority=AUTHORITY,
    path="/v1/ask?k=5",
    fields=((b"content-type", b"text/plain"),),
    content=b"what is in the contract?",
)
SAID = Response(status=200, fields=((b"content-type", b"text/plain"),), content=b"a secret")


@cache
def vectors(name: str) -> dict[str, bytes]:
    """Return the vectors under a heading."""
    section = VECTORS.read_text().split(f"\n[{name}]\n")[1].split("\n[")[0]
    pairs = (line.split(": ") for line in section.splitlines() if line)
    return {key: bytes.fromhex(value) for key, value in pairs}


def expectation(**changes: Any) -> ChannelExpectation:  # noqa: ANN401  its own fields
    base = ChannelExpectation(
        audience=AUDIENCE, policy=POLICY, anchors=TrustAnchors.simulation(), endorsements=WORLD.endorsements
    )
    return replace(base, **changes)


def offer_of(document: KeyDocument, nonce: bytes, **changes: Any) -> KeyOffer:  # noqa: ANN401  fields of a binding
    """What a service on the simulated machine answers."""
    binding = replace(channel_binding(document, audience=AUDIENCE, nonce=nonce), **changes)
    return KeyOffer(evidence=bound_evidence(WORLD.guest, binding), keys=document.to_bytes())


@dataclass
class Service:
    """A gateway with a key that was born at ``AT``, and what its clients believe."""

    key: ChannelKey = field(default_factory=lambda: ChannelKey.born(random=os.urandom, at=AT))
    window: MemoryReplayWindow = field(default_factory=MemoryReplayWindow)
    options: dict[str, Any] = field(default_factory=dict)  # Any: arguments of the gateway

    def __post_init__(self) -> None:
        usual: dict[str, Any] = {"replays": self.window, "authorities": {AUTHORITY}, "random": os.urandom}
        self.gateway = Gateway(ServiceKeys(self.key), **usual | self.options)

    def record(self, *, key: ChannelKey | None = None, nonce: bytes = NONCE, at: datetime = AT) -> ChannelRecord:
        """Attest, verify and appraise, as a client does."""
        key = key or self.key
        offer = KeyOffer.from_json(offer_of(key.document, nonce).to_json())
        key.proofs.add(evidence_proof(offer.evidence))
        return verify_offer(offer, expect=expectation(), nonce=nonce, at=at)

    def receive(
        self, body: bytes, *, form: MessageForm = MessageForm.CHUNKED, at: datetime = AT, step: int = 0
    ) -> tuple[ServedExchange, Request | ChannelRefusal]:
        """Take a request in one piece, or in steps."""
        exchange = self.gateway.exchange("POST", form.request_type)
        assert isinstance(exchange, ServedExchange)
        for one in [body[i : i + step] for i in range(0, len(body), step)] if step else [body]:
            exchange.feed(one, at=at)
        return exchange, exchange.finish(at=at)


def sealed(
    record: ChannelRecord,
    request: Request = ASK,
    *,
    at: datetime = AT,
    **options: Any,  # noqa: ANN401  of the sealer
) -> tuple[bytes, RequestSealer]:
    """Seal a request in one piece."""
    sealer = RequestSealer(record, request, at=at, **options)
    return sealer.begin() + sealer.end(), sealer


def opened(opener: AnswerOpener, body: bytes | Iterable[bytes]) -> Response:
    """Open an answer to its end."""
    events = [event for one in ([body] if isinstance(body, bytes) else body) for event in opener.feed(one)]
    events += opener.finish()
    head = events[0]
    assert isinstance(head, Response)
    content = b"".join(event for event in events if isinstance(event, bytes))
    return Response(status=head.status, fields=head.fields, content=content, trailers=opener.trailers)


def opener_of(sealer: RequestSealer, form: MessageForm = MessageForm.CHUNKED) -> AnswerOpener:
    return sealer.answer(200, form.answer_type)
