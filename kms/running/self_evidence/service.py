"""The service's own evidence, within limits, because reports are slow and any client may request them."""

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
"""Maximum requests that wait for the device; further ones are refused as retryable."""
REPEAT_SECONDS: Final = 30
"""Time for which the response to the same request is cached."""
MAX_REMEMBERED: Final = 64
_MINUTE: Final = timedelta(minutes=1)
_Question = tuple[bytes, str, bytes]
_log = logging.getLogger("kms")


@dataclass(slots=True, eq=False)
class SelfEvidenceService:
    """Source of the service's own evidence with its signed statement; without a ``source`` it refuses every request.

    ``state`` returns the present statement, because the TLS certificate can be replaced. This process makes at most
    ``per_minute`` reports per minute.
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
        """Return evidence for a client's nonce of 32 bytes and its ``audience`` of 1 to 512 printable characters.

        Raises:
            AttestationOffError: ``attestation-off``.
            UnavailableError: ``attestation-busy``, or ``attestation-failed``: the device returned no evidence.
        """
        source = self.source
        if source is None:
            raise AttestationOffError(
                "this service does not provide evidence of its own machine",
                code="attestation-off",
                hint="its operator can turn this on with self_evidence, if it runs inside a TEE",
            )
        if not self._waiting.acquire():
            raise _busy("too many requests are waiting for the device")
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
            # The details of the failure are only for the operator.
            _log.error("own evidence: %s: %s", exc.code, exc.message)
            raise UnavailableError(
                "the machine returned no evidence", code="attestation-failed", hint="the operator's log has the reason"
            ) from exc
        text = identity_note(nonce=nonce, audience=audience, statement=statement.to_bytes(), evidence=evidence)
        note = sign_note(text, name=self.identity.public.name, key=self.identity.key)
        return ServiceAttestation(statement=statement.to_bytes(), evidence=evidence, note=note)

    def _forget(self, now: datetime) -> None:
        """Forget cached responses that are old, or from the future after the clock was set back."""
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
    """Create the source of own evidence, with the present TLS certificate at each request.

    ``meaning`` returns the present configuration; None fixes that of this call.

    Raises:
        ConfigurationError: ``file-unreadable``.
    """
    fixed = None if meaning is not None else read_configuration(settings, services.anchors)

    def state() -> ServiceStatement:
        configuration = fixed or meaning()  # type: ignore[misc]  # one of the two is set
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
    return UnavailableError(
        f"the service cannot provide evidence at present: {why}", code="attestation-busy", retryable=True
    )
