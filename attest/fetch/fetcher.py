"""Endorsements for typed requests: from the cache, then from the service, with rules for each kind.

VCEKs and chains are cached indefinitely; revocation lists, OCSP answers, TCB infos and QE identities until their
nextUpdate, RIMs for some days. There are two exceptions. An outdated list or answer is returned beside the newer
one, so that no revocation is lost. And inconsistent answers are fetched again: AMD has replaced
a revoked intermediate (SEV-Genoa, 2022), and with the old one cached forever, valid machines would be refused
forever.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Unpack

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

_LINES_OF_VERSION_2 = (SnpProduct.MILAN, SnpProduct.GENOA)
"""Reports of version 2 do not name their product line; Turin's firmware never used that version."""


def gather_endorsements(
    requests: Iterable[EndorsementRequest],
    *,
    source: EndorsementSource,
    **asking: Unpack[FetchOptions],
) -> Gathered:
    """Answer as many requests as possible; options as in ``FetchOptions``.

    After a service was unreachable or throttled a request, it gets no more in this call.

    Raises:
        ConfigurationError: ``endorsement-cache-unusable`` or ``network-settings-invalid``.
        ValueError: ``at`` has no time zone, or a request names no product line.
    """
    session = FetchSession(source=source, **asking)
    for request in requests:
        session.obtain(request)
    session.mend()
    return session.gathered()


def refresh_endorsement(
    request: EndorsementRequest, *, source: EndorsementSource, cache: EndorsementCache, at: datetime
) -> CheckedAnswer:
    """Fetch a cached answer again, current or not, and return it; the earlier one stays if the new one is older.

    Raises:
        EndorsementError: as ``FetchSession.fetch``.
        ConfigurationError: ``endorsement-cache-unusable`` or ``network-settings-invalid``.
        ValueError: ``at`` has no time zone.
    """
    return FetchSession(source=source, at=at, cache=cache).again(request)


def gather_for(
    evidence: ParsedSnpEvidence,
    *,
    source: EndorsementSource,
    product: SnpProduct | None = None,
    **asking: Unpack[FetchOptions],
) -> Gathered:
    """Gather the endorsements that a report needs and does not contain.

    ``product`` is the product line of a report of version 2. By default it comes from the report's own VCEK or VLEK,
    and without one from requests for this chip under Milan and then under Genoa.

    Raises:
        ConfigurationError: ``endorsement-cache-unusable`` or ``network-settings-invalid``.
        ValueError: ``at`` has no time zone.
    """
    session = FetchSession(source=source, **asking)
    try:
        line = evidence.report.product or product or _line_of_leaves(evidence)
        if line is None and not evidence.leaves:  # verification reports an unreadable leaf
            line = _line_by_asking(evidence, session)
        for request in needed_endorsements(evidence, product=line):
            session.obtain(request)
    except EndorsementError as exc:  # no service has the needs of this report
        session.failures.append(exc)
    except EvidenceError as exc:
        session.failures.append(_not_of_this_line(exc))
    session.mend()
    return session.gathered()


def merged(one: Gathered, other: Gathered) -> Gathered:
    """Return the union of both."""
    return Gathered(
        endorsements=one.endorsements.merged(other.endorsements),
        entries=(*one.entries, *other.entries),
        failures=(*one.failures, *other.failures),
    )


def _line_of_leaves(evidence: ParsedSnpEvidence) -> SnpProduct | None:
    """Return the product line of the first readable leaf with the report."""
    for der in evidence.leaves:
        try:
            return read_leaf(parse_certificate(der)).product
        except (EvidenceError, ChainError):
            continue  # verification reports its defect
    return None


def _line_by_asking(evidence: ParsedSnpEvidence, session: FetchSession) -> SnpProduct:
    """Find the product line under which the service has this chip; a cached answer needs no request."""
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
    tried = " or ".join(_LINES_OF_VERSION_2)
    offline = refusal is not None and refusal.code == "endorsement-not-cached"
    return EndorsementError(
        f"a report of version 2 does not name its product line, and its chip was not found under {tried}",
        code="endorsement-not-cached" if offline else "kds-not-found",
        expected=f"a VCEK of this chip under {' or '.join(_LINES_OF_VERSION_2)}",
        got="none",
        hint="run it once without --offline" if offline else "give the VCEK with --endorsements PATH",
    )


def _not_of_this_line(exc: EvidenceError) -> EndorsementError:
    return EndorsementError(
        f"the VCEK cannot be requested: {exc.message}",
        code="snp-vcek-not-fetchable",
        field=exc.field,
        expected=exc.expected,
        got=exc.got,
        hint="--product may name another line than that of the chip",
    )
