"""The key configuration for Oblivious HTTP that a machine's Ed25519 key signs.

Spec: specs/providers.md, section 2.1; RFC 9458, section 3.
"""

from __future__ import annotations

from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from attest.errors import BindingError, SignatureError
from attest.evidence.providers.document import StepFacts
from attest.evidence.providers.values import FORM, Members, given, hex_at, members_of, optional_hex_at, text_at

_SIGNATURE_BYTES = 64
_ALGORITHM = "ed25519"


@dataclass(frozen=True, slots=True, kw_only=True)
class OhttpKey:
    """A signed key configuration.

    Attributes:
        repeated: the configuration as it stands a second time in the document, or None.
    """

    signing_key: bytes
    key_config: bytes
    signature: bytes
    repeated: bytes | None

    def require_signed(self) -> StepFacts:
        """Require the signature to hold, and the second copy to be equal.

        Raises:
            SignatureError: ``provider-signature-invalid``.
            BindingError: ``provider-statement-mismatch``.
        """
        if self.repeated not in (None, self.key_config):
            raise BindingError(
                "ohttp_key_config is not the configuration that is signed",
                code="provider-statement-mismatch",
                field="ohttp_key_config",
                expected=self.key_config.hex(),
                got=self.repeated.hex() if self.repeated else "",
            )
        expected = "Ed25519 by signing_key over key_config"
        try:
            Ed25519PublicKey.from_public_bytes(self.signing_key).verify(self.signature, self.key_config)
        except InvalidSignature as exc:
            raise SignatureError(
                "the signature over the key configuration for Oblivious HTTP does not verify",
                code="provider-signature-invalid",
                field="ohttp_attestation.signature",
                expected=expected,
                got="a signature that does not verify",
            ) from exc
        return StepFacts(expected, f"verifies with {self.signing_key.hex()}")


def read_ohttp_key(machine: Members, path: str) -> OhttpKey | None:
    """Read the signed key configuration of a machine, or None where there is none.

    Raises:
        EvidenceError: ``provider-document-malformed``.
    """
    if not given(machine, "ohttp_attestation"):
        return None
    where = f"{path}.ohttp_attestation"
    members = members_of(machine["ohttp_attestation"], where)
    algorithm = text_at(members, "signing_algo", where)
    if algorithm != _ALGORITHM:
        raise FORM.malformed(f"{where}.signing_algo", _ALGORITHM, repr(algorithm[:40]))
    return OhttpKey(
        signing_key=hex_at(members, "signing_key", where),
        key_config=hex_at(members, "key_config", where, sizes=None),
        signature=hex_at(members, "signature", where, sizes=(_SIGNATURE_BYTES,)),
        repeated=optional_hex_at(machine, "ohttp_key_config", path, sizes=None),
    )
