"""A vault and a Verifier on one TLS server, written from their specification. It imports nothing of this project.

A test changes single statements of an honest answer, before they are signed.
"""

import base64
import hashlib
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes, keywrap
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

Json = dict[str, Any]  # Any: JSON that the tests look into
Public = rsa.RSAPublicKey | ec.EllipticCurvePublicKey
Change = Callable[[Json], Any]
VERSION = "0123456789abcdef0123456789abcdef"
POLICY = b'{"version":"1.0.0","anyOf":[{"authority":"https://localhost","allOf":[{"claim":"x","equals":"y"}]}]}'
REPORT_DATA_AT = {"SevSnpVm": 0x50, "TdxVm": 48 + 520}
KEYS: dict[str, Any] = {
    "rsa": rsa.generate_private_key(public_exponent=65537, key_size=2048),
    "p256": ec.generate_private_key(ec.SECP256R1()),
    "p384": ec.generate_private_key(ec.SECP384R1()),
    "p256k": ec.generate_private_key(ec.SECP256K1()),
    "oct": bytes(range(32)),
}
SIGNER = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_SIGNER = rsa.generate_private_key(public_exponent=65537, key_size=2048)
VERIFIER_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)


def now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251  this server is an edge, and imports nothing of the project


def b64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unb64url(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def number(value: int, size: int = 0) -> str:
    return b64url(value.to_bytes(size or (value.bit_length() + 7) // 8, "big"))


def rsa_members(public: rsa.RSAPublicKey) -> Json:
    numbers = public.public_numbers()
    return {"kty": "RSA", "n": number(numbers.n), "e": number(numbers.e, 4)}


def public_members(key: Any) -> Json:  # noqa: ANN401  keys of several kinds
    if isinstance(key, bytes):
        return {"kty": "oct-HSM"}
    if isinstance(key, rsa.RSAPrivateKey):
        return {**rsa_members(key.public_key()), "kty": "RSA-HSM"}
    names = {"secp256r1": "P-256", "secp384r1": "P-384", "secp256k1": "P-256K"}
    point, size = key.public_key().public_numbers(), (key.curve.key_size + 7) // 8
    crv = names[key.curve.name]
    return {"kty": "EC-HSM", "crv": crv, "x": number(point.x, size), "y": number(point.y, size)}


def material(key: Any) -> bytes:  # noqa: ANN401  keys of several kinds
    return key if isinstance(key, bytes) else key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())


def wrapped(kek: Json, content: bytes, *, oaep: hashes.HashAlgorithm | None = None) -> bytes:
    """Return a ciphertext of ``RSA_AES_KEY_WRAP_256``."""
    n, e = (int.from_bytes(unb64url(kek[name]), "big") for name in ("n", "e"))
    wrapping, chosen = bytes(range(32)), oaep or hashes.SHA256()
    first = rsa.RSAPublicNumbers(e, n).public_key().encrypt(wrapping, padding.OAEP(padding.MGF1(chosen), chosen, None))
    return first + keywrap.aes_key_wrap_with_padding(wrapping, content)


# -- certificates


@dataclass
class Pki:
    """A root and what it issues."""

    root_key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def __post_init__(self) -> None:
        self.root = self._signed(self.root_key.public_key(), "root", ca=True)

    def leaf(
        self, public: Public, *names: str, client: bool = False, days: int = 30, began: int = 1
    ) -> x509.Certificate:
        usage = ExtendedKeyUsageOID.CLIENT_AUTH if client else ExtendedKeyUsageOID.SERVER_AUTH
        more = (
            x509.SubjectAlternativeName([x509.DNSName(name) for name in names]),
            x509.ExtendedKeyUsage([usage]),
        )
        return self._signed(public, names[0], more=more, days=days, began=began)

    def _signed(
        self,
        public: Public,
        name: str,
        *,
        ca: bool = False,
        more: tuple[Any, ...] = (),
        days: int = 30,
        began: int = 1,
    ) -> x509.Certificate:
        issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "root")])
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        begin = now() - timedelta(days=began)
        others = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
        flags = dict.fromkeys((*others, "encipher_only", "decipher_only"), False)
        usage = x509.KeyUsage(digital_signature=not ca, key_cert_sign=ca, crl_sign=ca, **flags)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(begin + timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.root_key.public_key()), critical=False
            )
        )
        for extension in more:
            builder = builder.add_extension(extension, critical=False)
        return builder.sign(self.root_key, hashes.SHA256())


def der(certificate: x509.Certificate) -> str:
    return base64.b64encode(certificate.public_bytes(Encoding.DER)).decode()


def pem(*certificates: x509.Certificate) -> bytes:
    return b"".join(one.public_bytes(Encoding.PEM) for one in certificates)


# -- the services


@dataclass
class FakeVault:
    """The vault and the Verifier, honest but for what a test changes.

    Attributes:
        claims: changes claims of the Verifier's token.
        verifier_key: signs it.
        discovery, jwks: change what the Verifier publishes.
        payload: changes the payload of the signed answer.
        hsm: changes ``key_hsm``.
        ciphertext: makes the ciphertext for a key of the guest and the material.
        header: changes the header of the signed answer.
        sign: makes the signed answer of payload and header.
        answer: replaces the answer to a path's last segment.
        asked: requests, as path and JSON.
    """

    pki: Pki
    key: str = "rsa"
    port: int = 0
    claims: Change = lambda claims: claims
    verifier_key: rsa.RSAPrivateKey = VERIFIER_KEY
    discovery: Change = lambda document: document
    jwks: Change = lambda document: document
    payload: Change = lambda payload: payload
    hsm: Change = lambda hsm: hsm
    ciphertext: Callable[[Json, bytes], bytes] = wrapped
    header: Change = lambda header: header
    sign: Callable[[Json, Json], str] = lambda payload, header: jwt.encode(payload, SIGNER, "RS256", headers=header)
    answer: dict[str, tuple[int, dict[str, str], bytes]] = field(default_factory=dict)
    policy: bytes = POLICY
    asked: list[tuple[str, Json]] = field(default_factory=list)
    bearers: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}"

    def address(self, version: str | None = None) -> str:
        return f"{self.url}/keys/model" + (f"/{version}" if version else "")

    def post(self, path: str, body: Json) -> tuple[int, dict[str, str], bytes]:
        place, _, query = path.partition("?")
        self.asked.append((path, body))
        last = place.rpartition("/")[2]
        if last in self.answer:
            return self.answer[last]
        document = self._token(last, body) if place.startswith("/attest/") else self._release(place, query, body)
        return 200, {}, json.dumps(document).encode()

    def get(self, path: str) -> tuple[int, dict[str, str], bytes]:
        self.asked.append((path, {}))
        if path in self.answer:
            return self.answer[path]
        if path == "/.well-known/openid-configuration":
            document = self.discovery({"issuer": self.url, "jwks_uri": f"{self.url}/certs"})
        else:
            assert path == "/certs"
            public = rsa_members(VERIFIER_KEY.public_key())
            document = self.jwks({"keys": [{**public, "e": "AQAB", "kid": "verifier"}]})
        return 200, {}, json.dumps(document).encode()

    def _token(self, kind: str, body: Json) -> Json:
        if kind == "SevSnpVm":
            report = json.loads(unb64url(body["report"]))
            assert b"BEGIN CERTIFICATE" in unb64url(report["VcekCertChain"])
            evidence = unb64url(report["SnpReport"])
            assert len(evidence) == 1184
        else:
            evidence = unb64url(body["quote"])
        assert body["runtimeData"]["dataType"] == "JSON"
        runtime = unb64url(body["runtimeData"]["data"])
        data = evidence[REPORT_DATA_AT[kind] : REPORT_DATA_AT[kind] + 64]
        assert data == hashlib.sha256(runtime).digest() + bytes(32)
        issued = int(now().timestamp())
        claims: Json = {
            "iss": self.url,
            "iat": issued,
            "nbf": issued,
            "exp": issued + 3600,
            "x-ms-ver": "1.0",
            "x-ms-runtime": json.loads(runtime),
        }
        if kind == "SevSnpVm":
            measurement = evidence[0x90:0xC0].hex()
            claims |= {
                "x-ms-attestation-type": "sevsnpvm",
                "x-ms-sevsnpvm-reportdata": data.hex(),
                "x-ms-sevsnpvm-launchmeasurement": measurement,
            }
        else:
            claims |= {"x-ms-attestation-type": "tdxvm", "tdx_report_data": data.hex()}
            claims |= {f"tdx_{name}": "00" * 48 for name in ("mrtd", "rtmr0", "rtmr1", "rtmr2", "rtmr3")}
        header = {"kid": "verifier", "jku": f"{self.url}/certs"}
        return {"token": jwt.encode(self.claims(claims), self.verifier_key, "RS256", headers=header)}

    def _release(self, place: str, query: str, body: Json) -> Json:
        assert place in {"/keys/model/release", f"/keys/model/{VERSION}/release"}
        assert query == "api-version=7.4"
        assert set(body) == {"target", "nonce", "enc"}
        claims = jwt.decode(body["target"], options={"verify_signature": False})
        (kek,) = claims["x-ms-runtime"]["keys"]
        assert kek["key_ops"] == ["encrypt"]
        released = KEYS[self.key]
        hsm = {
            "schema_version": "1.0",
            "header": {"kid": kek["kid"], "alg": "dir", "enc": body["enc"]},
            "ciphertext": b64url(self.ciphertext(kek, material(released))),
        }
        asked = f"{self.url}{place.removesuffix('/release')}"
        key = {"kid": f"{self.url}/keys/model/{VERSION}", "key_ops": ["encrypt"], **public_members(released)}
        payload = {
            "request": {"api-version": "7.4", "enc": body["enc"], "kid": asked, "nonce": body["nonce"]},
            "response": {
                "key": {
                    "key": {**key, "key_hsm": b64url(json.dumps(self.hsm(hsm)).encode())},
                    "attributes": {"enabled": True, "exportable": True},
                    "release_policy": {"data": b64url(self.policy), "immutable": False},
                }
            },
        }
        leaf = self.pki.leaf(SIGNER.public_key(), "localhost")
        header = self.header({"kid": "signer", "x5c": [der(leaf), der(self.pki.root)]})
        return {"value": self.sign(self.payload(payload), header)}


@contextmanager
def served(fake: FakeVault, folder: Path) -> Iterator[FakeVault]:
    """Serve a vault at ``localhost`` over TLS."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _send(self, status: int, headers: dict[str, str], content: bytes) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_GET(self) -> None:
            self._send(*fake.get(self.path))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path.startswith("/keys/"):
                fake.bearers.append(self.headers["Authorization"])
            self._send(*fake.post(self.path, body))

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    private = ec.generate_private_key(ec.SECP256R1())
    certificate = fake.pki.leaf(private.public_key(), "localhost")
    (folder / "tls.pem").write_bytes(
        pem(certificate) + private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )
    (folder / "ca.pem").write_bytes(pem(fake.pki.root))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.pem")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    fake.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def spki(key: rsa.RSAPrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
