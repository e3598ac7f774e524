"""A simulated machine that loaded a sealed model with a released key, and answers with receipts."""

from __future__ import annotations

import atexit
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec

from attest.channel.records import channel_binding
from attest.endorsements.anchors import TrustAnchors
from attest.receipts import (
    BodyDigest,
    ExchangeRecorder,
    ModelRecord,
    OpenedModel,
    ReceiptChain,
    ReceiptExpectation,
    ReceiptFile,
    ReceiptSigner,
    VerifiedReceipt,
    receipt_binding,
    record_of,
    verify_receipt,
)
from attest.release import KeyReference
from attest.release.released_key import ReleasedKey
from attest.sealed import SealedDirectory, SealingNames, open_directory
from attest_simulator import SimulatedGuest
from tests.channel.support import POLICY, WORLD
from tests.channel.support import Service as ChannelService
from tests.release.test_client import MATERIAL, SERVICE, Service, obtain
from tests.samples import AT, NONCE, bound_evidence
from tests.sealed.made import OWNER, Place

ISSUER = "llm.example/prod"
REQUEST = b'{"model":"tiny","messages":[{"role":"user","content":"why?"}],"temperature":0.7,"seed":42,"stream":true}'
EVENTS = (b'data: {"delta":"be"}\n\n', b'data: {"delta":"cause"}\n\n', b"data: [DONE]\n\n")
RESPONSE = b"".join(EVENTS)
CHALLENGE = bytes(range(16))
NAMES = SealingNames(key=KeyReference.parse("model@1"), service=SERVICE, policy_digest=bytes(32))
ADAPTER_FILES = {"adapter.safetensors": b"lora " * 100}


def stream(seed: object) -> Callable[[int], bytes]:
    """Random bytes that are the same on each run."""
    return random.Random(str(seed)).randbytes


@cache
def sealed_model(
    seed: str = "model", *, adapter: bool = False, service: bool = True, owner: ec.EllipticCurvePrivateKey = OWNER
) -> Path:
    """Return a sealed model; the owner signed it."""
    kept = TemporaryDirectory(prefix="attest-receipt-")
    atexit.register(kept.cleanup)  # the models of one process serve all of its tests
    folder = Path(kept.name)
    place = Place(folder, dict(ADAPTER_FILES)) if adapter else Place(folder)
    place.seal(key=MATERIAL, names=NAMES if service else replace(NAMES, service=None), signer=owner, seed=seed)
    return place.sealed


@cache
def released(**facts: Any) -> ReleasedKey:  # noqa: ANN401  facts of a release receipt
    """Return the key as the service in memory releases it."""
    service = Service()
    service.change_facts = lambda usual: usual | facts
    return obtain(service, "model")[0]


def opened(path: Path, *, owner: ec.EllipticCurvePrivateKey = OWNER, whole: bool = True) -> SealedDirectory:
    """Open a model and decrypt all of it, or the first file alone."""
    directory = open_directory(path, key=MATERIAL, trusted=(owner.public_key(),), threads=1)
    for name in list(directory.entries)[: None if whole else 1]:
        directory.read(name)
    return directory


@dataclass(kw_only=True)
class Machine:
    """A machine with one model; what is wrong with it is a field."""

    models: tuple[OpenedModel, ...] = ()
    guest: SimulatedGuest = field(default_factory=lambda: WORLD.guest)
    seed: str = "machine"
    at: datetime = AT
    issuer: str = ISSUER
    nonce: bytes = NONCE
    channel: bool = False
    binding: dict[str, Any] = field(default_factory=dict)
    quantisation: str | None = None

    def __post_init__(self) -> None:
        if not self.models:
            self.models = (OpenedModel(directory=opened(sealed_model()), release=released()),)
        self.record: ModelRecord = record_of(*self.models, loader="attest test", quantisation=self.quantisation)
        self.random = stream(self.seed)
        self.signer = ReceiptSigner.born((self.record,), random=self.random, process=os.getpid, at=self.at)
        self.now = self.at

    def recorder(self, **options: Any) -> ExchangeRecorder:  # noqa: ANN401  the recorder's own
        usual: dict[str, Any] = {"issuer": self.issuer, "model": self.record, "random": self.random}
        return ExchangeRecorder(self.signer, clock=lambda: self.now, **usual | options)

    def evidence(self, digest: bytes | None = None) -> bytes:
        """Return evidence that commits to the statement, or to another one."""
        digest = digest or self.signer.digest
        if self.channel:
            keys = ChannelService().key.document
            made = channel_binding(keys, audience=self.issuer, nonce=self.nonce, init_data=digest)
        else:
            made = receipt_binding(digest, audience=self.issuer, nonce=self.nonce)
        return bound_evidence(self.guest, replace(made, **self.binding)).to_cbor()

    @property
    def chain(self) -> ReceiptChain:
        return ReceiptChain(
            statement=self.signer.statement.to_bytes(),
            evidence=self.evidence(),
            models=tuple(one.parts for one in self.models),
        )

    def receipt(
        self,
        request: bytes = REQUEST,
        events: tuple[bytes, ...] = EVENTS,
        *,
        complete: bool = True,
        challenge: bytes | None = None,
        recorder: ExchangeRecorder | None = None,
    ) -> bytes:
        """Return the receipt of an exchange."""
        exchange = (recorder or self.recorder()).begin(
            method="POST", target="/v1/chat/completions", media_type="application/json", challenge=challenge
        )
        exchange.receive(request)
        exchange.sampled((("temperature", 0.7), ("seed", 42)))
        exchange.respond(200, "text/event-stream")
        for event in events:
            exchange.send(event)
        return exchange.end(complete=complete)

    def file(self, **exchange: Any) -> ReceiptFile:  # noqa: ANN401  arguments of `receipt`
        return self.chain.file(self.receipt(**exchange))


def expectation(**changes: Any) -> ReceiptExpectation:  # noqa: ANN401  its own fields
    usual = ReceiptExpectation(
        policy=POLICY,
        anchors=TrustAnchors.simulation(),
        endorsements=WORLD.endorsements,
        owners=(OWNER.public_key(),),
    )
    return replace(usual, **changes)


def checked(
    file: ReceiptFile,
    *,
    request: bytes | None = REQUEST,
    response: bytes | None = RESPONSE,
    at: datetime = AT,
    **changes: Any,  # noqa: ANN401  fields of the expectation
) -> VerifiedReceipt:
    """Verify a receipt with both bodies."""
    return verify_receipt(
        file,
        expect=expectation(**changes),
        at=at,
        request=None if request is None else BodyDigest.of(request),
        response=None if response is None else BodyDigest.of(response),
    )
