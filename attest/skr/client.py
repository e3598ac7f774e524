"""Client of secure key release: evidence over a key of this release, a Verifier's token, and the vault's answer."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from cryptography.x509 import Certificate

from attest.context_managers import ClosedOnExit
from attest.encoding import base64url_text
from attest.errors import ConfigurationError
from attest.fetch.client import ServiceWords, require_base_url
from attest.policy.foreign.skr import SkrPolicy
from attest.release.transport import CONNECT_SECONDS, TIMEOUT_SECONDS, HttpAnswer, Timeouts, peer_of_others, request
from attest.results import TokenKey
from attest.session.connection import open_client
from attest.session.retry import retried
from attest.session.schedule import SYSTEM_TIMING, Deadline, SessionTiming
from attest.skr.addresses import VaultKey
from attest.skr.encryption_key import ENCRYPTION, KEK_BITS, EncryptionKey
from attest.skr.guest import MachineSkrGuest, SkrGuest
from attest.skr.problems import answer_invalid, document_of, vault_refusal
from attest.skr.released_key import ReleaseTerms, SkrKey, open_release
from attest.skr.verifier import MaaVerifier

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

API_VERSION: Final = "7.4"
NONCE_BYTES: Final = 32
MAX_BEARER_CHARACTERS: Final = 16 * 1024
_WORDS: Final = ServiceWords(prefix="maa", name="a Verifier", known="", unknown="")
_WHO: Final = "the vault"
OpenHttp = Callable[[str], "httpx.Client"]
"""Makes an HTTP client for a base URL."""


class SkrClient(ClosedOnExit):
    """Client of vaults that release keys to guests.

    Each release has a fresh key pair, to which the key is encrypted, erased at its end.

    Args:
        verifier: URL of the Verifier, such as ``https://NAME.attest.azure.net``.
        roots: issuers of the certificates with which vaults sign their answers.
        bearer: returns an access token for the vault; called once for each attempt.
        guest: source of the evidence; None is this machine.
        issuer: required issuer of the Verifier's tokens; None is its URL.
        verifier_keys: keys that may sign them; empty takes those that the Verifier publishes at its URL.
        policy: expected release policy of the keys; None accepts any.
        tls_ca: accepted issuers of TLS certificates (PEM); None uses the system's.
        timeout: seconds for one call, retries and pauses included.
        timing: clock, randomness and pauses.
        kek_bits: length of the key pair.
        http: makes HTTP clients instead of those for ``tls_ca``.

    Raises:
        ConfigurationError: ``maa-url-invalid``, ``skr-roots-missing``, ``tls-ca-unusable`` or ``http-client-missing``.
        CollectionError: this machine is no guest.
    """

    def __init__(
        self,
        verifier: str,
        *,
        roots: tuple[Certificate, ...],
        bearer: Callable[[], str],
        guest: SkrGuest | None = None,
        issuer: str | None = None,
        verifier_keys: tuple[TokenKey, ...] = (),
        policy: SkrPolicy | None = None,
        tls_ca: Path | str | None = None,
        timeout: float = TIMEOUT_SECONDS,
        timing: SessionTiming = SYSTEM_TIMING,
        kek_bits: int = KEK_BITS,
        http: OpenHttp | None = None,
    ) -> None:
        require_base_url(verifier, _WORDS)
        if not roots:
            raise ConfigurationError(
                "a vault's answer is verified up to a root, and none is given",
                code="skr-roots-missing",
                field="roots",
                expected="certificates of the authorities that issue the vault's certificate",
            )
        self.guest = MachineSkrGuest.of() if guest is None else guest
        self._open: OpenHttp = http or (lambda url: open_client(url, tls_ca=tls_ca))
        self._http = self._open(verifier)
        self._verifier = MaaVerifier(self._http, issuer=issuer or verifier.rstrip("/"), keys=verifier_keys)
        self._roots = roots
        self._bearer = bearer
        self._policy = policy
        self._timeout = timeout
        self._timing = timing
        self._kek_bits = kek_bits

    def release(self, address: str) -> SkrKey:
        """Attest, and release one key ``https://VAULT/keys/NAME[/VERSION]``.

        Raises:
            PolicyNotMetError: the vault denies the release.
            KeyUnknownError: there is no such key.
            ReleaseRefusedError: the vault or the Verifier refuses for another reason; see ``code``.
            ServiceUnreachableError: no answer in time.
            BindingError: the answer is of another release, or the Verifier's token about another guest.
            VerificationError: a signature, a chain, a policy or the key does not hold.
            CollectionError: this machine gives no evidence.
            ConfigurationError: ``skr-address-invalid`` or ``skr-bearer-invalid``.
        """
        key = VaultKey.parse(address)
        with self._open(key.vault) as vault:
            return retried(
                lambda deadline: self._attempt(vault, key, deadline),
                url=key.vault,
                deadline=self._timing.deadline(self._timeout),
            )

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _attempt(self, vault: httpx.Client, key: VaultKey, deadline: Deadline) -> SkrKey:
        to_vault = Timeouts(connect_seconds=CONNECT_SECONDS, left=deadline.left, peer=peer_of_others(_WHO, key.vault))
        to_verifier = replace(to_vault, peer=peer_of_others("the Verifier", str(self._http.base_url).rstrip("/")))
        with EncryptionKey.generate(self._kek_bits) as kek:
            # (1) Evidence over the key of this release, and a token about it, verified before it is sent on.
            evidence = self.guest.evidence(sha256(kek.runtime_data).digest())
            at = self._timing.now()
            token = self._verifier.token(evidence, tee=self.guest.tee, key=kek, at=at, patience=to_verifier)
            # (2) The release, under a nonce that the signed answer repeats.
            nonce = base64url_text(secrets.token_bytes(NONCE_BYTES))
            value = _value(self._ask(vault, key, token, nonce, to_vault))
            # (3) Every check of the answer, then the key.
            terms = ReleaseTerms(key=key, nonce=nonce, roots=self._roots, policy=self._policy, at=self._timing.now())
            return open_release(value, terms=terms, kek=kek)

    def _ask(self, vault: httpx.Client, key: VaultKey, token: str, nonce: str, patience: Timeouts) -> HttpAnswer:
        body = {"target": token, "nonce": nonce, "enc": ENCRYPTION}
        headers = {"Authorization": f"Bearer {_require_bearer(self._bearer())}", "Content-Type": "application/json"}
        path = f"{key.path}/release?api-version={API_VERSION}"
        return request(vault, "POST", path, content=json.dumps(body).encode(), headers=headers, patience=patience)


def _require_bearer(text: str) -> str:
    """Require a token that can be the value of a header. Its text is in no error."""
    token = text.strip()
    sound = token.isascii() and token.isprintable() and " " not in token
    if not sound or not 0 < len(token) <= MAX_BEARER_CHARACTERS:
        raise ConfigurationError(
            "the access token for the vault cannot be sent",
            code="skr-bearer-invalid",
            expected=f"1 to {MAX_BEARER_CHARACTERS} characters without blanks",
            got=f"{len(token)} characters" if sound else "other characters",
        )
    return token


def _value(answer: HttpAnswer) -> str:
    if HTTPStatus.OK < answer.status < HTTPStatus.BAD_REQUEST:
        raise answer_invalid(_WHO, f"status {answer.status}, which is not followed")
    if answer.status != HTTPStatus.OK:
        raise vault_refusal(answer)
    value = document_of(answer.content, who=_WHO).get("value")
    if not isinstance(value, str):
        raise answer_invalid(_WHO, "no value")
    return value
