"""The running service whose vault Azure's clients are shown, its login service, and their programs."""

import json
import os
import secrets
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from cryptography import x509

from attest.clock import system_clock
from kms.config.settings import load_settings
from kms.config.settings_file import prepare_directory
from kms.operations.services import initialise
from tests.kms.process import ServedProcess
from tests.kms.skr.vault import Document, Workload, bearer, require_signed, write_vault

NAMES = ("v1.localhost", "localhost", "login.localhost")


@dataclass
class Vault:
    """A served vault."""

    folder: Path
    port: int

    @property
    def url(self) -> str:
        return f"https://v1.localhost:{self.port}"

    @property
    def resource(self) -> str:
        return f"https://localhost:{self.port}"

    @property
    def ca(self) -> Path:
        return self.folder / "ca.pem"

    def bearer(self, **more: Any) -> str:  # noqa: ANN401  claims
        return bearer(system_clock(), audience=self.resource, **more)

    def token(self, claims: Document | None = None, *, workload: Workload | None = None) -> str:
        return (workload or Workload()).token(system_clock(), claims)

    def opened(self, value: str, enc: str) -> tuple[Document, bytes]:
        """Verify an answer for this vault, and open it."""
        require_signed(value, ca=x509.load_pem_x509_certificate(self.ca.read_bytes()), host="v1.localhost")
        return Workload().open(value, enc=enc)


@contextmanager
def served(folder: Path, *, more: str = "") -> Iterator[Vault]:
    """Serve a vault over TLS."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = prepare_directory(folder, origin="kms.test/skr", allow_simulated=False)
    write_vault(folder, at=system_clock(), host=f"v1.localhost:{port}", names=NAMES)
    with config.open("a", encoding="utf-8") as file:
        file.write('skr_file = "skr.toml"\ntls_certificate_file = "vault.crt"\ntls_key_file = "vault.key"\n')
        file.write(more or "client_requests_per_second = 0\nidentity_requests_per_second = 0\n")
    settings = load_settings(flags={}, environ={}, config=config).settings
    initialise(settings, clock=system_clock, random=secrets.token_bytes)
    service = ServedProcess.start(config, "--port", str(port))
    yield Vault(folder, port)
    assert service.terminate() == 0


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vault]:
    with served(tmp_path_factory.mktemp("skr") / "service") as made:
        yield made


@dataclass
class Login:
    """A login service; ``forms`` are what clients sent to its token endpoint."""

    port: int
    forms: list[dict[str, list[str]]] = field(default_factory=list[dict[str, list[str]]])

    @property
    def url(self) -> str:
        return f"https://login.localhost:{self.port}"


@pytest.fixture
def login(vault: Vault) -> Iterator[Login]:
    """Serve a login service with the endpoints that a credential asks for."""
    made = Login(port=0)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(
                {
                    "issuer": f"{made.url}/tenant-1/v2.0",
                    "token_endpoint": f"{made.url}/tenant-1/oauth2/v2.0/token",
                    "authorization_endpoint": f"{made.url}/tenant-1/oauth2/v2.0/authorize",
                    "jwks_uri": f"{made.url}/tenant-1/keys",
                }
            )

        def do_POST(self) -> None:
            made.forms.append(parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode()))
            self._answer({"token_type": "Bearer", "expires_in": 600, "access_token": vault.bearer(appid="workload-1")})

        def _answer(self, document: Document) -> None:
            content = json.dumps(document).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(vault.folder / "vault.crt", vault.folder / "vault.key")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        made.port = server.server_address[1]
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield made
        server.shutdown()
        thread.join()


def run(command: list[str | Path], settings: Document, **environment: str) -> Document:
    """Run a client's program with settings on its standard input, and return what it prints."""
    done = subprocess.run(
        command,
        input=json.dumps(settings).encode(),
        capture_output=True,
        timeout=300,
        check=False,
        env={"PATH": os.environ["PATH"], **environment},
    )
    assert done.returncode == 0, done.stderr.decode()[-4000:]
    found: Document = json.loads(done.stdout)
    return found
