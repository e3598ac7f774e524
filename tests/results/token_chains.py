"""Chains of certificates for tokens, as Google's PKI tokens bring them along, with any defect that a test wants."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID, ObjectIdentifier

from tests.results.services import AT, GOOGLE, Service, rsa_key

DAY = timedelta(days=1)
ROOT_KEY, ISSUING_KEY, LEAF_KEY = rsa_key(10), rsa_key(11), rsa_key(12)
Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


@dataclass
class Node:
    """A certificate to be, with the flags that a test wants."""

    name: str
    key: Key
    ca: bool | None = True
    path_length: int | None = None
    usage: str | None = "key_cert_sign"
    begins: timedelta = -DAY
    ends: timedelta = DAY
    critical: bool = False
    digest: hashes.SHA224 | hashes.SHA256 = field(default_factory=hashes.SHA256)

    def issue(self, issuer: Node) -> x509.Certificate:
        built = x509.CertificateBuilder().subject_name(_name(self.name)).issuer_name(_name(issuer.name))
        built = built.public_key(self.key.public_key()).serial_number(7)
        built = built.not_valid_before(AT + self.begins).not_valid_after(AT + self.ends)
        if self.ca is not None:
            built = built.add_extension(x509.BasicConstraints(self.ca, self.path_length), critical=True)
        if self.usage is not None:
            built = built.add_extension(_usage(self.usage), critical=True)
        if self.critical:
            unknown = x509.UnrecognizedExtension(ObjectIdentifier("1.2.3.4"), b"\x05\x00")
            built = built.add_extension(unknown, critical=True)
        return built.sign(issuer.key, self.digest)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _usage(name: str) -> x509.KeyUsage:
    names = ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
    flags = dict.fromkeys((*names, "key_cert_sign", "crl_sign", "encipher_only", "decipher_only"), False)
    return x509.KeyUsage(**{**flags, name: True})


_ROOT = Node(name="Test Root", key=ROOT_KEY)
_ISSUING = Node(name="Test Issuing", key=ISSUING_KEY, path_length=0)
_LEAF = Node(name="Test Leaf", key=LEAF_KEY, ca=False, usage="digital_signature")
root, issuing, leaf = partial(replace, _ROOT), partial(replace, _ISSUING), partial(replace, _LEAF)


def chain(*nodes: Node) -> list[x509.Certificate]:
    """Certificates of nodes, leaf first, each issued by the next and the last by itself."""
    return [node.issue(issuer) for node, issuer in zip(nodes, (*nodes[1:], nodes[-1]), strict=True)]


def encoded(certificates: Sequence[x509.Certificate]) -> list[str]:
    return [base64.b64encode(one.public_bytes(Encoding.DER)).decode() for one in certificates]


GOOD = chain(leaf(), issuing(), root())
ROOTS = {GOOGLE: (GOOD[-1],)}
SIGNER = Service(number=12)
