"""One call for endorsements: its answers so far, from the cache or the service, and its failures."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, Required, TypedDict

from attest.endorsements.bundle import BundleEntry
from attest.endorsements.chains import require_issued
from attest.endorsements.pool import Endorsements
from attest.endorsements.requests import AmdChainRequest, AmdVcekRequest, EndorsementRequest
from attest.endorsements.signatures import SignatureAlgorithm
from attest.endorsements.x509 import Certificate
from attest.errors import ChainError, EndorsementError
from attest.fetch.answers import CheckedAnswer, describe, read_answer
from attest.fetch.cache import EndorsementCache
from attest.fetch.client import Progress

__all__ = ["EndorsementSource", "FetchOptions", "FetchSession", "Gathered"]


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


def _not_cached(request: EndorsementRequest) -> EndorsementError:
    return EndorsementError(
        f"the {describe(request)} is not in the cache, and nothing may be fetched",
        code="endorsement-not-cached",
        expected=describe(request),
        got="none",
        hint="give it with --endorsements PATH, or run 'attest endorsements fetch' where there is a network",
        retryable=True,
    )
