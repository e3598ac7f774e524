"""Signature of answers: RS256 by a server certificate of the vault's name, with its chain in the header.

Spec: specs/azure-skr.md, section 10.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.hashes import SHA1, SHA256
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from attest.encoding import JsonValue, base64url_json, base64url_text
from attest.errors import ConfigurationError
from kms.config.skr import Vault
from kms.config.tls import read_material
from kms.domain.secret import EXPORT

Sign = Callable[[bytes], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerSigner:
    """Signer of the answers of one vault.

    Attributes:
        header: the protected header, encoded.
        not_after: the end of the first certificate that expires.
    """

    header: str
    sign: Sign
    not_after: datetime

    def signed(self, payload: Mapping[str, JsonValue]) -> str:
        """Return a payload as a JWS in compact form."""
        message = f"{self.header}.{base64url_json(payload)}"
        return f"{message}.{base64url_text(self.sign(message.encode()))}"


def open_signer(vault: Vault, *, at: datetime) -> AnswerSigner:
    """Return the signer of a vault, whose certificate is valid at this moment and names the vault.

    Raises:
        ConfigurationError: ``skr-signer-invalid``: the key is not RSA, or the certificate does not name the host; or as
            ``kms.config.tls.read_material``.
    """
    material = read_material(vault.certificate, vault.key, at=at)
    chain = material.chain
    with material.key_pem as pem:
        key = pem.lend(EXPORT, _examined_key)
    if not isinstance(key, rsa.RSAPrivateKey):
        raise _invalid(vault, "an RSA key, since answers are signed with RS256")
    if not any(_names(pattern, vault.name) for pattern in _dns_names(chain[0])):
        names = ", ".join(_dns_names(chain[0])) or "none"
        raise _invalid(vault, f"a certificate for {vault.name}, got one for {names}")
    return AnswerSigner(
        header=base64url_json(_header(chain)),
        sign=lambda message: key.sign(message, _PKCS1, SHA256()),
        not_after=material.not_after,
    )


def _examined_key(pem: memoryview) -> PrivateKeyTypes:
    """Read a key that ``read_material`` has examined."""
    return load_pem_private_key(bytes(pem), password=None, unsafe_skip_rsa_key_validation=True)


_PKCS1 = padding.PKCS1v15()


def _header(chain: tuple[x509.Certificate, ...]) -> dict[str, JsonValue]:
    leaf = chain[0]
    sha1 = leaf.fingerprint(SHA1())  # noqa: S303  the name of a certificate in this protocol
    return {
        "alg": "RS256",
        "typ": "JWT",
        "kid": sha1.hex().upper(),
        "x5t": base64url_text(sha1),
        "x5t#S256": base64url_text(leaf.fingerprint(SHA256())),
        "x5c": [base64.b64encode(one.public_bytes(Encoding.DER)).decode() for one in chain],
    }


def _dns_names(leaf: x509.Certificate) -> list[str]:
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [one.lower() for one in names.get_values_for_type(x509.DNSName)]


def _names(pattern: str, host: str) -> bool:
    """Return whether a name of a certificate covers a host; an asterisk stands for the first label."""
    label, _, rest = host.partition(".")
    return pattern == host or (bool(label and rest) and pattern == f"*.{rest}")


def _invalid(vault: Vault, expected: str) -> ConfigurationError:
    return ConfigurationError(
        f"answers of the vault {vault.host} cannot be signed with {vault.certificate}: expected {expected}",
        code="skr-signer-invalid",
        field="skr_file",
        expected=expected,
        hint="signing_certificate of its table [[vaults]] needs the vault's name as a DNS name (subjectAltName)",
    )
