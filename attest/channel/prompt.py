"""Channels to a prompt key: any replica with the key from a key-release service can answer, behind a load balancer.

The client relies on the service's signed note, its log, and the policy that the note names, without evidence.
The key document follows from the note, so that nothing else has to be sent; a request names the log entry that
published the key in place of evidence.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from attest.channel.config import OFFERED, KeyConfig, KeyDocument
from attest.channel.hpke import HpkeKey
from attest.channel.keys import ChannelKey, Proofs
from attest.channel.records import require_between
from attest.errors import ConfigurationError
from attest.release.prompt_keys import PROMPT_ALGORITHMS, SKEW_SECONDS, PromptKey, PromptKeyNote


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptRecord:
    """A prompt key from ``verify_prompt_key``: every replica that conforms to its policy can answer."""

    key: PromptKey

    @property
    def keys(self) -> KeyDocument:
        """The document that follows from the note."""
        return prompt_document(self.key.note)

    @property
    def proof(self) -> bytes:
        """Proof that a request names: the log entry that published the key."""
        return self.key.note.logged

    def require_current(self, at: datetime) -> None:
        """Raise once the key must not be used without a refresh.

        Raises:
            VerificationError: ``channel-record-expired``.
        """
        note = self.key.note
        require_between(note.not_before - timedelta(seconds=SKEW_SECONDS), at, note.use_until, "the prompt key")


def prompt_document(note: PromptKeyNote) -> KeyDocument:
    """Return the key document of a prompt key, a function of its note."""
    config = KeyConfig(
        key_id=note.version % 256,
        kem=PROMPT_ALGORITHMS[note.algorithm],
        public_key=note.public_key[2:],
        pairs=OFFERED,
    )
    return KeyDocument(configs=(config,))


def released_key(note: PromptKeyNote, *, material: bytes) -> ChannelKey:
    """Return a channel key from a published prompt key whose private key was released to this workload.

    Raises:
        ConfigurationError: ``channel-key-mismatch``: the private key belongs to another key.
        ValueError: the material does not fit its algorithm.
    """
    key = HpkeKey.from_material(PROMPT_ALGORITHMS[note.algorithm], material)
    if key.public != note.public_key[2:]:
        raise ConfigurationError("the released private key does not match the note", code="channel-key-mismatch")
    proofs = Proofs()
    proofs.add(note.logged)
    return ChannelKey(
        document=prompt_document(note), private=(key,), not_after=note.use_until, replicated=True, proofs=proofs
    )
