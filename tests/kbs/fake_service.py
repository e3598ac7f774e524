"""A service of the protocol, written from its specification: it attests everyone, and lies where a test says so."""

import base64
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import jwt
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.keywrap import aes_key_wrap

Json = dict[str, Any]  # Any: JSON that the tests look into
SECRET = b"the content of a resource"
SIGNER = ec.generate_private_key(ec.SECP256R1())
CURVES = {"P-256": ec.SECP256R1(), "P-521": ec.SECP521R1()}
PROBLEM = "https://github.com/confidential-containers/kbs/errors/"
Lie = Callable[[httpx.Response], httpx.Response]


def b64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unb64url(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def refusal(status: int, variant: str, detail: str) -> httpx.Response:
    return httpx.Response(status, json={"type": f"{PROBLEM}{variant}", "detail": detail})


def ec_jwk(public: ec.EllipticCurvePublicKey, **more: str) -> Json:
    size = (public.curve.key_size + 7) // 8
    point = public.public_numbers()
    x, y = (b64url(number.to_bytes(size, "big")) for number in (point.x, point.y))
    return {"crv": f"P-{public.curve.key_size}", "kty": "EC", "x": x, "y": y, **more}


def wrapping_key(shared: bytes) -> bytes:
    algorithm = b"ECDH-ES+A256KW"
    info = len(algorithm).to_bytes(4, "big") + algorithm + bytes(8) + (256).to_bytes(4, "big")
    return hashlib.sha256(b"\0\0\0\1" + shared + info).digest()


def encrypted(key: Json, content: bytes = SECRET, **header: Any) -> Json:  # noqa: ANN401  JSON
    """Return a JWE to a guest's key; ``header`` replaces members of the protected header."""
    content_key, iv = bytes(range(32)), bytes(range(12))
    if key["kty"] == "RSA":
        n, e = (int.from_bytes(unb64url(key[name]), "big") for name in ("n", "e"))
        oaep = padding.OAEP(padding.MGF1(SHA256()), SHA256(), None)
        wrapped = rsa.RSAPublicNumbers(e, n).public_key().encrypt(content_key, oaep)
        members: Json = {"alg": "RSA-OAEP-256", "enc": "A256GCM"}
    else:
        curve = CURVES[key["crv"]]
        x, y = (int.from_bytes(unb64url(key[name]), "big") for name in ("x", "y"))
        ephemeral = ec.generate_private_key(curve)
        shared = ephemeral.exchange(ec.ECDH(), ec.EllipticCurvePublicNumbers(x, y, curve).public_key())
        wrapped = aes_key_wrap(wrapping_key(shared), content_key)
        members = {"alg": "ECDH-ES+A256KW", "enc": "A256GCM", "epk": ec_jwk(ephemeral.public_key())}
    members |= header
    protected = b64url(json.dumps(members, separators=(",", ":")).encode())
    sealed = AESGCM(content_key).encrypt(iv, content, protected.encode())
    return {
        "protected": protected,
        "encrypted_key": b64url(wrapped),
        "iv": b64url(iv),
        "ciphertext": b64url(sealed[:-16]),
        "tag": b64url(sealed[-16:]),
    }


@dataclass
class FakeKbs:
    """The service.

    Attributes:
        lies: what replaces its honest answer to a step (auth, attest, resource).
        asked: the requests, in order.
        key: the guest's, as it was last attested.
    """

    lies: dict[str, Lie] = field(default_factory=dict)
    answer: Callable[[Json], Json] = encrypted
    claims: Callable[[Json], Json] = lambda claims: claims
    asked: list[httpx.Request] = field(default_factory=list)
    key: Json = field(default_factory=dict)
    nonce: str = base64.b64encode(bytes(32)).decode()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        step = request.url.path.removeprefix("/kbs/v0/").partition("/")[0]
        honest = {"auth": self.auth, "attest": self.attest, "resource": self.resource}[step](request)
        return self.lies[step](honest) if step in self.lies else honest

    def auth(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        assert body["version"] == "0.4.0"
        assert "cookie" not in request.headers
        cookie = {"Set-Cookie": "kbs-session-id=first; Path=/kbs/v0; HttpOnly"}
        return httpx.Response(200, json={"nonce": self.nonce, "extra-params": ""}, headers=cookie)

    def attest(self, request: httpx.Request) -> httpx.Response:
        assert request.headers["cookie"] == "kbs-session-id=first"
        runtime = json.loads(request.content)["runtime-data"]
        self.key = runtime["tee-pubkey"]
        appraisal = {"ear.veraison.annotated-evidence": {"runtime_data_claims": runtime}}
        claims = self.claims({"exp": 4_000_000_000, "submods": {"cpu0": appraisal}})
        token = jwt.encode(claims, SIGNER, "ES256", headers={"jwk": ec_jwk(SIGNER.public_key(), alg="ES256")})
        cookie = {"Set-Cookie": "kbs-session-id=second; Path=/kbs/v0; HttpOnly"}
        return httpx.Response(200, json={"token": token}, headers=cookie)

    def resource(self, request: httpx.Request) -> httpx.Response:
        assert request.headers["cookie"] == "kbs-session-id=second"
        return httpx.Response(200, json=self.answer(self.key))
