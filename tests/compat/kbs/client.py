"""A client of the Key Broker Service's protocol, written from its specification. It imports nothing of this project.

It does what guests do: ask, attest when told to, ask again, open the answer.
"""

import base64
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.keywrap import aes_key_unwrap

Json = Any
Answer = Any
"""A response, with the interface of httpx."""
PrivateKey = Any
"""RSA, or a curve's."""
Attester = Callable[[bytes], Json]
"""Returns evidence over a digest of 48 bytes."""


def b64url(data: bytes) -> str:
    """Encode without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unb64url(text: str) -> bytes:
    """Decode without padding."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def canonical(document: Json) -> bytes:
    """Return the canonical JSON of texts and objects."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def sample(digest: bytes) -> Json:
    """Return sample evidence."""
    return {"svn": "1", "report_data": base64.b64encode(digest).decode()}


def public_jwk(key: PrivateKey) -> Json:
    """Return the key as ``tee-pubkey``."""
    numbers = key.public_key().public_numbers()
    if isinstance(key, rsa.RSAPrivateKey):
        n, e = (number.to_bytes((number.bit_length() + 7) // 8, "big") for number in (numbers.n, numbers.e))
        return {"kty": "RSA", "alg": "RSA-OAEP-256", "n": b64url(n), "e": b64url(e)}
    size = (key.curve.key_size + 7) // 8
    x, y = (b64url(number.to_bytes(size, "big")) for number in (numbers.x, numbers.y))
    return {"kty": "EC", "crv": f"P-{key.curve.key_size}", "alg": "ECDH-ES+A256KW", "x": x, "y": y}


@dataclass
class Guest:
    """A guest with a key; ``http`` is any client with the interface of httpx, without cookies of its own."""

    http: Any
    tee: str = "sample"
    attester: Attester = sample
    devices: dict[str, Attester] = field(default_factory=dict)
    key: PrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    version: str = "0.4.0"
    init_data: str | None = None
    requests: int = 0
    cookie: str | None = None
    token: str | None = None

    def send(self, method: str, path: str, body: Json = None, **headers: str) -> Answer:
        """Send one request with the session's cookie, and keep the one of the answer."""
        self.requests += 1
        sent = {"cookie": self.cookie} if self.cookie else {}
        self.http.cookies.clear()
        content = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        answer = self.http.request(method, f"/kbs/v0/{path}", content=content, headers={**sent, **headers})
        if "set-cookie" in answer.headers:
            self.cookie = answer.headers["set-cookie"].split(";")[0]
        return answer

    def auth(self) -> Answer:
        """Ask for a nonce."""
        extra = {"supported-hash-algorithms": ["sha256", "sha384", "sha512", "sm3"]}
        return self.send("POST", "auth", {"version": self.version, "tee": self.tee, "extra-params": extra})

    def attestation(self, nonce: str) -> Json:
        """Return the body of /attest."""
        device = {"nonce": nonce, "tee-pubkey": public_jwk(self.key)}
        digest = hashlib.sha384(canonical(device)).digest()
        if self.version == "0.2.0":
            return {"tee-pubkey": device["tee-pubkey"], "tee-evidence": self.attester(digest)}
        found = {name: make(digest) for name, make in self.devices.items()}
        additional = json.dumps(found, separators=(",", ":")) if found else ""
        primary = hashlib.sha384(canonical({**device, "additional-evidence": additional})).digest()
        init_data = None if self.init_data is None else {"format": "toml", "body": self.init_data}
        evidence = {"primary_evidence": self.attester(primary), "additional_evidence": additional}
        return {"init-data": init_data, "runtime-data": device, "tee-evidence": evidence}

    def attest(self) -> Answer:
        """Do the handshake, and return the last answer."""
        answer = self.auth()
        if answer.status_code == 200:
            answer = self.send("POST", "attest", self.attestation(answer.json()["nonce"]))
        if answer.status_code == 200:
            self.token = answer.json()["token"]
        return answer

    def get(self, path: str, **headers: str) -> Answer:
        """Ask for a resource as guests do: after 401 they attest and ask again."""
        answer = self.send("GET", f"resource/{path}", **headers)
        if answer.status_code == 401:
            attested = self.attest()
            return self.send("GET", f"resource/{path}") if attested.status_code == 200 else attested
        return answer

    def open(self, answer: Answer) -> bytes:
        """Open an answer; the additional data is the header as this client writes it."""
        document = answer.json()
        header = json.loads(unb64url(document["protected"]))
        epk = {"epk": {name: header["epk"][name] for name in ("crv", "kty", "x", "y")}} if "epk" in header else {}
        written = json.dumps({"alg": header["alg"], "enc": header["enc"], **epk}, separators=(",", ":"))
        content_key = self._content_key(header, unb64url(document["encrypted_key"]))
        sealed = unb64url(document["ciphertext"]) + unb64url(document["tag"])
        return AESGCM(content_key).decrypt(unb64url(document["iv"]), sealed, b64url(written.encode()).encode())

    def _content_key(self, header: Json, wrapped: bytes) -> bytes:
        if isinstance(self.key, rsa.RSAPrivateKey):
            return self.key.decrypt(wrapped, padding.OAEP(padding.MGF1(SHA256()), SHA256(), None))
        x, y = (int.from_bytes(unb64url(header["epk"][name]), "big") for name in ("x", "y"))
        shared = self.key.exchange(ec.ECDH(), ec.EllipticCurvePublicNumbers(x, y, self.key.curve).public_key())
        algorithm = b"ECDH-ES+A256KW"
        info = len(algorithm).to_bytes(4, "big") + algorithm + bytes(8) + (256).to_bytes(4, "big")
        return aes_key_unwrap(hashlib.sha256(b"\0\0\0\1" + shared + info).digest(), wrapped)
