"""A vault for tests: its certificates, its login service, a Verifier of Azure's kind, and the file that names them.

Nothing here imports the vault's code: clients' tests use it, too.
"""

import base64
import hmac
import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.keywrap import aes_key_unwrap_with_padding
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.key_usages import key_usage

MAA = "https://shared.eus.attest.azure.net"
LOGIN = "https://login.localhost/tenant-1"
ISSUER = f"{LOGIN}/v2.0"
MEASUREMENT = "ab" * 48
NOT_STATED = {"unchecked": "the Verifier does not state it"}
SNP: dict[str, object] = {
    "products": NOT_STATED,
    "measurement": ["image"],
    "minimum_tcb": {"Genoa": {"bootloader": 10, "tee": 0, "snp": 27, "microcode": 88}},
    "signing_key": NOT_STATED,
    "provisional_firmware": NOT_STATED,
    "rollback_protection": NOT_STATED,
    "rolled_back_since_launch": NOT_STATED,
    "masked_chip_id": NOT_STATED,
    "platform_info": {"alias_check_complete": NOT_STATED},
}
"""Demands on a report, as far as a token of Azure states it."""
POLICY = {
    "schema": "attest.policy/1",
    "name": "vault",
    "version": 1,
    "verifiers": [{"issuer": MAA, "maximum_age": 28_800}],
    "reference_values": {"image": {"values": [MEASUREMENT], "origin": "a test"}},
    "snp": SNP,
}
RELEASE_POLICY = {
    "version": "1.0.0",
    "anyOf": [{"authority": MAA, "allOf": [{"claim": "x-ms-attestation-type", "equals": "sevsnpvm"}]}],
}
ALL = ["create", "import", "get", "update", "list", "release", "rotate", "delete"]
OAEP = {
    "CKM_RSA_AES_KEY_WRAP": hashes.SHA1(),  # noqa: S303  the default of the published SDKs
    "RSA_AES_KEY_WRAP_256": hashes.SHA256(),
    "RSA_AES_KEY_WRAP_384": hashes.SHA384(),
}
Document = dict[str, Any]  # Any: JSON that the tests look into


@cache
def rsa_key(name: str, bits: int = 2048) -> rsa.RSAPrivateKey:
    """A key of this run; one name is one key."""
    del name
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)


def b64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def from_b64url(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def public_jwk(key: rsa.RSAPrivateKey, **more: object) -> Document:
    numbers = key.public_key().public_numbers()
    n, e = (number.to_bytes((number.bit_length() + 7) // 8, "big") for number in (numbers.n, numbers.e))
    return {"kty": "RSA", "n": b64url(n), "e": b64url(e), **more}


# -- files


def write_certificates(folder: Path, *, at: datetime, names: tuple[str, ...] = ("v1.localhost", "localhost")) -> None:
    """Write ``ca.pem``, and ``vault.crt`` with ``vault.key``: a server certificate of the vault."""
    ca, leaf = rsa_key("ca"), rsa_key("vault")
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a test's CA")])
    root = (
        _builder(subject, subject, ca, at)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(key_usage("key_cert_sign", "crl_sign"), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(ca.public_key()), critical=False)
        .sign(ca, hashes.SHA256())
    )
    of_vault = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
    certificate = (
        _builder(of_vault, subject, leaf, at)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(one) for one in names]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca.public_key()), critical=False)
        .sign(ca, hashes.SHA256())
    )
    pem = root.public_bytes(Encoding.PEM)
    (folder / "ca.pem").write_bytes(pem)
    (folder / "vault.crt").write_bytes(certificate.public_bytes(Encoding.PEM) + pem)
    (folder / "vault.key").touch(mode=0o600)
    (folder / "vault.key").write_bytes(leaf.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def _builder(subject: x509.Name, issuer: x509.Name, key: rsa.RSAPrivateKey, at: datetime) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(at - timedelta(days=1))
        .not_valid_after(at + timedelta(days=90))
    )


def write_vault(
    folder: Path,
    *,
    at: datetime,
    host: str = "v1.localhost:8443",
    more: str = "",
    policy: Document | None = None,
    authority: str = 'keys = "maa.jwks.json"',
    names: tuple[str, ...] = ("v1.localhost", "localhost"),
) -> Path:
    """Write the file of the setting ``skr_file`` and the files that it names."""
    write_certificates(folder, at=at, names=names)
    (folder / "vault.yaml").write_text(json.dumps(POLICY if policy is None else policy))
    (folder / "maa.jwks.json").write_text(json.dumps({"keys": [public_jwk(rsa_key("maa"), kid="maa-1")]}))
    (folder / "login.jwks.json").write_text(json.dumps({"keys": [public_jwk(rsa_key("login"), kid="login-1")]}))
    resource = f"https://{host.partition('.')[2]}"
    path = folder / "skr.toml"
    path.write_text(f"""
{more}

[[vaults]]
host = "{host}"
policy = "vault.yaml"
resource = "{resource}"
login = "{LOGIN}"
signing_certificate = "vault.crt"
signing_key = "vault.key"

[[authorities]]
url = "{MAA}"
{authority}

[[callers]]
keys = "login.jwks.json"
issuer = "{ISSUER}"
audience = "{resource}"

[[callers.permissions]]
role = "officer"
actions = {json.dumps(ALL)}

[[callers.permissions]]
role = "reader"
actions = ["get"]

[[callers.permissions]]
appid = "workload-1"
actions = ["release"]
""")
    return path


# -- tokens


def bearer(
    at: datetime,
    *,
    audience: str = "https://localhost:8443",
    role: str = "officer",
    kid: str = "login-1",
    **claims: object,
) -> str:
    """Return a token of the login service."""
    now = int(at.timestamp())
    members = {"iss": ISSUER, "aud": audience, "iat": now, "nbf": now, "exp": now + 600, "sub": "someone"}
    return jwt.encode({**members, "roles": [role], **claims}, rsa_key("login"), algorithm="RS256", headers={"kid": kid})


@dataclass
class Workload:
    """A confidential VM that has a token of its Verifier."""

    kek: rsa.RSAPrivateKey = field(default_factory=lambda: rsa_key("kek"))
    kid: str = "TpmEphemeralEncryptionKey"

    def jwk(self, **more: object) -> Document:
        return public_jwk(self.kek, **{"kid": self.kid, "key_ops": ["encrypt"], **more})

    def claims(self, at: datetime, **more: object) -> Document:
        now = int(at.timestamp())
        return {
            "iss": MAA,
            "iat": now - 60,
            "nbf": now - 60,
            "exp": now + 3600,
            "jti": "b65da1",
            "x-ms-ver": "1.0",
            "x-ms-policy-hash": b64url(bytes(32)),
            "x-ms-attestation-type": "sevsnpvm",
            "x-ms-compliance-status": "azure-compliant-uvm",
            "x-ms-sevsnpvm-bootloader-svn": 10,
            "x-ms-sevsnpvm-chip-family": "Genoa",
            "x-ms-sevsnpvm-guestsvn": 7,
            "x-ms-sevsnpvm-hostdata": "00" * 32,
            "x-ms-sevsnpvm-is-debuggable": False,
            "x-ms-sevsnpvm-launchmeasurement": MEASUREMENT,
            "x-ms-sevsnpvm-microcode-svn": 88,
            "x-ms-sevsnpvm-migration-allowed": False,
            "x-ms-sevsnpvm-reportdata": "ef" * 64,
            "x-ms-sevsnpvm-smt-allowed": True,
            "x-ms-sevsnpvm-snpfw-svn": 27,
            "x-ms-sevsnpvm-tee-svn": 0,
            "x-ms-sevsnpvm-vmpl": 0,
            "x-ms-runtime": {"keys": [self.jwk()]},
            **more,
        }

    def token(
        self, at: datetime, claims: Document | None = None, *, header: Document | None = None, key: str = "maa"
    ) -> str:
        """Return a token of the Verifier, perhaps with other claims, and without those that are None."""
        members = {name: one for name, one in self.claims(at, **(claims or {})).items() if one is not None}
        head = {"kid": "maa-1", "jku": f"{MAA}/certs", **(header or {})}
        return jwt.PyJWS().encode(json.dumps(members).encode(), rsa_key(key), algorithm="RS256", headers=head)

    def symmetric_token(self, at: datetime) -> str:
        """Return a token with a MAC, for which the Verifier's public key is the secret."""
        head = {"alg": "HS256", "typ": "JWT", "kid": "maa-1"}
        message = ".".join(b64url(json.dumps(one).encode()) for one in (head, self.claims(at)))
        public = rsa_key("maa").public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        return f"{message}.{b64url(hmac.digest(public, message.encode(), 'sha256'))}"

    def guest_claims(self, at: datetime) -> Document:
        """Return claims of a VM's guest agent: the report's are one level below, beside the keys of the virtual TPM."""
        inside = {name: one for name, one in self.claims(at).items() if name.startswith("x-ms-")}
        vtpm = {"kid": "HCLEkPub", "kty": "RSA", "key_ops": ["encrypt"], **public_jwk(rsa_key("vtpm"))}
        isolation = {**inside, "x-ms-compliance-status": "azure-compliant-cvm", "x-ms-runtime": {"keys": [vtpm]}}
        return {
            **dict.fromkeys(name for name in inside if name.startswith("x-ms-sevsnpvm-")),
            "secureboot": True,
            "x-ms-attestation-type": "azurevm",
            "x-ms-isolation-tee": isolation,
            "x-ms-runtime": {"client-payload": {"nonce": "bm9uY2U="}, "keys": [self.jwk()]},
        }

    def open(self, value: str, *, enc: str) -> tuple[Document, bytes]:
        """Open an answer: its payload, and the key."""
        payload = json.loads(from_b64url(value.split(".")[1]))
        key_hsm = json.loads(from_b64url(payload["response"]["key"]["key"]["key_hsm"]))
        assert key_hsm["header"] == {"kid": self.kid, "alg": "dir", "enc": enc}
        assert key_hsm["schema_version"] == "1.0"
        ciphertext, first = from_b64url(key_hsm["ciphertext"]), self.kek.key_size // 8
        assert len(ciphertext) >= first + 16
        oaep = padding.OAEP(padding.MGF1(OAEP[enc]), OAEP[enc], None)
        wrapping = self.kek.decrypt(ciphertext[:first], oaep)
        assert len(wrapping) == 32
        return payload, aes_key_unwrap_with_padding(wrapping, ciphertext[first:])


def require_signed(value: str, *, ca: x509.Certificate, host: str) -> None:
    """Verify an answer's signature by the chain in its header up to this CA, and the name of its first certificate."""
    head, payload, signature = value.split(".")
    header = json.loads(from_b64url(head))
    chain = [x509.load_der_x509_certificate(base64.b64decode(one)) for one in header["x5c"]]
    assert header["alg"] == "RS256"
    assert header["x5t#S256"] == b64url(chain[0].fingerprint(hashes.SHA256()))
    public = chain[0].public_key()
    assert isinstance(public, rsa.RSAPublicKey)
    public.verify(from_b64url(signature), f"{head}.{payload}".encode(), padding.PKCS1v15(), hashes.SHA256())
    chain[0].verify_directly_issued_by(ca)
    names = chain[0].extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert host in names.get_values_for_type(x509.DNSName)
    usages = chain[0].extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert ExtendedKeyUsageOID.SERVER_AUTH in usages


def digest_of(policy: bytes) -> str:
    return sha256(policy).hexdigest()
