"""Key usages of the certificates that tests make."""

from cryptography import x509

_ALL = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)


def key_usage(*used: str) -> x509.KeyUsage:
    """Return the extension with these usages and no other."""
    assert {*used} <= {*_ALL}, used
    return x509.KeyUsage(**{name: name in used for name in _ALL})
