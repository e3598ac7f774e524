"""How a workload gets its keys: ask for a challenge, prove itself under it, open what comes back.

The service is known by its verifier key, never by its address or its TLS certificate: the evidence is bound to that
key, the answer is signed by it, and the keys are sealed to a key that never leaves this process. What is checked stands
in ``exchange.py``; here it meets an HTTP client. ``attest.session`` keeps keys for as long as a program runs.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from attest.errors import ReleaseRefusedError
from attest.release.exchange import Ask, Attester, Exchange, Steps, Verifier
from attest.release.log_monitor import LogWatch
from attest.release.mutual import ProvenService, ServiceExpectation
from attest.release.names import KeyName, KeyReference
from attest.release.notes import VerifierKey
from attest.release.passports import PassportKey
from attest.release.prompt_keys import PromptKey, PublishedPromptKey, verify_prompt_key
from attest.release.released_key import ReleasedKey
from attest.release.sealed_key import KEM_HYBRID, WorkloadKey
from attest.release.transport import MAX_ANSWER_BYTES, PATIENT, TIMEOUT_SECONDS, Timeouts, send
from attest.release.wire import Challenge

if TYPE_CHECKING:
    import httpx

__all__ = [
    "MAX_ANSWER_BYTES",
    "TIMEOUT_SECONDS",
    "Attester",
    "KeyReleaseClient",
    "ReleaseRefusedError",
    "ReleasedKey",
    "Verifier",
    "driven",
]

_T = TypeVar("_T")


def driven(steps: Steps[_T], http: httpx.Client, *, patience: Timeouts = PATIENT) -> _T:
    """Ask what the steps want to know, one after the other, and return what they come to.

    Raises:
        AttestError: as the steps, and ``send``.
    """
    try:
        ask = next(steps)
        while True:
            ask = steps.send(send(http, ask, patience=patience))
    except StopIteration as done:
        result: _T = done.value
        return result
    finally:
        steps.close()


class KeyReleaseClient:
    """A client of one key-release service.

    Args:
        http: an HTTP client whose base URL is the service; its TLS settings are the caller's.
        service: the verifier key of the service, from configuration, never from the service itself.
        watch: follows the service's log; None follows it as long as this client lives, and demands no witnesses.
        expect: what the service's own machine has to prove before anything else is asked; None demands nothing of it.
    """

    def __init__(
        self,
        http: httpx.Client,
        *,
        service: VerifierKey,
        watch: LogWatch | None = None,
        expect: ServiceExpectation | None = None,
    ) -> None:
        """Remember whom to talk to."""
        self._http = http
        self._service = service
        self._watch = LogWatch(service) if watch is None else watch
        self._exchange = Exchange(service=service, watch=self._watch, expect=expect)

    def release(
        self,
        key_ids: tuple[str, ...],
        *,
        attester: Attester,
        kem: int = KEM_HYBRID,
        key: WorkloadKey | None = None,
        renewing: tuple[ReleasedKey, ...] = (),
    ) -> tuple[ReleasedKey, ...]:
        """Obtain keys: challenge, proof, sealed answer.

        Args:
            key_ids: the keys, as ``KEY`` or ``TENANT/KEY``; all are released, or none.
            attester: collects the evidence.
            kem: HPKE KEM of the key pair that is made for this.
            key: a key pair to use instead, so that the answer takes the place of the leases that it has.
            renewing: what is held, whose leases are to be renewed; its key pair is used then.

        Raises:
            ReleaseRefusedError: the service said no; see its code and failed checks.
            BindingError: the service is another one, or its answer belongs to another exchange.
            SignatureError: the receipt, or the checkpoint of the log, is not signed by the service.
            VerificationError: the log does not hold the decision, or too few witnesses saw it.
            LogForkedError: the service shows another log than before.
            EndorsementError: ``service-unreachable``.
            EvidenceError: the answer is not what the protocol says.
            ConfigurationError: what is asked for is no name of a key.
            ValueError: the leases to be renewed are of several key pairs.
        """
        if len({one.recipient.public for one in renewing}) > 1:
            msg = "leases of several key pairs are renewed one after the other"
            raise ValueError(msg)
        key = renewing[0].recipient if renewing else key
        renews = tuple(one.lease_id for one in renewing)
        return self._driven(self._exchange.release(key_ids, attester=attester, kem=kem, key=key, renews=renews))

    def release_with_passport(
        self, key_ids: tuple[str, ...], *, verifier: Verifier, key: PassportKey, renews: tuple[str, ...] = ()
    ) -> tuple[ReleasedKey, ...]:
        """Obtain keys by a Verifier's word in place of evidence.

        Args:
            key_ids: the keys, as ``KEY`` or ``TENANT/KEY``; all are released, or none.
            verifier: obtains the EAR, about evidence whose binding has ``key.bound`` as its key.
            key: the key pairs of this workload; the same for as long as it renews one lease.
            renews: the leases of these keys that are to be renewed.

        Raises:
            AttestError: as ``release``.
        """
        return self._driven(self._exchange.release_with_passport(key_ids, verifier=verifier, key=key, renews=renews))

    def challenge(self) -> Challenge:
        """Ask for a challenge and make sure that it is the configured service's.

        With an expectation the service has to prove its machine first; see ``MutualAttestation.require``.

        Raises:
            BindingError: ``service-identity-mismatch``.
        """
        return self._driven(self._exchange.challenge())

    def prompt_key(self, key: str, *, policies: Collection[bytes], at: datetime) -> PromptKey:
        """Obtain a prompt key to encrypt to, and make sure that it is the one that is logged for a policy.

        Args:
            key: as ``KEY`` or ``TENANT/KEY``.
            policies: digests of the policies whose workloads may read what is encrypted; none accepts no key.
            at: now.

        Raises:
            ReleaseRefusedError: the service has no such prompt key.
            AttestError: as ``verify_prompt_key``.
            EndorsementError: ``service-unreachable``.
            ConfigurationError: what is asked for is no name of a key.
        """
        asked = KeyReference(name=KeyName.parse(key))
        self._driven(self._exchange.proof())
        path = f"/v1/prompt-keys/{asked.name.tenant}/{asked.name.key_id}"
        published = PublishedPromptKey.from_json(self._driven(self._exchange.asked(Ask(method="GET", path=path))))
        return verify_prompt_key(
            published,
            asked=asked,
            policies=policies,
            service=self._service,
            watch=self._watch,
            fetch=lambda old, new: self._driven(self._exchange.consistency(old, new)),
            at=at,
        )

    @property
    def proven(self) -> ProvenService | None:
        """What the service proved of its machine; None before that, or without an expectation."""
        return self._exchange.proven

    def _driven(self, steps: Steps[_T]) -> _T:
        return driven(steps, self._http)
