"""Prompt keys: public keys for anyone, with private keys released only to workloads of a known policy.

A service publishes each key with a signed note and a proof that its log agrees. A sender checks both before encryption,
against a policy digest of its own: the key is then the one that the log has for that policy, the same for every sender,
and not a key made for one sender.

::

    note     "attest-prompt-key/v1" newline JSON newline, signed as a C2SP note
    entry    the log's entry of kind ``prompt-key-published``, canonical JSON
    proof    C2SP tlog-proof: the log holds the entry
    sealed   HPKE enc ‖ ciphertext; info is the CBOR of a map of context, audience, tenant, key_id, version and policy
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from attest.encoding import JsonValue, base64url_bytes, base64url_text, cbor_bytes, json_value, rfc3339, rfc3339_text
from attest.errors import BindingError, ConfigurationError, EvidenceError, VerificationError
from attest.release.log_monitor import FetchProof, LogWatch
from attest.release.names import KeyName, KeyReference
from attest.release.notes import VerifierKey
from attest.release.sealed_key import KEM_HYBRID, KEM_X25519, WorkloadKey, seal
from attest.release.tlog import leaf_hash
from attest.release.wire import digest_of, read_signed_text, signed_text, texts_of, wire_invalid

PROMPT_ALGORITHMS: Final = {"hpke-x25519": KEM_X25519, "hpke-mlkem768-x25519": KEM_HYBRID}
"""Algorithms by name, with their HPKE KEMs."""
DEFAULT_KEMS: Final = (KEM_HYBRID,)
"""A prompt sealed to X25519 alone, and recorded, is open to a later quantum computer."""
PUBLISHED: Final = "prompt-key-published"
CONTEXT: Final = "attest-prompt/v1"
SKEW_SECONDS: Final = 60
"""Maximum delay of a sender's clock."""
_HEAD = "attest-prompt-key/v1"
_TEXTS = ("tenant", "key_id", "algorithm", "public_key", "policy_sha256", "not_before", "use_until", "logged")
_PROMPT = "prompt key"


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptKeyNote:
    """A service's statement about a prompt key.

    Attributes:
        version: from 1.
        algorithm: one of ``PROMPT_ALGORITHMS``.
        public_key: two bytes of KEM id, big-endian, and the raw public key.
        policy_digest: SHA-256 of the policy for the release of the private key, 32 bytes.
        not_before: moment of publication.
        use_until: end of its use without a refresh.
        logged: hash of the log entry that published it, 32 bytes.
    """

    name: KeyName
    version: int
    algorithm: str
    public_key: bytes
    policy_digest: bytes
    not_before: datetime
    use_until: datetime
    logged: bytes

    def text(self) -> str:
        """Return the text to sign."""
        document: dict[str, JsonValue] = {
            **self.logged_members(),
            "use_until": rfc3339_text(self.use_until),
            "logged": self.logged.hex(),
        }
        return signed_text(_HEAD, document)

    def logged_members(self) -> dict[str, JsonValue]:
        """Return the log entry's members about the key."""
        return {
            "tenant": self.name.tenant,
            "key_id": self.name.key_id,
            "version": self.version,
            "algorithm": self.algorithm,
            "public_key": base64url_text(self.public_key),
            "policy_sha256": self.policy_digest.hex(),
            "not_before": rfc3339_text(self.not_before),
        }

    @staticmethod
    def parse(text: str) -> PromptKeyNote:
        """Parse the text of a note after verification of its signature.

        Raises:
            EvidenceError: ``wire-invalid``, ``json-invalid``, ``base64-invalid`` or ``time-invalid``.
        """
        members = read_signed_text(text, _HEAD, what=_PROMPT)
        version = members.pop("version", None)
        texts = texts_of(members, _TEXTS, what=_PROMPT)
        if type(version) is not int or version < 1:
            raise _invalid("version: expected an integer from 1")
        try:
            name = KeyName(tenant=texts["tenant"], key_id=texts["key_id"])
        except ConfigurationError as exc:
            raise _invalid(exc.message) from exc
        if texts["algorithm"] not in PROMPT_ALGORITHMS:
            raise _invalid(f"algorithm: expected one of {', '.join(PROMPT_ALGORITHMS)}")
        return PromptKeyNote(
            name=name,
            version=version,
            algorithm=texts["algorithm"],
            public_key=base64url_bytes(texts["public_key"], what="public_key"),
            policy_digest=digest_of(texts["policy_sha256"], "policy_sha256", what=_PROMPT),
            not_before=rfc3339(texts["not_before"], what="not_before"),
            use_until=rfc3339(texts["use_until"], what="use_until"),
            logged=digest_of(texts["logged"], "logged", what=_PROMPT),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedPromptKey:
    """A published prompt key, not verified: a signed note, the log entry that published it, and proof of inclusion."""

    note: str
    entry: bytes
    proof: str

    def to_json(self) -> dict[str, JsonValue]:
        """Return the JSON members."""
        return {"note": self.note, "entry": base64url_text(self.entry), "proof": self.proof}

    @staticmethod
    def from_json(document: JsonValue) -> PublishedPromptKey:
        """Read the JSON members.

        Raises:
            EvidenceError: ``wire-invalid`` or ``base64-invalid``.
        """
        texts = texts_of(document, ("note", "entry", "proof"), what=_PROMPT)
        entry = base64url_bytes(texts["entry"], what="entry")
        return PublishedPromptKey(note=texts["note"], entry=entry, proof=texts["proof"])


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedPrompt:
    """A ciphertext under a prompt key.

    Attributes:
        version: of the key; a workload requests the private key of this one.
        sealed: HPKE ``enc ‖ ciphertext``.
    """

    name: KeyName
    version: int
    sealed: bytes

    @property
    def key(self) -> str:
        """Reference for a workload's release request."""
        return str(KeyReference(name=self.name, version=self.version))

    def to_json(self) -> dict[str, JsonValue]:
        """Return the JSON members."""
        return {"key": self.key, "sealed": base64url_text(self.sealed)}

    @staticmethod
    def from_json(document: JsonValue) -> SealedPrompt:
        """Read the JSON members.

        Raises:
            EvidenceError: ``wire-invalid`` or ``base64-invalid``.
        """
        texts = texts_of(document, ("key", "sealed"), what=_PROMPT)
        try:
            reference = KeyReference.parse(texts["key"])
        except ConfigurationError as exc:
            raise _invalid(exc.message) from exc
        if reference.version is None:
            raise _invalid("key: expected a version")
        sealed = base64url_bytes(texts["sealed"], what="sealed")
        return SealedPrompt(name=reference.name, version=reference.version, sealed=sealed)


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptKey:
    """A verified prompt key, made by ``verify_prompt_key``.

    Attributes:
        audience: the service's verifier key, as text.
    """

    note: PromptKeyNote
    audience: str

    def encrypt(self, prompt: bytes, *, at: datetime) -> SealedPrompt:
        """Encrypt a prompt of any bytes; its length shows.

        Raises:
            VerificationError: ``prompt-key-not-current``: refresh it from the service.
        """
        _require_current(self.note, at=at)
        info = _info(self.audience, self.note.name, self.note.version, self.note.policy_digest)
        sealed = seal(prompt, recipient=self.note.public_key, info=info)
        return SealedPrompt(name=self.note.name, version=self.note.version, sealed=sealed)


def verify_prompt_key(
    published: PublishedPromptKey,
    *,
    requested: KeyReference,
    policies: Collection[bytes],
    service: VerifierKey,
    watch: LogWatch,
    fetch: FetchProof,
    at: datetime,
    kems: Collection[int] = DEFAULT_KEMS,
) -> PromptKey:
    """Require that a prompt key is the one in the service's log for an accepted policy.

    ``policies`` are digests of accepted policies, ``kems`` accepted HPKE KEMs; an empty set accepts no key. ``service``
    comes from configuration. ``fetch`` obtains a consistency proof if one is necessary.

    Raises:
        SignatureError: ``note-signature-invalid``.
        BindingError: ``prompt-key-mismatch``: another key, another policy, another KEM, or the log disagrees.
        VerificationError: ``prompt-key-not-current``; ``recipient-key-invalid``: does not fit its algorithm; or as
            ``LogWatch.check``.
        EvidenceError: the note violates the protocol; or as ``LogWatch.check``.
        LogForkedError: the service shows another log than before.
    """
    # (1) The service signed it.
    note = PromptKeyNote.parse(service.verify(published.note))
    # (2) It is the requested key, under an accepted policy, and current.
    if (note.name, requested.version or note.version) != (requested.name, note.version):
        raise _mismatch("key", str(requested), f"{note.name}@{note.version}")
    if note.policy_digest not in policies:
        accepted = ", ".join(sorted(digest.hex() for digest in policies)) or "none"
        raise _mismatch("policy_sha256", accepted, note.policy_digest.hex())
    if PROMPT_ALGORITHMS[note.algorithm] not in kems:
        accepted = ", ".join(name for name, kem in PROMPT_ALGORITHMS.items() if kem in kems) or "none"
        raise _mismatch("algorithm", accepted, note.algorithm, hint="another KEM than the hybrid is accepted by name")
    _require_current(note, at=at)
    # (3) It fits the algorithm that the note names.
    if int.from_bytes(note.public_key[:2], "big") != PROMPT_ALGORITHMS[note.algorithm]:
        raise _mismatch("public_key", note.algorithm, "a key of another algorithm")
    seal(b"", recipient=note.public_key, info=b"")
    # (4) The log's entry agrees, and is the entry that the note names.
    _require_logged(note, published.entry)
    # (5) The log has the entry, and extends the remembered log.
    watch.check(published.entry, published.proof, fetch=fetch)
    return PromptKey(note=note, audience=service.text)


def open_prompt(
    prompt: SealedPrompt, *, algorithm: str, material: bytes, policy_digest: bytes, service: VerifierKey
) -> bytes:
    """Decrypt a prompt in the workload that holds the private key.

    ``material`` is the private key as released, ``policy_digest`` the policy under which it was released.

    Raises:
        BindingError: ``release-not-for-this-exchange``: another key, another policy, another service, or altered bytes.
        ValueError: the material does not fit this algorithm.
    """
    key = WorkloadKey.from_material(PROMPT_ALGORITHMS[algorithm], material)
    return key.open(prompt.sealed, info=_info(service.text, prompt.name, prompt.version, policy_digest))


def _require_current(note: PromptKeyNote, *, at: datetime) -> None:
    """Require a moment within the validity; the start has some tolerance, the end is excluded."""
    if note.not_before - timedelta(seconds=SKEW_SECONDS) <= at < note.use_until:
        return
    raise VerificationError(
        "the prompt key is not valid now",
        code="prompt-key-not-current",
        expected=f"from {rfc3339_text(note.not_before)} to before {rfc3339_text(note.use_until)}",
        got=rfc3339_text(at),
        hint="request the key from the service again",
    )


def _require_logged(note: PromptKeyNote, entry: bytes) -> None:
    document = json_value(entry, what="entry of the log")
    members = document if isinstance(document, dict) else {}
    for name, expected in {"kind": PUBLISHED, **note.logged_members()}.items():
        if members.get(name) != expected:
            raise _mismatch(name, str(expected)[:200], str(members.get(name))[:200])
    if leaf_hash(entry) != note.logged:
        raise _mismatch("logged", note.logged.hex(), leaf_hash(entry).hex())


def _info(audience: str, name: KeyName, version: int, policy_digest: bytes) -> bytes:
    return cbor_bytes(
        {
            "context": CONTEXT,
            "audience": audience,
            "tenant": name.tenant,
            "key_id": name.key_id,
            "version": version,
            "policy": policy_digest,
        }
    )


def _invalid(problem: str) -> EvidenceError:
    return wire_invalid(_PROMPT, problem)


def _mismatch(field: str, expected: str, got: str, *, hint: str | None = None) -> BindingError:
    return BindingError(
        f"the prompt key is not the required one: {field}",
        code="prompt-key-mismatch",
        field=field,
        expected=expected,
        got=got,
        hint=hint,
    )
