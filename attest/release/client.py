"""Blocking client of a key-release service: request a challenge, attest, and open the released keys.

The service is identified by its verifier key, not by its address or TLS certificate: the evidence is bound to that key,
the answer is signed by it, and the keys are sealed to a key that never leaves this process. ``exchange.py`` has the
checks; this module adds an HTTP client. ``attest.session`` keeps keys for the life of a program.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from attest.release.exchange import Ask, Attester, Exchange, Steps, Verifier
from attest.release.log_monitor import LogWatch
from attest.release.mutual_attestation import ProvenService, ServiceExpectation
from attest.release.names import KeyName, KeyReference
from attest.release.notes import VerifierKey
from attest.release.passports import PassportKey
from attest.release.prompt_keys import DEFAULT_KEMS, PromptKey, PublishedPromptKey, verify_prompt_key
from attest.release.released_key import ReleasedKey
from attest.release.sealed_key import KEM_HYBRID, WorkloadKey
from attest.release.transport import PATIENT, Timeouts, send

if TYPE_CHECKING:
    import httpx

_T = TypeVar("_T")


def driven(steps: Steps[_T], http: httpx.Client, *, patience: Timeouts = PATIENT) -> _T:
    """Send the requests that the steps yield, and return their result.

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
    """Client of one key-release service.

    Args:
        http: an HTTP client with the service as its base URL; its TLS settings are the caller's.
        service: the verifier key of the service, from configuration, never from the service itself.
        watch: checks the service's log; None uses a watch for the life of this client, without witnesses.
        expect: requirements for the service's own machine; None requires no proof of it.
    """

    def __init__(
        self,
        http: httpx.Client,
        *,
        service: VerifierKey,
        watch: LogWatch | None = None,
        expect: ServiceExpectation | None = None,
    ) -> None:
        self._http = http
        self._exchange = Exchange(service=service, watch=watch, expect=expect)

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

        The keys, as ``KEY`` or ``TENANT/KEY``, are released together or not at all. ``key`` is an existing key pair,
        whose leases the answer replaces; ``renewing`` are held keys whose leases to renew, with their key pair.

        Raises:
            ReleaseRefusedError: the service refuses; see its code and failed checks.
            BindingError: another service, or an answer of another exchange.
            SignatureError: the receipt or the log's checkpoint is not signed by the service.
            VerificationError: the decision is missing in the log, or witnesses are.
            LogForkedError: the service shows another log than before.
            EndorsementError: ``service-unreachable``.
            EvidenceError: the answer violates the protocol.
            ConfigurationError: an invalid key name.
            ValueError: the leases to renew belong to several key pairs.
        """
        if len({one.recipient.public for one in renewing}) > 1:
            raise ValueError("renew leases of several key pairs one after the other")
        key = renewing[0].recipient if renewing else key
        renews = tuple(one.lease_id for one in renewing)
        return self._driven(self._exchange.release(key_ids, attester=attester, kem=kem, key=key, renews=renews))

    def release_with_passport(
        self, key_ids: tuple[str, ...], *, verifier: Verifier, key: PassportKey, renews: tuple[str, ...] = ()
    ) -> tuple[ReleasedKey, ...]:
        """Obtain keys with an Attestation Result in place of evidence (passport model).

        ``verifier`` obtains the EAR for evidence bound to ``key.bound``, or a token of a cloud service to which the
        machine committed with it (docs/releases.md); the key pairs are the same for all renewals of a lease.

        Raises:
            AttestError: as ``release``.
        """
        return self._driven(self._exchange.release_with_passport(key_ids, verifier=verifier, key=key, renews=renews))

    def prompt_key(
        self, key: str, *, policies: Collection[bytes], at: datetime, kems: Collection[int] = DEFAULT_KEMS
    ) -> PromptKey:
        """Obtain a prompt key for encryption, and require that the log has it under an accepted policy.

        ``policies`` are digests of accepted policies; an empty set accepts no key.

        Raises:
            ReleaseRefusedError: the service has no such prompt key.
            AttestError: as ``verify_prompt_key`` and ``release``.
        """
        name = KeyName.parse(key)
        self.prove()
        ask = Ask(method="GET", path=f"/v1/prompt-keys/{name.tenant}/{name.key_id}")
        return verify_prompt_key(
            PublishedPromptKey.from_json(self._driven(self._exchange.sent(ask))),
            requested=KeyReference(name=name),
            policies=policies,
            service=self._exchange.service,
            watch=self._exchange.watch,
            fetch=lambda old, new: self._driven(self._exchange.consistency(old, new)),
            at=at,
            kems=kems,
        )

    def prove(self) -> None:
        """Require a recent proof of the service's machine, if one is expected, and send nothing else.

        Raises:
            AttestError: as ``MutualAttestation.answered`` and ``send``.
        """
        self._driven(self._exchange.proof())

    @property
    def proven(self) -> ProvenService | None:
        """Last proof of the service's machine; None before it, or without an expectation."""
        return self._exchange.proven

    def _driven(self, steps: Steps[_T]) -> _T:
        return driven(steps, self._http)
