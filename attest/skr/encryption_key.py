"""The key to which a vault encrypts: made for one release, part of the runtime data of its evidence.

Spec: specs/azure-skr.md, sections 8 and 9; RFC 8017, section 7.1; RFC 5649.
"""

from __future__ import annotations

import json
from typing import Final, NoReturn

from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.keywrap import InvalidUnwrap, aes_key_unwrap_with_padding

from attest.context_managers import ClosedOnExit
from attest.encoding import JsonValue
from attest.errors import VerificationError
from attest.results.jose import rsa_jwk
from attest.results.raw_signatures import jwk_thumbprint

ENCRYPTION: Final = "RSA_AES_KEY_WRAP_256"
"""The one algorithm that this client asks for and accepts: OAEP with SHA-256, then AES key wrap with padding."""
KEK_BITS: Final = 3072
_OAEP: Final = padding.OAEP(mgf=padding.MGF1(SHA256()), algorithm=SHA256(), label=None)
_WRAPPING_KEY_BYTES: Final = 32
_LEAST_WRAPPED: Final = 16
"""Length of the shortest wrapped key."""
MAX_WRAPPED_BYTES: Final = 16 * 1024
"""Length of the longest; an RSA key of 4,096 bits has some 2,400 bytes."""


class EncryptionKey(ClosedOnExit):
    """A key pair for one release. The private key never leaves this object.

    Attributes:
        kid: thumbprint of the public key (RFC 7638).
        runtime_data: JSON with the public key, whose SHA-256 the evidence carries.
    """

    def __init__(self, private: rsa.RSAPrivateKey) -> None:
        self._private: rsa.RSAPrivateKey | None = private
        public = rsa_jwk(private.public_key())
        self.kid = jwk_thumbprint(public)
        self.jwk: dict[str, JsonValue] = {**public, "kid": self.kid, "key_ops": ["encrypt"]}
        self.runtime_data = json.dumps({"keys": [self.jwk]}, separators=(",", ":")).encode()

    @staticmethod
    def generate(bits: int = KEK_BITS) -> EncryptionKey:
        """Generate a key pair from the operating system's randomness."""
        return EncryptionKey(rsa.generate_private_key(public_exponent=65537, key_size=bits))

    def unwrap(self, ciphertext: bytes) -> bytearray:
        """Decrypt the wrapping key, and unwrap the material with it.

        Raises:
            VerificationError: ``skr-not-opened``: too short, encrypted to another key, or altered.
            ValueError: this key was closed.
        """
        if self._private is None:
            raise ValueError("this key was closed")
        size = (self._private.key_size + 7) // 8
        if not _LEAST_WRAPPED <= len(ciphertext) - size <= MAX_WRAPPED_BYTES:
            expected = f"{size + _LEAST_WRAPPED} to {size + MAX_WRAPPED_BYTES} bytes"
            raise _not_opened(expected, f"{len(ciphertext)} bytes")
        try:
            wrapping = self._private.decrypt(ciphertext[:size], _OAEP)
            if len(wrapping) != _WRAPPING_KEY_BYTES:
                raise _not_opened("a wrapping key of 32 bytes", f"{len(wrapping)} bytes")
            return bytearray(aes_key_unwrap_with_padding(wrapping, ciphertext[size:]))
        except (InvalidUnwrap, ValueError) as exc:
            raise _not_opened("a key that is encrypted to this client", "other bytes") from exc

    def close(self) -> None:
        """Forget the private key. The library frees its memory."""
        self._private = None

    def __repr__(self) -> str:
        return f"EncryptionKey(kid={self.kid!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an EncryptionKey does not leave its process")


def _not_opened(expected: str, got: str) -> VerificationError:
    return VerificationError(
        "the released key does not open: it is encrypted to another key, or it was altered",
        code="skr-not-opened",
        field="ciphertext",
        expected=expected,
        got=got,
        clause="docs/key-clients.md",
    )
