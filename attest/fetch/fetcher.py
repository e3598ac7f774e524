"""From typed requests to endorsements: the cache first, then the service, within the rules of each kind.

VCEKs and chains are kept for ever; revocation lists, OCSP answers, TCB infos and QE identities until their nextUpdate,
RIMs for some days. Two things overrule that. A list or answer that is out of date is still handed on beside the newer
one, so that nothing that was revoked is forgotten. And what no longer fits together is fetched again: AMD has replaced
an intermediate that it revoked (SEV-Genoa, 2022), and whoever kept the old one for ever would refuse good machines for
ever.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Unpack

from attest.endorsements.pool import Endorsements
from attest.endorsements.requests import EndorsementRequest
from attest.endorsements.x509 import parse_certificate
from attest.errors import ChainError, EndorsementError, EvidenceError
from attest.evidence.snp.certificates import read_leaf
from attest.evidence.snp.evidence import ParsedSnpEvidence
from attest.evidence.snp.needs import needed_endorsements
from attest.evidence.snp.tcb import SnpProduct
from attest.fetch.answers import CheckedAnswer
from attest.fetch.cache import EndorsementCache
from attest.fetch.fetch_session import EndorsementSource, FetchOptions, FetchSession, Gathered

__all__ = [
    "EndorsementSource",
    "FetchOptions",
    "FetchSession",
    "Gathered",
    "fetch_endorsements",
    "fetch_for",
    "gather_endorsements",
    "gather_for",
    "merged",
    "refresh_endorsement",
]

_LINES_OF_VERSION_2 = (SnpProduct.MILAN, SnpProduct.GENOA)
"""Reports of version 2 do not name their product line; Turin's firmware never wrote one."""


def gather_endorsements(
    requests: Iterable[EndorsementRequest],
    *,
    source: EndorsementSource,
    **asking: Unpack[FetchOptions],
) -> Gathered:
    """Answer as many requests as can be answered.

    After the service was found out of reach or throttling, nothing more is asked of it in this call.

    Args:
        requests: what is needed.
        source: the service to ask.
        asking: see ``FetchOptions``.

    Raises:
        ConfigurationError: ``endorsement-cache-unusable`` or ``network-settings-invalid``.
        ValueError: ``at`` has no time zone, or a request names no product line.
    """
    session = FetchSession(source=source, **asking)
    for request in requests:
        session.obtain(request)
    session.mend()
    return session.gathered()


def fetch_endorsements(
    requests: Iterable[EndorsementRequest],
    *,
    source: EndorsementSource,
    **asking: Unpack[FetchOptions],
) -> Endorsements:
    """Answer all requests or raise; arguments as for ``gather_endorsements``.

    Raises:
        EndorsementError: ``…-not-found``, ``…-throttled``, ``…-unreachable`` or ``…-answer-invalid`` with ``kds``,
            ``pcs``, ``rim`` or ``ocsp`` before it, or ``endorsement-not-cached`` when offline.
        ConfigurationError: ``endorsement-cache-unusable`` or ``network-settings-invalid``.
        ValueError: ``at`` has no time zone, or a request names no product line.
    """
    return gather_endorsements(requests, source=source, **asking).require()


def refresh_endorsement(
    request: EndorsementRequest, *, source: EndorsementSource, cache: EndorsementCache, at: datetime
) -> CheckedAnswer:
    """Ask the service once more for what the cache has, current or not; a newer answer takes the place there.

    Args:
        request: what is wanted.
        source: the service to ask.
        cache: has the earlier answer, which stays when the service answers with an older one.
        at: the present moment, aware.

    Returns:
        What the service answered.

    Raises:
        EndorsementError: as ``fetch_endorsements``.
        ConfigurationError: ``endorsement-cache-unusable`` or ``network-settings-invalid``.
        ValueError: ``at`` has no time zone.
    """
    session = FetchSession(source=source, at=at, cache=cache)
    return session.again(request)


def gather_for(
    evidence: ParsedSnpEvidence,
    *,
    source: EndorsementSource,
    product: SnpProduct | None = None,
    **asking: Unpack[FetchOptions],
) -> Gathered:
    """Gather what a report needs and does not carry.

    Args:
        evidence: the report with what came along.
        source: the service to ask.
        product: the product line of a report of version 2. Without it the report's own VCEK or VLEK tells, and
            where there is none, the service is asked for this chip under Milan and then under Genoa.
        asking: see ``FetchOptions``.

    Raises:
        ConfigurationError: ``endorsement-cache-unusable`` or ``network-settings-invalid``.
        ValueError: ``at`` has no time zone.
    """
    session = FetchSession(source=source, **asking)
    try:
        line = evidence.report.product or product or _line_of_leaves(evidence)
        if line is None and not evidence.leaves:  # of a leaf that cannot be read, verification will speak
            line = _line_by_asking(evidence, session)
        for request in needed_endorsements(evidence, product=line):
            session.obtain(request)
    except EndorsementError as exc:  # nobody can be asked for what this report needs
        session.failures.append(exc)
    except EvidenceError as exc:
        session.failures.append(_not_of_this_line(exc))
    session.mend()
    return session.gathered()


def fetch_for(
    evidence: ParsedSnpEvidence,
    *,
    source: EndorsementSource,
    product: SnpProduct | None = None,
    **asking: Unpack[FetchOptions],
) -> Endorsements:
    """Fetch what a report needs and does not carry, or raise; arguments as for ``gather_for``.

    Raises:
        EndorsementError: as ``fetch_endorsements``; ``snp-vlek-not-fetchable`` or ``snp-chip-id-masked``;
            ``snp-vcek-not-fetchable``, REPORTED_TCB has not the layout of the product line; or
            ``snp-product-needed``, the report does not name its line and its leaf cannot be read.
        ConfigurationError: ``endorsement-cache-unusable`` or ``network-settings-invalid``.
        ValueError: ``at`` has no time zone.
    """
    return gather_for(evidence, source=source, product=product, **asking).require()


def merged(one: Gathered, other: Gathered) -> Gathered:
    """Return both together."""
    return Gathered(
        endorsements=one.endorsements.merged(other.endorsements),
        entries=(*one.entries, *other.entries),
        failures=(*one.failures, *other.failures),
    )


def _line_of_leaves(evidence: ParsedSnpEvidence) -> SnpProduct | None:
    """Return the product line that the first readable leaf beside the report names."""
    for der in evidence.leaves:
        try:
            return read_leaf(parse_certificate(der)).product
        except (EvidenceError, ChainError):
            continue  # verification will say what is wrong with it
    return None


def _line_by_asking(evidence: ParsedSnpEvidence, session: FetchSession) -> SnpProduct:
    """Find the product line of which the service knows this chip; what the cache knows needs no question.

    Raises:
        EndorsementError: as ``fetch_endorsements``; ``kds-not-found`` when no line has it.
    """
    leaf_of = {line: needed_endorsements(evidence, product=line)[0] for line in _LINES_OF_VERSION_2}
    for line, request in leaf_of.items():
        if session.cached(request) is not None:
            return line
    refusal: EndorsementError | None = None
    for line, request in leaf_of.items():
        try:
            session.fetch(request)
        except EndorsementError as exc:
            if exc.code not in {"kds-not-found", "endorsement-not-cached"}:
                raise
            refusal = exc
        else:
            return line
    raise _no_line(refusal)


def _no_line(refusal: EndorsementError | None) -> EndorsementError:
    tried = " nor ".join(_LINES_OF_VERSION_2)
    offline = refusal is not None and refusal.code == "endorsement-not-cached"
    return EndorsementError(
        f"a report of version 2 does not name its product line, and its chip was found under neither {tried}",
        code="endorsement-not-cached" if offline else "kds-not-found",
        expected=f"a VCEK of this chip under {' or '.join(_LINES_OF_VERSION_2)}",
        got="none",
        hint="run it once without --offline" if offline else "give the VCEK with --endorsements PATH",
    )


def _not_of_this_line(exc: EvidenceError) -> EndorsementError:
    return EndorsementError(
        f"the VCEK cannot be asked for: {exc.message}",
        code="snp-vcek-not-fetchable",
        field=exc.field,
        expected=exc.expected,
        got=exc.got,
        hint="--product may name another line than that of the chip",
    )
