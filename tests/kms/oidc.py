"""An OIDC issuer of a test's own: real keys, a real key set, tokens made by another library than the one that reads."""

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from tests.kms.support import AT

ISSUER = "https://login.test/realm"
AUDIENCE = "https://kms.test:8751"
KIDS = {"RS256": "rsa", "PS256": "rsa", "ES256": "p256", "ES384": "p384", "EdDSA": "ed", "HS256": "p256"}
Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey
Json = dict[str, Any]  # Any: JSON that tests make


@cache
def keys(name: str = "login") -> dict[str, Key]:
    """The keys of an issuer, made once a run for each name."""
    return {
        "rsa": rsa.generate_private_key(public_exponent=65537, key_size=2048),
        "p256": ec.generate_private_key(ec.SECP256R1()),
        "p384": ec.generate_private_key(ec.SECP384R1()),
        "ed": ed25519.Ed25519PrivateKey.generate(),
    }


def jwk(key: Key, kid: str, **more: object) -> Json:
    public = key.public_key()
    if isinstance(public, rsa.RSAPublicKey):
        found = RSAAlgorithm.to_jwk(public, as_dict=True)
    elif isinstance(public, ec.EllipticCurvePublicKey):
        found = ECAlgorithm.to_jwk(public, as_dict=True)
    else:
        found = OKPAlgorithm.to_jwk(public, as_dict=True)
    return {name: value for name, value in found.items() if name != "key_ops"} | {"kid": kid} | more


@dataclass(frozen=True)
class OidcIssuer:
    """Somebody who says who somebody is."""

    name: str = ISSUER
    audience: str = AUDIENCE
    seed: str = "login"
    keys: dict[str, Key] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "keys", keys(self.seed))

    def jwks(self, **more: object) -> bytes:
        return json.dumps({"keys": [jwk(key, kid, **more) for kid, key in self.keys.items()]}).encode()

    def claims(self, subject: str = "alice", *, at: datetime = AT, **changes: object) -> Json:
        now = int(at.timestamp())
        made: Json = {"iss": self.name, "aud": self.audience, "sub": subject, "iat": now, "exp": now + 300}
        return {name: value for name, value in (made | changes).items() if value is not None}

    def token(
        self,
        subject: str = "alice",
        *,
        at: datetime = AT,
        algorithm: str = "ES256",
        header: Json | None = None,
        key: Key | bytes | None = None,
        **changes: object,
    ) -> str:
        kid = KIDS[algorithm]
        return jwt.encode(
            self.claims(subject, at=at, **changes),
            self.keys[kid] if key is None else key,
            algorithm=algorithm,
            headers={"kid": kid} | (header or {}),
        )

    def table(self, folder: Path, **changes: object) -> str:
        """Write the key set, and return the issuer's table of an issuers file."""
        (folder / f"{self.seed}.jwks").write_bytes(self.jwks())
        values: Json = {
            "issuer": self.name,
            "audience": self.audience,
            "algorithms": ["RS256", "PS256", "ES256", "ES384", "EdDSA"],
            "jwks_file": f"{self.seed}.jwks",
        }
        lines = [f"{key} = {_toml(value)}" for key, value in (values | changes).items() if value is not None]
        return "\n".join(["[[issuer]]", *lines, ""])


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(member)}" for key, member in value.items()) + " }"
    return json.dumps(value)


def pem_of(key: Key) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@contextmanager
def serving(answers: dict[str, tuple[int, bytes, dict[str, str]]], context: ssl.SSLContext) -> Iterator[int]:
    """Serve paths over TLS on loopback; what is in ``answers`` may change meanwhile."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body, headers = answers.get(self.path, (404, b"", {}))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name in the base class
            pass

    with serving_over_tls(Handler, context) as port:
        yield port


@contextmanager
def serving_over_tls(handler: type[BaseHTTPRequestHandler], context: ssl.SSLContext) -> Iterator[int]:
    """Serve over TLS on loopback; yields the port."""
    server = HTTPServer(("127.0.0.1", 0), handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
