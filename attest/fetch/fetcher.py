"""From typed requests to endorsements: the cache first, then the service, within the rules of each kind.

VCEKs and chains are kept for ever; revocation lists, OCSP answers, TCB infos and QE identities until their nextUpdate,
RIMs for some days. Two things overrule that. A list or answer that is out of date is still handed on beside the newer
one, so that nothing that was revoked is forgotten. And what no longer fits together is fetched again: AMD has replaced
an intermediate that it revoked (SEV-Genoa, 2022), and whoever kept the old one for ever would refuse good machines for
ever.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, Required, TypedDict, Unpack

from attest.endorsements.bundle import BundleEntry
from attest.endorsements.chains import require_issued
from attest.endorsements.pool import Endorsements
from attest.endorsements.requests import AmdChainRequest, AmdVcekRequest, EndorsementRequest
from attest.endorsements.signatures import SignatureAlgorithm
from attest.endorsements.x509 import Certificate, parse_certificate
from attest.errors import ChainError, EndorsementError, EvidenceError
from attest.evidence.snp.certificates import read_leaf
from attest.evidence.snp.evidence import ParsedSnpEvidence
from attest.evidence.snp.needs import needed_endorsements
from attest.evidence.snp.tcb import SnpProduct
from attest.fetch.answers import CheckedAnswer, describe, read_answer
from attest.fetch.cache import EndorsementCache
from attest.fetch.client import Progress

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


class EndorsementSource(Protocol):
    """A service that answers requests: ``KdsClient``, ``PcsClient``, ``RimServiceClient``, ``OcspClient``."""

    @property
    def service(self) -> str:
        """What tells this service from others, such as its address."""
        ...

    def url_of(self, request: EndorsementRequest) -> str:
        """Return the address that answers a request."""
        ...

    def get(self, request: EndorsementRequest, *, progress: Progress) -> bytes:
        """Return what the service answered, in the form that a bundle keeps, or raise ``EndorsementError``."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """What could be had, and why the rest could not.

    Attributes:
        endorsements: candidates for verification.
        entries: the same as received, for an offline bundle.
        failures: one for each request that got no answer, in the order of the requests.
    """

    endorsements: Endorsements
    entries: tuple[BundleEntry, ...]
    failures: tuple[EndorsementError, ...]

    def require(self) -> Endorsements:
        """Return the endorsements, all of them.

        Raises:
            EndorsementError: the first failure.
        """
        if self.failures:
            raise self.failures[0]
        return self.endorsements


class FetchOptions(TypedDict, total=False):
    """How endorsements are asked for, whatever they are: the keywords that all functions here take.

    Attributes:
        at: moment of appraisal, aware; what is cached and not current then is fetched again.
        cache: answers of earlier calls; None keeps nothing.
        offline: answer from the cache alone; by default not.
        progress: takes a line for people, now and then; by default nobody does.
    """

    at: Required[datetime]
    cache: Required[EndorsementCache | None]
    offline: bool
    progress: Progress


def _silent(_: str) -> None:
    """Say nothing."""


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


class FetchSession:
    """One call: what has been answered so far, and whether the service still answers."""

    def __init__(
        self,
        *,
        at: datetime,
        source: EndorsementSource,
        cache: EndorsementCache | None,
        offline: bool = False,
        progress: Progress = _silent,
    ) -> None:
        """Begin; arguments as in ``FetchOptions``.

        Raises:
            ValueError: ``at`` has no time zone.
        """
        if at.tzinfo is None:
            msg = "the moment of appraisal needs a time zone"
            raise ValueError(msg)
        self.failures: list[EndorsementError] = []
        self._at = at
        self._source = source
        self._cache = cache
        self._offline = offline
        self._progress = progress
        self._answers: dict[EndorsementRequest, CheckedAnswer] = {}
        self._earlier: list[CheckedAnswer] = []
        self._out_of_reach: EndorsementError | None = None

    def obtain(self, request: EndorsementRequest) -> None:
        """Answer a request from this call, the cache or the service; note the failure where none has it."""
        if request in self._answers:
            return
        cached = self.cached(request)
        if cached is not None:
            self._answers[request] = cached
            if self._offline or cached.is_current(self._at):
                return
        try:
            self.fetch(request)
        except EndorsementError as exc:
            self.failures.append(exc)

    def answered(self, request: EndorsementRequest) -> CheckedAnswer | None:
        """Return the answer that this call has."""
        return self._answers.get(request)

    def cached(self, request: EndorsementRequest) -> CheckedAnswer | None:
        """Return the answer that the cache has."""
        return self._cache.read(request, service=self._source.service) if self._cache else None

    def fetch(self, request: EndorsementRequest) -> None:
        """Ask the service and keep its answer.

        Raises:
            EndorsementError: as ``fetch_endorsements``.
        """
        if self._offline:
            raise _not_cached(request)
        if self._out_of_reach is not None:
            raise self._out_of_reach
        try:
            data = self._source.get(request, progress=self._progress)
        except EndorsementError as exc:
            self._out_of_reach = exc if exc.retryable else None
            raise
        answer = read_answer(request, data, source=self._source.url_of(request), received=self._at)
        earlier = self._answers.get(request)
        steps_back = _steps_back(answer, earlier, at=self._at)
        if earlier is not None and (answer.crls or answer.ocsp or steps_back):
            self._earlier.append(earlier)  # what it lists stays revoked, whatever the newer one says
        self._answers[request] = answer
        if self._cache and not steps_back:
            self._cache.write(answer, service=self._source.service)

    def again(self, request: EndorsementRequest) -> CheckedAnswer:
        """Ask the service, whatever the cache has, which is what the answer is compared with.

        Raises:
            EndorsementError: as ``fetch_endorsements``.
        """
        cached = self.cached(request)
        if cached is not None:
            self._answers[request] = cached
        self.fetch(request)
        return self._answers[request]

    def mend(self) -> None:
        """Fetch again what came from the cache and does not fit: a revoked intermediate, or a leaf of another one."""
        if self._offline:
            return
        for request, chain in list(self._answers.items()):
            if isinstance(request, AmdChainRequest) and chain.cached and self._is_revoked(chain):
                self.refetch(request)
        for request, leaf in list(self._answers.items()):
            if isinstance(request, AmdVcekRequest):
                self._mend_leaf(request, leaf)

    def _mend_leaf(self, request: AmdVcekRequest, leaf: CheckedAnswer) -> None:
        chain_request = AmdChainRequest(product=request.product, kind="vcek")
        chain = self._answers.get(chain_request)
        if chain is None or _issued(leaf, chain):
            return
        if chain.cached:
            self.refetch(chain_request)
        if leaf.cached and not _issued(leaf, self._answers[chain_request]):
            self.refetch(request)

    def refetch(self, request: EndorsementRequest) -> None:
        """Ask the service again for what came from the cache and no longer fits."""
        if self._offline:
            return
        self._progress(f"the {describe(request)} in the cache no longer fits")
        try:
            self.fetch(request)
        except EndorsementError as exc:
            self.failures.append(exc)

    def _is_revoked(self, chain: CheckedAnswer) -> bool:
        intermediate, ark = chain.certificates
        lists = [crl for answer in (*self._answers.values(), *self._earlier) for crl in answer.crls]
        return any(intermediate.serial in crl.revoked and crl.is_signed_by(ark.as_issuer()) for crl in lists)

    def gathered(self) -> Gathered:
        """Return what there is."""
        answers = (*self._answers.values(), *self._earlier)
        return Gathered(
            endorsements=Endorsements(
                certificates=tuple(c for answer in answers for c in answer.certificates),
                crls=tuple(crl for answer in answers for crl in answer.crls),
                documents=tuple(document for answer in answers for document in answer.documents),
                rims=tuple(rim for answer in answers for rim in answer.rims),
                ocsp=tuple(status for answer in answers for status in answer.ocsp),
            ),
            entries=tuple(answer.entry() for answer in answers),
            failures=tuple(self.failures),
        )


def merged(one: Gathered, other: Gathered) -> Gathered:
    """Return both together."""
    return Gathered(
        endorsements=one.endorsements.merged(other.endorsements),
        entries=(*one.entries, *other.entries),
        failures=(*one.failures, *other.failures),
    )


def _steps_back(answer: CheckedAnswer, earlier: CheckedAnswer | None, *, at: datetime) -> bool:
    """Say whether an answer holds an older list or document than one that was seen, which then stays in the cache.

    One that claims to be from the future is no measure: it would never be replaced.
    """
    if earlier is None or answer.issued is None or earlier.issued is None:
        return False
    return answer.issued < earlier.issued <= at


def _issued(leaf: CheckedAnswer, chain: CheckedAnswer) -> bool:
    """Say whether the chain's intermediate signed the leaf."""
    certificate: Certificate = leaf.certificates[0]
    try:
        require_issued(certificate, chain.certificates[0].as_issuer(), algorithm=SignatureAlgorithm.RSA_PSS_SHA384)
    except ChainError:
        return False
    return True


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


def _not_cached(request: EndorsementRequest) -> EndorsementError:
    return EndorsementError(
        f"the {describe(request)} is not in the cache, and nothing may be fetched",
        code="endorsement-not-cached",
        expected=describe(request),
        got="none",
        hint="give it with --endorsements PATH, or run 'attest endorsements fetch' where there is a network",
        retryable=True,
    )
