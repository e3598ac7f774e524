"""Answers with the service's evidence, within limits: reports are slow to make, and any client may ask."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime, timedelta
from typing import Final

from attest import __version__
from attest.clock import Clock
from attest.concurrency import ConcurrencyLimit
from attest.errors import CollectionError
from attest.release import ServiceAttestation, ServiceStatement, identity_binding, identity_note, sign_note
from kms.config.configuration import Configuration, read_configuration
from kms.config.settings import Settings
from kms.config.tls import ServerTls
from kms.domain.errors import AttestationOffError, UnavailableError
from kms.log.publisher import Identity
from kms.release.services import Services
from kms.running.self_evidence.sources import EvidenceSource

MAX_WAITING: Final = 8
"""Requests that wait for the device at the same time; more are refused as retryable."""
REPEAT_SECONDS: Final = 30
"""The same question is given the same answer for so long, without asking the device."""
MAX_REMEMBERED: Final = 64
_MINUTE: Final = timedelta(minutes=1)
_Question = tuple[bytes, str, bytes]
_log = logging.getLogger("kms")


@dataclass(slots=True, eq=False)
class SelfEvidenceService:
    """Maker of the service's own evidence, signed statement included; without a ``source`` it refuses every request.

    ``state`` returns the statement of the moment: the TLS certificate may be replaced meanwhile. This process makes at
    most ``per_minute`` reports in a minute.
    """

    source: EvidenceSource | None
    _: KW_ONLY
    identity: Identity
    state: Callable[[], ServiceStatement]
    clock: Clock
    per_minute: int
    _made: list[datetime] = field(default_factory=list, init=False)
    _waiting: ConcurrencyLimit = field(default_factory=lambda: ConcurrencyLimit(total=MAX_WAITING), init=False)
    _device: threading.Lock = field(default_factory=threading.Lock, init=False)
    _answers: OrderedDict[_Question, tuple[datetime, ServiceAttestation]] = field(
        default_factory=OrderedDict, init=False
    )

    def answer(self, *, nonce: bytes, audience: str) -> ServiceAttestation:
        """Answer a client's nonce of 32 bytes and its name, ``audience``, of 1 to 512 printable characters.

        Raises:
            AttestationOffError: ``attestation-off``.
            UnavailableError: ``attestation-busy``, or ``attestation-failed``: the device gave no evidence.
        """
        source = self.source
        if source is None:
            raise AttestationOffError(
                "this service gives no evidence of the machine that it runs on",
                code="attestation-off",
                hint="its operator turns it on with self_evidence, where it runs inside a TEE",
            )
        if not self._waiting.acquire():
            raise _busy("too many are waiting for the device")
        try:
            with self._device:
                return self._made_or_remembered(source, nonce, audience)
        finally:
            self._waiting.release()

    def _made_or_remembered(self, source: EvidenceSource, nonce: bytes, audience: str) -> ServiceAttestation:
        now, statement = self.clock(), self.state()
        question = (nonce, audience, statement.to_bytes())
        self._forget(now)
        remembered = self._answers.get(question)
        if remembered is not None:
            return remembered[1]
        if len(self._made) >= self.per_minute:
            raise _busy(f"{self.per_minute} reports were made in the last minute")
        self._made.append(now)
        made = self._make(source, statement, nonce, audience)
        self._answers[question] = (now, made)
        return made

    def _make(
        self, source: EvidenceSource, statement: ServiceStatement, nonce: bytes, audience: str
    ) -> ServiceAttestation:
        try:
            evidence = source(identity_binding(statement, nonce=nonce, audience=audience))
        except CollectionError as exc:
            # What is wrong with the machine concerns the operator.
            _log.error("own evidence: %s: %s", exc.code, exc.message)
            raise UnavailableError(
                "the machine gave no evidence", code="attestation-failed", hint="its operator's log says why"
            ) from exc
        text = identity_note(nonce=nonce, audience=audience, statement=statement.to_bytes(), evidence=evidence)
        note = sign_note(text, name=self.identity.public.name, key=self.identity.key)
        return ServiceAttestation(statement=statement.to_bytes(), evidence=evidence, note=note)

    def _forget(self, now: datetime) -> None:
        """Forget answers that are old, or from the future after a clock that went back."""
        self._made = [at for at in self._made if timedelta(0) <= now - at < _MINUTE]
        repeat = timedelta(seconds=REPEAT_SECONDS)
        for question in [q for q, (at, _) in self._answers.items() if not timedelta(0) <= now - at < repeat]:
            del self._answers[question]
        while len(self._answers) >= MAX_REMEMBERED:
            self._answers.popitem(last=False)


def open_attestation(
    settings: Settings,
    services: Services,
    *,
    tls: ServerTls | None,
    evidence: EvidenceSource | None,
    meaning: Callable[[], Configuration] | None = None,
) -> SelfEvidenceService:
    """Make the service that proves this one, with the TLS certificate of each moment.

    ``meaning`` returns the configuration of the moment; None fixes that of this call.

    Raises:
        ConfigurationError: ``file-unreadable``.
    """
    fixed = None if meaning is not None else read_configuration(settings, services.anchors)

    def state() -> ServiceStatement:
        configuration = fixed or meaning()  # type: ignore[misc]  # one of the two is there
        return ServiceStatement(
            verifier_key=services.identity.public.text,
            tls_spki_sha256=None if tls is None else tls.material.spki_sha256,
            configuration_sha256=configuration.digest,
            anchors_sha256=configuration.anchors_digest,
            allow_simulated=settings.allow_simulated,
            profile=settings.profile,
            version=__version__,
        )

    return SelfEvidenceService(
        evidence,
        identity=services.identity,
        state=state,
        clock=services.clock,
        per_minute=settings.self_evidence_per_minute,
    )


def _busy(why: str) -> UnavailableError:
    return UnavailableError(f"the service cannot prove itself just now: {why}", code="attestation-busy", retryable=True)
