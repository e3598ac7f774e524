"""Releases to the workload that a Verifier's token is about: ``POST /keys/NAME/VERSION/release``.

Spec: specs/azure-skr.md, sections 7 to 10.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from attest.encoding import JsonValue, base64url_json, base64url_text, rfc3339_text
from attest.errors import EvidenceError, VerificationError
from attest.policy import evaluate_skr, parse_skr
from attest.release import KeyReference
from attest.results import VerifiedServiceToken
from kms.api.skr.authorities import Authorities
from kms.api.skr.bodies import read_object, text_of
from kms.api.skr.ciphertext import SHA1_WRAP, WRAPS, RandomBytes, encrypt
from kms.api.skr.errors import bad_parameter, denied
from kms.api.skr.identifiers import key_id
from kms.api.skr.kek import TokenKek, find_kek
from kms.api.skr.keys import FoundKey, VaultKeys
from kms.config.skr import SkrSettings, Vault
from kms.config.skr_signer import AnswerSigner
from kms.domain.actors import Actor
from kms.domain.errors import ChallengeUsedError
from kms.domain.passports import FreshBy
from kms.domain.vault_keys import VaultKeySettings
from kms.release.foreign import ForeignRelease, ForeignReleases, TokenProof, TokenTerms
from kms.telemetry import counted

CONTEXT: Final = "attest.skr/1"
ROLE: Final = "workload"
MAX_TARGET_CHARACTERS: Final = 64 * 1024
MAX_NONCE_CHARACTERS: Final = 256
_MEMBERS: Final = frozenset({"target", "nonce", "enc"})
_NONCE_BYTES: Final = 32
_ID_BYTES: Final = 16
_log = logging.getLogger("kms")


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedRelease:
    """A request; ``enc`` is the form of the ciphertext, also if the client named none."""

    target: str
    nonce: str | None
    enc: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseTarget:
    """The key that a request names, as it names it, and who asks."""

    vault: Vault
    name: str
    version: str | None
    api_version: str
    actor: Actor


class VaultReleases:
    """Releases of keys of every vault."""

    def __init__(
        self,
        releases: ForeignReleases,
        keys: VaultKeys,
        authorities: Authorities,
        settings: SkrSettings,
        signers: Mapping[str, AnswerSigner],
        *,
        random: RandomBytes,
    ) -> None:
        self._releases = releases
        self._keys = keys
        self._authorities = authorities
        self._settings = settings
        self._signers = signers
        self._random = random

    def release(self, target: ReleaseTarget, body: bytes, *, at: datetime) -> dict[str, JsonValue]:
        """Release a key, encrypted to the key of the token, in a signed answer.

        Raises:
            SkrRefusal: 400, 404.
            ReleaseDeniedError: the release is denied.
            AttestError: as ``ForeignReleases.release_on_token``.
        """
        # (1) The key is there; the request is whole.
        found = self._keys.find(target.vault, target.name, target.version)
        asked = _read(body, refuse_sha1=self._settings.refuse_sha1)
        # (2) The token is of an authority, and its key, the release policy and times permit it. The key's own policy
        # decides, as for every release, and the decision is in the log before anything is sent.
        keks: list[TokenKek] = []
        proof = TokenProof(
            token=asked.target.encode(),
            context=CONTEXT,
            role=ROLE,
            nonce=self._random(_NONCE_BYTES),
            audience=target.vault.resource,
            read=partial(self._terms, found=found, enc=asked.enc, at=at, keks=keks),
            trusted=self._authorities.trusted(at=at),
            single_use=self._settings.single_use_tokens,
            is_current=found.is_current,
            asked_by=target.actor,
        )
        record = found.record
        reference = KeyReference(name=record.name, version=None if target.version is None else record.version)
        released = self._released(reference, proof, at=at)
        if asked.enc == SHA1_WRAP:
            _log.info("a key was released in the form %s, which uses SHA-1: %s", asked.enc, record.name)
        # (3) The answer, signed for this vault.
        return {"value": self._answer(target, asked, found, released, keks[-1], at=at)}

    def _released(self, reference: KeyReference, proof: TokenProof, *, at: datetime) -> ForeignRelease:
        """Release a key on a token; every refusal of the token is one by policy in this protocol."""
        try:
            return counted(partial(self._releases.release_on_token, reference, proof, at=at))
        except ChallengeUsedError as exc:
            raise denied("the token was used before, and counts once", "skr-token-used") from exc
        except (EvidenceError, VerificationError) as exc:
            raise denied(exc.message, exc.code) from exc

    def _terms(
        self, token: VerifiedServiceToken, *, found: FoundKey, enc: str, at: datetime, keks: list[TokenKek]
    ) -> TokenTerms:
        """Return what a release on this genuine token rests on.

        Raises:
            VerificationError: it is too old, or has no usable key.
        """
        _require_young(token, timedelta(seconds=self._settings.max_token_age_seconds), at)
        kek = find_kek(token.claims)
        keks.append(kek)
        return TokenTerms(
            key=kek.to_bytes(),
            fresh_by=FreshBy.BOUND_RECIPIENT,
            denial=_denial(found, token, at),
            encrypt=partial(encrypt, kek=kek.public, enc=enc, random=self._random),
        )

    def _answer(
        self,
        target: ReleaseTarget,
        asked: AskedRelease,
        found: FoundKey,
        released: ForeignRelease,
        kek: TokenKek,
        *,
        at: datetime,
    ) -> str:
        record = found.record
        if record.version != released.version:  # rotated while the decision was made
            record = self._keys.record(KeyReference(name=record.name, version=released.version))
        view = self._keys.view(target.vault, target.name, replace(found, record=record))
        wrapped: dict[str, JsonValue] = {
            "schema_version": "1.0",
            "header": {"kid": kek.kid, "alg": "dir", "enc": asked.enc},
            "ciphertext": base64url_text(released.encrypted),
        }
        key_hsm = base64url_json(wrapped)
        request: dict[str, JsonValue] = {
            "api-version": target.api_version,
            "enc": asked.enc,
            "kid": key_id(target.vault.host, target.name, target.version),
            **({} if asked.nonce is None else {"nonce": asked.nonce}),
        }
        response: dict[str, JsonValue] = {
            "key": view.bundle(key_hsm=key_hsm),
            "iat": int(at.timestamp()),
            "jti": self._random(_ID_BYTES).hex(),
            "policy_digest": view.settings.policy_digest.hex(),
        }
        return self._signers[target.vault.host].signed({"request": request, "response": response})


def _read(body: bytes, *, refuse_sha1: bool) -> AskedRelease:
    members = read_object(body, _MEMBERS)
    target, nonce, enc = (text_of(members, name) for name in ("target", "nonce", "enc"))
    if not target or len(target) > MAX_TARGET_CHARACTERS or not target.isascii():
        raise bad_parameter(
            f"target: expected a token of at most {MAX_TARGET_CHARACTERS} characters", "skr-body-invalid"
        )
    if nonce is not None and len(nonce) > MAX_NONCE_CHARACTERS:
        raise bad_parameter(f"nonce: expected at most {MAX_NONCE_CHARACTERS} characters", "skr-body-invalid")
    enc = SHA1_WRAP if enc is None else enc
    if enc not in WRAPS:
        raise bad_parameter(f"enc: expected one of {', '.join(WRAPS)}", "skr-body-invalid")
    if enc == SHA1_WRAP and refuse_sha1:
        raise bad_parameter(f"enc: {SHA1_WRAP} uses SHA-1, which this service refuses", "skr-sha1-refused")
    return AskedRelease(target=target, nonce=nonce, enc=enc)


def _require_young(token: VerifiedServiceToken, most: timedelta, at: datetime) -> None:
    if at - token.frame.issued > most:
        raise VerificationError(
            "the token is older than this service accepts",
            code="skr-token-too-old",
            field="iat",
            expected=f"at or after {rfc3339_text(at - most)}",
            got=rfc3339_text(token.frame.issued),
            clause="docs/skr.md",
        )


def _denial(found: FoundKey, token: VerifiedServiceToken, at: datetime) -> str | None:
    """Return why the key's release policy or times refuse, or None; a key that was made in no vault has neither."""
    if not found.has_release_policy:
        return None
    settings = found.settings
    if not _is_in_time(settings, at):
        return "the key is outside of its times nbf and exp"
    policy = parse_skr(settings.policy, extended=True)
    outcome = evaluate_skr(policy, token.claims, issuer=token.frame.issuer)
    return None if outcome.holds else f"the release policy refuses: {outcome.reason}"


def _is_in_time(settings: VaultKeySettings, at: datetime) -> bool:
    now = at.timestamp()
    begins, ends = settings.not_before, settings.expires
    return (begins is None or begins <= now) and (ends is None or now < ends)
