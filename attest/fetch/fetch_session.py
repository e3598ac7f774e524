"""State of one call for endorsements: its answers, from the cache or the service, and its failures."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, Required, TypedDict

from attest.endorsements.bundle_records import BundleEntry
from attest.endorsements.chains import require_issued
from attest.endorsements.pool import Endorsements
from attest.endorsements.requests import AmdChainRequest, AmdVcekRequest, EndorsementRequest
from attest.endorsements.signatures import SignatureAlgorithm
from attest.endorsements.x509 import Certificate
from attest.errors import ChainError, EndorsementError
from attest.fetch.answers import CheckedAnswer, describe, read_answer
from attest.fetch.cache import EndorsementCache
from attest.fetch.client import Progress


class EndorsementSource(Protocol):
    """A service that answers requests: ``KdsClient``, ``PcsClient``, ``RimServiceClient``, ``OcspClient``."""

    @property
    def service(self) -> str:
        """Identity of the service among others, such as its URL."""
        ...

    def url_of(self, request: EndorsementRequest) -> str:
        """Return the URL for a request."""
        ...

    def get(self, request: EndorsementRequest, *, progress: Progress) -> bytes:
        """Return the service's answer in the form of bundles, or raise ``EndorsementError``."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """Obtained endorsements, and the failures.

    Attributes:
        endorsements: candidates for verification.
        entries: the same as received, for an offline bundle.
        failures: one for each unanswered request, in order.
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
    """Options of all functions for endorsements.

    Attributes:
        at: moment of appraisal, aware; cached answers that are not current then are fetched again.
        cache: of earlier answers; None disables it.
        offline: use the cache alone; by default False.
        progress: called with lines for people; by default ignored.
    """

    at: Required[datetime]
    cache: Required[EndorsementCache | None]
    offline: bool
    progress: Progress


def _silent(_: str) -> None:
    """Ignore a line."""


@dataclass(slots=True, kw_only=True, eq=False)
class FetchSession:
    """State of one call: its answers, and the availability of the service; arguments as in ``FetchOptions``.

    Raises:
        ValueError: ``at`` has no time zone.
    """

    at: datetime
    source: EndorsementSource
    cache: EndorsementCache | None
    offline: bool = False
    progress: Progress = _silent
    failures: list[EndorsementError] = field(default_factory=list, init=False)
    _answers: dict[EndorsementRequest, CheckedAnswer] = field(default_factory=dict, init=False)
    _earlier: list[CheckedAnswer] = field(default_factory=list, init=False)
    _out_of_reach: EndorsementError | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self.at.tzinfo is None:
            raise ValueError("the moment of appraisal needs a time zone")

    def obtain(self, request: EndorsementRequest) -> None:
        """Answer a request from this call, the cache or the service; record a failure."""
        if request in self._answers:
            return
        cached = self.cached(request)
        if cached is not None:
            self._answers[request] = cached
            if self.offline or cached.is_current(self.at):
                return
        try:
            self.fetch(request)
        except EndorsementError as exc:
            self.failures.append(exc)

    def answered(self, request: EndorsementRequest) -> CheckedAnswer | None:
        """Return this call's answer, if there is one."""
        return self._answers.get(request)

    def cached(self, request: EndorsementRequest) -> CheckedAnswer | None:
        """Return the cached answer, if there is one."""
        return self.cache.read(request, service=self.source.service) if self.cache else None

    def fetch(self, request: EndorsementRequest) -> None:
        """Request an answer from the service and keep it.

        Raises:
            EndorsementError: ``…-not-found``, ``…-throttled``, ``…-unreachable`` or ``…-answer-invalid`` with the
                prefix ``kds``, ``pcs``, ``rim`` or ``ocsp``, or ``endorsement-not-cached`` when offline.
        """
        if self.offline:
            raise _not_cached(request)
        if self._out_of_reach is not None:
            raise self._out_of_reach
        try:
            data = self.source.get(request, progress=self.progress)
        except EndorsementError as exc:
            self._out_of_reach = exc if exc.retryable else None
            raise
        answer = read_answer(request, data, source=self.source.url_of(request), received=self.at)
        earlier = self._answers.get(request)
        steps_back = _steps_back(answer, earlier, at=self.at)
        if earlier is not None and (answer.crls or answer.ocsp or steps_back):
            self._earlier.append(earlier)  # its entries stay revoked despite a newer answer
        self._answers[request] = answer
        if self.cache and not steps_back:
            self.cache.write(answer, service=self.source.service)

    def again(self, request: EndorsementRequest) -> CheckedAnswer:
        """Request an answer from the service and compare it with the cached one.

        Raises:
            EndorsementError: as ``fetch``.
        """
        cached = self.cached(request)
        if cached is not None:
            self._answers[request] = cached
        self.fetch(request)
        return self._answers[request]

    def mend(self) -> None:
        """Fetch inconsistent cached answers again: a revoked intermediate, or a leaf of another one."""
        if self.offline:
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
        """Fetch an inconsistent cached answer again."""
        if self.offline:
            return
        self.progress(f"the {describe(request)} in the cache no longer matches")
        try:
            self.fetch(request)
        except EndorsementError as exc:
            self.failures.append(exc)

    def _is_revoked(self, chain: CheckedAnswer) -> bool:
        intermediate, ark = chain.certificates
        lists = [crl for answer in (*self._answers.values(), *self._earlier) for crl in answer.crls]
        return any(intermediate.serial in crl.revoked and crl.is_signed_by(ark.as_issuer()) for crl in lists)

    def gathered(self) -> Gathered:
        """Return the results."""
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


def _steps_back(answer: CheckedAnswer, earlier: CheckedAnswer | None, *, at: datetime) -> bool:
    """Return whether an answer is older than a known one, which then stays in the cache.

    A known one with a future date does not count: it could never be replaced.
    """
    if earlier is None or answer.issued is None or earlier.issued is None:
        return False
    return answer.issued < earlier.issued <= at


def _issued(leaf: CheckedAnswer, chain: CheckedAnswer) -> bool:
    """Return whether the chain's intermediate signed the leaf."""
    certificate: Certificate = leaf.certificates[0]
    try:
        require_issued(certificate, chain.certificates[0].as_issuer(), algorithm=SignatureAlgorithm.RSA_PSS_SHA384)
    except ChainError:
        return False
    return True


def _not_cached(request: EndorsementRequest) -> EndorsementError:
    return EndorsementError(
        f"the {describe(request)} is not in the cache, and nothing may be fetched",
        code="endorsement-not-cached",
        expected=describe(request),
        got="none",
        hint="give it with --endorsements PATH, or run 'attest endorsements fetch' where there is a network",
        retryable=True,
    )
