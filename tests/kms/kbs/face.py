"""A key service that speaks the protocol of a Key Broker Service, and what tests send to it."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from starlette.testclient import TestClient

from kms.api.app import create_app
from tests.kms.support import Harness

GUESTS = """
schema: attest.policy/1
name: guests
version: 1
simulated: {unchecked: "a test with sample evidence"}
sample:
  launch_digest: [abcde]
  device_svn: ["2"]
"""
ADMINISTRATOR = Ed25519PrivateKey.generate()
RULES = """
policy = "guests.yaml"
{more}

[[administrators]]
keys = "administrators.pem"
{provider}

[[roles]]
role = "admin"
endpoints = ["^/kbs/v0/.*$"]

[[roles]]
role = "reader"
endpoints = ["^/kbs/v0/reference-value/.*$"]
"""
Document = dict[str, Any]  # Any: JSON that the tests look into


def write_rules(
    folder: Path, *, keys: bytes | None = None, more: str = "", provider: str = "", policy: str = GUESTS
) -> Path:
    """Write the file of the setting ``kbs_file`` and the files that it names."""
    public = ADMINISTRATOR.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (folder / "administrators.pem").write_bytes(public if keys is None else keys)
    (folder / "guests.yaml").write_text(policy)
    path = folder / "kbs.toml"
    path.write_text(RULES.format(more=more, provider=provider))
    return path


@dataclass
class Face:
    """The service and a client of its protocol; cookies are the test's own."""

    harness: Harness
    http: TestClient

    def token(self, role: str | None = "admin", *, key: Ed25519PrivateKey = ADMINISTRATOR, **claims: object) -> str:
        """Sign a token of an administrator."""
        now = int(self.harness.clock().timestamp())
        named = {} if role is None else {"role": role}
        return jwt.encode({"iat": now, "exp": now + 600, **named, **claims}, key, algorithm="EdDSA")

    def admin(self, method: str, path: str, body: bytes | Document = b"", *, token: str | None = None) -> Any:  # noqa: ANN401  a response
        """Send a request of an administrator."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {token or self.token()}"}
        return self.http.request(method, f"/kbs/v0/{path}", content=content, headers=headers)

    def allow_all(self) -> None:
        """Put a resource policy into force that refuses nothing."""
        self.resource_policy('package policy\ndefault allow = false\nallow if data.plugin == "resource"\n')

    def resource_policy(self, text: str) -> None:
        """Put a resource policy into force."""
        answer = self.admin("POST", "resource-policy", {"policy": b64url(text.encode())})
        assert answer.status_code == 200, answer.text


def b64url(data: bytes) -> str:
    """Encode as the protocol's administrators do."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@contextmanager
def face_of(folder: Path, *, simulated: bool = True, rules: Path | None = None) -> Iterator[Face]:
    """Serve the protocol from a new database."""
    path = rules or write_rules(folder)
    harness = Harness.make(folder, kbs_file=path, allow_simulated=simulated)
    app = create_app(harness.settings, harness.services)
    with TestClient(app, raise_server_exceptions=False, base_url="http://kbs.test") as http:
        yield Face(harness, http)
    harness.close()
