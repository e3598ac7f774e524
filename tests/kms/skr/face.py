"""A key service that serves a vault, and what tests send to it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from kms.api.app import create_app
from tests.kms.skr.vault import RELEASE_POLICY, Document, Workload, b64url, bearer, write_vault
from tests.kms.support import AT, Harness

HOST = "v1.localhost:8443"
VERSION = "api-version=7.4"


@dataclass
class Face:
    """The service and a client of its protocol."""

    harness: Harness
    http: TestClient

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | Document | None = None,
        *,
        token: str | None = None,
        query: str = VERSION,
        headers: dict[str, str] | None = None,
    ) -> Any:  # noqa: ANN401  a response
        """Send a request of a caller."""
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        given = {"Authorization": f"Bearer {token or self.bearer()}", **(headers or {})}
        return self.http.request(method, f"{path}?{query}", content=content, headers=given)

    def bearer(self, **more: Any) -> str:  # noqa: ANN401  claims
        """A token of the login service."""
        return bearer(self.harness.clock(), **more)

    def create(self, name: str = "k1", **more: object) -> Document:
        """Make a key."""
        answer = self.ask("POST", f"/keys/{name}/create", creation(**more))
        assert answer.status_code == 200, answer.text
        found: Document = answer.json()
        return found

    def release(self, path: str = "/keys/k1/release", *, target: str | None = None, **more: object) -> Any:  # noqa: ANN401  a response
        """Ask for a key."""
        token = Workload().token(self.harness.clock()) if target is None else target
        return self.ask("POST", path, {"target": token, **more})

    def reasons(self) -> list[str]:
        """The codes of the reasons of the last decision in the log."""
        last: Any = self.harness.decisions()[-1]
        assert (last["via"], last["outcome"]) == ("skr", "deny")
        return [one["code"] for one in last["reasons"]]


def release_policy(document: object = RELEASE_POLICY, **more: object) -> Document:
    return {"data": b64url(json.dumps(document).encode()), **more}


def creation(**more: object) -> Document:
    """The body of a creation; members that are None are left out."""
    body = {
        "kty": "RSA-HSM",
        "key_ops": ["encrypt", "decrypt"],
        "attributes": {"exportable": True},
        "release_policy": release_policy(),
        **more,
    }
    return {name: one for name, one in body.items() if one is not None}


@contextmanager
def face_of(
    folder: Path,
    *,
    more: str = "",
    rules: Path | None = None,
    **settings: Any,  # noqa: ANN401  settings
) -> Iterator[Face]:
    """Serve a vault from a new database."""
    path = rules or write_vault(folder, at=AT, more=more)
    harness = Harness.make(folder, skr_file=path, allow_simulated=False, **settings)
    app = create_app(harness.settings, harness.services)
    with TestClient(app, raise_server_exceptions=False, base_url=f"https://{HOST}", follow_redirects=False) as http:
        yield Face(harness, http)
    harness.close()
