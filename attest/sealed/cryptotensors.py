"""Tensors of CryptoTensors files: verified, decrypted chunk by chunk, in parallel, into the arrays that are kept.

::

    with open_cryptotensors(source_of("model.safetensors"), key=master_key, trusted=(signer,)) as tensors:
        tensors.get_tensor("wte")

See ``cryptotensors_header`` for what is verified, and why.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

from attest.errors import ConfigurationError, SealedFileError, SealedTamperError
from attest.sealed.cryptotensors_header import (
    ALGORITHMS,
    TAG_BYTES,
    LocalPolicy,
    TensorEncryption,
    VerifiedCryptoTensors,
    verify_cryptotensors,
)
from attest.sealed.locations import connections_of
from attest.sealed.safetensors import Plaintext, TensorFile
from attest.sealed.worker_threads import spread, thread_count, wipe

if TYPE_CHECKING:
    from attest.sealed.arrays import Framework
    from attest.sealed.tensor_header import TensorInfo

__all__ = ["CryptoTensorsFile", "MasterKey", "open_cryptotensors"]

MAX_ONE_SHOT_BYTES: Final = (1 << 31) - 1 - TAG_BYTES
"""What the cipher's library takes at once; a larger tensor of version 1 cannot be read."""

MasterKey = Callable[[VerifiedCryptoTensors], bytes]
"""Obtains the master key that a verified header names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """A part of a tensor on its way into memory."""

    info: TensorInfo
    how: TensorEncryption
    cipher: AESGCM | ChaCha20Poly1305
    chunk_size: int
    start: int
    memory: memoryview


class CryptoTensorsFile(TensorFile):
    """The tensors of one CryptoTensors file; see ``open_cryptotensors``."""

    batched: ClassVar[bool] = False

    def __init__(
        self,
        source: Plaintext,
        *,
        key: bytes | MasterKey,
        trusted: Collection[Ed25519PublicKey],
        policy: LocalPolicy | None,
        unverified_tensors: bool,
        framework: Framework,
        threads: int | None,
    ) -> None:
        """Verify the header, and only then ask for the key."""
        self._key = key
        self._trusted = trusted
        self._policy = policy
        self._unverified = unverified_tensors
        self._threads = thread_count(threads or connections_of(source))
        super().__init__(source, framework=framework)

    def _judge(self, raw: bytes) -> None:
        self.verified = verify_cryptotensors(raw, self.header, trusted=self._trusted, policy=self._policy)
        self._master = _cipher(self.verified.algorithm, _master_key(self._key, self.verified))

    def metadata(self) -> dict[str, str] | None:
        """Return the free text of its writer, or None; what the format keeps there is left out."""
        return dict(self.verified.metadata) or None

    def read_into(self, info: TensorInfo, start: int, memory: memoryview) -> None:
        """Fill a buffer with the bytes of a tensor from an offset in it; see ``TensorFile``."""
        how = self.verified.encryption.get(info.name)
        if how is None:
            self._read_unverified(info, start, memory)
            return
        if not memory.nbytes:
            return
        size = self.verified.chunk_size or info.nbytes
        if size > MAX_ONE_SHOT_BYTES:
            raise _too_long(info, size)
        cipher = _cipher(self.verified.algorithm, self._unwrapped(info, how))
        wanted = _Wanted(info=info, how=how, cipher=cipher, chunk_size=size, start=start, memory=memory)
        first, last = start // size, (start + memory.nbytes - 1) // size
        try:
            spread(
                last - first + 1,
                lambda n: self._chunk(wanted, first + n),
                threads=max(1, min(self._threads, last - first + 1)),
            )
        except BaseException:
            wipe(memory)
            raise

    def _chunk(self, wanted: _Wanted, index: int) -> None:
        """Decrypt one chunk, and put what is wanted of it where it belongs."""
        info, start, memory = wanted.info, wanted.start, wanted.memory
        begin = index * wanted.chunk_size
        end = min(begin + wanted.chunk_size, info.nbytes)
        ciphertext = memoryview(bytearray(end - begin + TAG_BYTES))
        self._plaintext.read_into(self.header.data_offset + info.begin + begin, ciphertext[: end - begin])
        ciphertext[end - begin :] = wanted.how.tags[index * TAG_BYTES : (index + 1) * TAG_BYTES]
        low, high = max(begin, start), min(end, start + memory.nbytes)
        target = memory[low - start : high - start]
        plain = target if (low, high) == (begin, end) else memoryview(bytearray(end - begin))
        try:
            wanted.cipher.decrypt_into(_nonce(wanted.how.iv, index), ciphertext, None, plain)
        except InvalidTag as exc:
            raise _tampered(info) from exc
        if plain is not target:
            target[:] = plain[low - begin : high - begin]

    def _unwrapped(self, info: TensorInfo, how: TensorEncryption) -> bytes:
        try:
            return self._master.decrypt(how.key_iv, how.wrapped_key, None)
        except InvalidTag as exc:
            raise SealedTamperError(
                f"this master key does not open {info.name[:200]}",
                code="sealed-key-mismatch",
                field=info.name[:200],
                expected=f"the key {self.verified.key_id!r}" if self.verified.key_id else None,
                hint="get the key that the file names",
            ) from exc

    def _read_unverified(self, info: TensorInfo, start: int, memory: memoryview) -> None:
        if not self._unverified:
            raise SealedTamperError(
                f"{info.name[:200]} is not encrypted, and nothing in the file protects its content",
                code="cryptotensors-tensor-unprotected",
                field=info.name[:200],
                hint="encrypt all tensors, or accept those that anybody could have changed: unverified_tensors=True",
            )
        self._plaintext.read_into(self.header.data_offset + info.begin + start, memory)


def open_cryptotensors(
    source: Plaintext,
    *,
    key: bytes | MasterKey,
    trusted: Collection[Ed25519PublicKey],
    policy: LocalPolicy | None = None,
    unverified_tensors: bool = False,
    framework: Framework = "numpy",
    threads: int | None = None,
) -> CryptoTensorsFile:
    """Open a CryptoTensors file of version 1 or 2 for reading tensor by tensor.

    Args:
        source: the file, wherever it lies; closed with what is returned, and when opening fails.
        key: the master key, 16 or 32 bytes; or where to get it, once the header is verified.
        trusted: keys whose signatures over the header count; none accepts nothing.
        policy: evaluates the file's own policy; without it only the one that always allows is accepted.
        unverified_tensors: also give tensors that are not encrypted, which nothing protects.
        framework: whose arrays it gives.
        threads: how many decrypt a tensor of several chunks; by default one for each processor or connection.

    Raises:
        SealedFileError: ``safetensors-malformed``, ``safetensors-dtype-unknown``, ``cryptotensors-malformed`` or
            ``cryptotensors-unsupported``. Reading raises ``SealedTamperError``: ``sealed-key-mismatch``,
            ``cryptotensors-tensor-invalid`` or ``cryptotensors-tensor-unprotected``.
        SignatureError: ``cryptotensors-signature-invalid``.
        AppraisalError: ``cryptotensors-policy-denied`` or ``cryptotensors-policy-not-evaluated``.
        ConfigurationError: ``sealed-key-length`` or ``tensor-framework-unavailable``.
        SealedSourceError: it cannot be read.
    """
    return CryptoTensorsFile(
        source,
        key=key,
        trusted=trusted,
        policy=policy,
        unverified_tensors=unverified_tensors,
        framework=framework,
        threads=threads,
    )


def _master_key(key: bytes | MasterKey, verified: VerifiedCryptoTensors) -> bytes:
    master = key if isinstance(key, bytes) else key(verified)
    length = ALGORITHMS[verified.algorithm]
    if len(master) != length:
        raise ConfigurationError(
            f"a file of {verified.algorithm} has a master key of {length} bytes, not {len(master)}",
            code="sealed-key-length",
            expected=f"{length} bytes",
            got=f"{len(master)} bytes",
        )
    return master


def _cipher(algorithm: str, key: bytes) -> AESGCM | ChaCha20Poly1305:
    return ChaCha20Poly1305(key) if algorithm == "chacha20poly1305" else AESGCM(key)


def _nonce(base: bytes, index: int) -> bytes:
    """Return the nonce of a chunk: its last four bytes count, big-endian. The header was refused if they run over."""
    return base[:8] + (int.from_bytes(base[8:], "big") + index).to_bytes(4, "big")


def _too_long(info: TensorInfo, size: int) -> SealedFileError:
    return SealedFileError(
        f"{info.name[:200]} is one ciphertext of {size} bytes, more than can be decrypted at once",
        code="cryptotensors-unsupported",
        field=info.name[:200],
        expected=f"at most {MAX_ONE_SHOT_BYTES} bytes in one piece",
        got=f"{size} bytes",
        hint="write the file again in version 2 of the format, which has chunks",
    )


def _tampered(info: TensorInfo) -> SealedTamperError:
    return SealedTamperError(
        f"{info.name[:200]} does not verify: the file was altered",
        code="cryptotensors-tensor-invalid",
        field=info.name[:200],
        clause="CryptoTensors, section __encryption__",
        hint="fetch the file again",
    )
