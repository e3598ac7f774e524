"""Opening the service of self-evidence of one application, as its settings say."""

from __future__ import annotations

from collections.abc import Callable

from attest import __version__
from attest.release import ServiceStatement
from kms.config.configuration import Configuration, read_configuration
from kms.config.settings import Settings
from kms.config.tls import ServerTls
from kms.release.services import Services
from kms.running.self_evidence.service import SelfEvidenceService
from kms.running.self_evidence.sources import EvidenceSource


def open_attestation(
    settings: Settings,
    services: Services,
    *,
    tls: ServerTls | None,
    evidence: EvidenceSource | None,
    meaning: Callable[[], Configuration] | None = None,
) -> SelfEvidenceService:
    """Make the service that proves this one.

    Args:
        settings: as the service was started with.
        services: opened from them.
        tls: what connections begin with; the certificate of the moment counts.
        evidence: where evidence comes from.
        meaning: returns what the settings mean as of now; None for what they mean at this moment.

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
