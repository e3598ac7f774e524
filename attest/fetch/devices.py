"""From evidence to endorsements: every device asks the service of its own vendor."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from attest.endorsements.pool import NO_ENDORSEMENTS
from attest.errors import EndorsementError
from attest.evidence.envelope import MEDIA_INTEL_QUOTE, Evidence
from attest.evidence.intel.needs import needed_endorsements
from attest.evidence.intel.quote import ParsedQuote, parse_quote
from attest.evidence.snp.evidence import SNP_PARSERS
from attest.evidence.snp.tcb import SnpProduct
from attest.fetch.cache import EndorsementCache
from attest.fetch.client import Progress
from attest.fetch.fetcher import EndorsementSource, Gathered, gather_endorsements, gather_for

__all__ = ["VendorServices", "can_be_fetched", "gather_for_evidence", "gather_for_quote"]

_NOTHING = Gathered(endorsements=NO_ENDORSEMENTS, entries=(), failures=())


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorServices:
    """Whom to ask.

    Attributes:
        amd: a key distribution service, such as ``KdsClient``.
        intel: a provisioning certification service, such as ``PcsClient``.
    """

    amd: EndorsementSource
    intel: EndorsementSource


def _silent(_: str) -> None:
    """Say nothing."""


def can_be_fetched(evidence: Evidence) -> bool:
    """Say whether there is a device in the evidence whose vendor has a service that can be asked."""
    return any(item.essence in SNP_PARSERS or item.essence == MEDIA_INTEL_QUOTE for item in evidence.items)


def gather_for_evidence(
    evidence: Evidence,
    *,
    at: datetime,
    services: VendorServices,
    cache: EndorsementCache | None,
    product: SnpProduct | None = None,
    offline: bool = False,
    progress: Progress = _silent,
) -> Gathered:
    """Gather what the devices of evidence need and the evidence does not carry.

    Args:
        evidence: its items of other kinds are passed over.
        at: moment of appraisal, aware; what is cached and not current then is fetched again.
        services: whom to ask.
        cache: answers of earlier calls; None keeps nothing.
        product: the product line of a SEV-SNP report of version 2.
        offline: answer from the cache alone.
        progress: takes a line for people, now and then.

    Raises:
        EvidenceError: an item is malformed.
        ChainError: as ``gather_for_quote``.
        ConfigurationError: ``endorsement-cache-unusable`` or ``network-settings-invalid``.
        ValueError: ``at`` has no time zone.
    """
    gathered = _NOTHING
    for item in evidence.items:
        if (parse := SNP_PARSERS.get(item.essence)) is not None:
            report = parse(item.value)
            found = gather_for(
                report,
                at=at,
                source=services.amd,
                cache=cache,
                product=product,
                offline=offline,
                progress=progress,
            )
        elif item.essence == MEDIA_INTEL_QUOTE:
            quote = parse_quote(item.value)
            found = gather_for_quote(
                quote, at=at, source=services.intel, cache=cache, offline=offline, progress=progress
            )
        else:
            continue
        gathered = _merged(gathered, found)
    return gathered


def gather_for_quote(
    quote: ParsedQuote,
    *,
    at: datetime,
    source: EndorsementSource,
    cache: EndorsementCache | None,
    offline: bool = False,
    progress: Progress = _silent,
) -> Gathered:
    """Gather what a TDX or SGX quote needs; arguments as for ``gather_for_evidence``.

    Raises:
        EvidenceError: ``certificate-malformed``, ``base64-invalid`` or ``pck-malformed``.
        ChainError: ``pck-name-unexpected``.
        ConfigurationError: ``endorsement-cache-unusable`` or ``network-settings-invalid``.
        ValueError: ``at`` has no time zone.
    """
    try:
        requests = needed_endorsements(quote)
    except EndorsementError as exc:  # nobody can be asked for what this quote needs
        return Gathered(endorsements=NO_ENDORSEMENTS, entries=(), failures=(exc,))
    return gather_endorsements(requests, at=at, source=source, cache=cache, offline=offline, progress=progress)


def _merged(one: Gathered, other: Gathered) -> Gathered:
    return Gathered(
        endorsements=one.endorsements.merged(other.endorsements),
        entries=(*one.entries, *other.entries),
        failures=(*one.failures, *other.failures),
    )
