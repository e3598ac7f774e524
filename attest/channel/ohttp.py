"""Oblivious HTTP, RFC 9458: one sealed request, one sealed answer, and the parts shared with the chunked form.

::

    hdr       key_id (1) ‖ kem_id (2) ‖ kdf_id (2) ‖ aead_id (2)
    info      label ‖ 00 ‖ hdr
    request   hdr ‖ enc ‖ Seal("", message)
    secret    Export(answer label, L)                                      L = max(Nk, 12), bytes
    prk       HKDF-Extract(enc ‖ response_nonce, secret); key, nonce = HKDF-Expand(prk, "key" / "nonce")
    answer    response_nonce (L) ‖ AEAD-Seal("", message)

The labels differ for single messages and for chunks, so that neither can pass for the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from attest.channel.config import KeyChoice, KeyConfig
from attest.channel.hpke import (
    NONCE_BYTES,
    TAG_BYTES,
    CountedAead,
    HpkeContext,
    HpkeKey,
    Suite,
    encapsulate,
    expand,
    extract,
    not_opened,
)

HEADER_BYTES: Final = 7


class MessageForm(Enum):
    """The two forms of messages, with their media types and distinct labels."""

    SINGLE = ("message/ohttp-req", "message/ohttp-res", b"message/bhttp request", b"message/bhttp response")
    CHUNKED = (
        "message/ohttp-chunked-req",
        "message/ohttp-chunked-res",
        b"message/bhttp chunked request",
        b"message/bhttp chunked response",
    )

    def __init__(self, request_type: str, answer_type: str, request_label: bytes, answer_label: bytes) -> None:
        self.request_type = request_type
        self.answer_type = answer_type
        self.request_label = request_label
        """Prefix of a request's ``info``."""
        self.answer_label = answer_label
        """Label for the export of the answer's secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Exchange:
    """State between a request and its answer.

    Attributes:
        enc: the KEM's ciphertext; unique to the request.
        context: seals the request's messages, or opens them.
    """

    form: MessageForm
    suite: Suite
    enc: bytes
    context: HpkeContext

    @property
    def nonce_bytes(self) -> int:
        """Length of the answer's nonce."""
        return max(self.suite.key_bytes, NONCE_BYTES)

    def answer_cipher(self, response_nonce: bytes) -> CountedAead:
        """Return the cipher of the answer's messages."""
        secret = self.context.export(self.form.answer_label, self.nonce_bytes)
        prk = extract(self.enc + response_nonce, secret)
        key = expand(prk, b"key", self.suite.key_bytes)
        return CountedAead(self.suite.cipher(key), expand(prk, b"nonce", NONCE_BYTES))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealing(_Exchange):
    """The client's side; ``header`` is the first seven bytes of the request."""

    header: bytes

    @property
    def prefix(self) -> bytes:
        """Bytes before the sealed messages."""
        return self.header + self.enc


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening(_Exchange):
    """The service's side; ``key_id`` names the recipient's key."""

    key_id: int

    def answer_key(self, random: Callable[[int], bytes]) -> tuple[bytes, CountedAead]:
        """Generate the answer's nonce; return it and its cipher. Each answer has its own key."""
        nonce = random(self.nonce_bytes)
        return nonce, self.answer_cipher(nonce)


def begin_sealing(
    choice: KeyChoice, form: MessageForm, *, dangerous_ephemeral: X25519PrivateKey | None = None
) -> Sealing:
    """Establish a fresh secret with a service; ``dangerous_ephemeral`` as of ``encapsulate``, for vectors.

    Raises:
        VerificationError: ``channel-key-invalid``.
    """
    suite = choice.suite
    header = bytes((choice.config.key_id,)) + suite.to_bytes()
    shared, enc = encapsulate(suite.kem, choice.config.public_key, dangerous_ephemeral=dangerous_ephemeral)
    context = HpkeContext(suite, shared, _info(form, header))
    return Sealing(form=form, suite=suite, enc=enc, context=context, header=header)


def read_header(header: bytes, *, config: KeyConfig) -> Suite:
    """Return the algorithms of a request from its header, seven bytes, if the configuration of its key offers them.

    Raises:
        ChannelTamperError: ``channel-not-opened``: another KEM, or a pair that the configuration does not offer.
    """
    key_id, kem, kdf, aead = header[0], *(int.from_bytes(header[at : at + 2], "big") for at in (1, 3, 5))
    if (key_id, kem) != (config.key_id, config.kem) or (kdf, aead) not in config.pairs:
        raise not_opened()
    try:
        suite = Suite(kem=kem, aead=aead)
    except ValueError as exc:
        raise not_opened() from exc
    if suite.to_bytes() != header[1:]:
        raise not_opened()  # an offered KDF without support
    return suite


def begin_opening(header: bytes, enc: bytes, *, form: MessageForm, suite: Suite, key: HpkeKey) -> Opening:
    """Derive the secret of a request from its header and the KEM's ciphertext as received; altered ones open nothing.

    Raises:
        ChannelTamperError: ``channel-not-opened``.
    """
    context = HpkeContext(suite, key.decapsulate(enc), _info(form, header))
    return Opening(form=form, suite=suite, enc=enc, context=context, key_id=header[0])


def seal_answer(opening: Opening, message: bytes, *, random: Callable[[int], bytes]) -> bytes:
    """Seal one whole answer."""
    nonce, cipher = opening.answer_key(random)
    return nonce + cipher.seal(message)


def open_answer(sealing: Sealing, body: bytes) -> bytes:
    """Open one whole answer to a request.

    Raises:
        ChannelTamperError: ``channel-not-opened``: for another request, or altered.
    """
    size = sealing.nonce_bytes
    if len(body) < size + TAG_BYTES:
        raise not_opened()
    return sealing.answer_cipher(body[:size]).open(body[size:])


def _info(form: MessageForm, header: bytes) -> bytes:
    return form.request_label + b"\x00" + header
