"""A server that speaks the transit API of OpenBao and Vault, as far as it is documented, over TLS.

What it answers, and with which status and text, is that of the engine: 403 for a token that may not, 404 for a path
that is none, 400 for a ciphertext that does not open and for a key that is gone, 503 while sealed, 204 for a key that
was made. It takes version 0 of a ciphertext for version 1, as the engine does.
"""

import json
import socket
import ssl
import threading
from base64 import b64decode, b64encode
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from secrets import token_bytes
from typing import Any, ClassVar
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tests.kms.tls import authority, issued

_Reply = tuple[int, dict[str, Any] | None]
TOKEN = "hvs.a-token-of-this-test"


@dataclass
class TransitKey:
    """A named key with its versions."""

    versions: list[bytes] = field(default_factory=lambda: [token_bytes(32)])
    minimum: int = 1
    exportable: bool = False
    kind: str = "aes256-gcm96"

    def described(self, name: str) -> dict[str, object]:
        return {
            "allow_plaintext_backup": False,
            "auto_rotate_period": 0,
            "deletion_allowed": False,
            "derived": False,
            "exportable": self.exportable,
            "imported_key": False,
            "keys": {str(number): 1442851412 for number in range(1, len(self.versions) + 1)},
            "latest_version": len(self.versions),
            "min_available_version": 0,
            "min_decryption_version": self.minimum,
            "min_encryption_version": 0,
            "name": name,
            "supports_decryption": True,
            "supports_derivation": True,
            "supports_encryption": True,
            "supports_signing": False,
            "type": self.kind,
        }


@dataclass
class Engine:
    """What the server knows, and how it behaves."""

    mount: str = "transit"
    tokens: dict[str, frozenset[str]] = field(default_factory=lambda: {TOKEN: frozenset({"create", "update", "read"})})
    keys: dict[str, TransitKey] = field(default_factory=dict)
    sealed: bool = False
    binds: bool = True
    answer: tuple[int, str] | None = None
    asked: Counter[str] = field(default_factory=Counter)
    namespaces: set[str | None] = field(default_factory=set)

    def reply(self, method: str, path: str, token: str | None, body: dict[str, Any]) -> _Reply:
        rest = path.removeprefix(f"/v1/{self.mount}/")
        action, _, name = rest.partition("/")
        self.asked[action] += 1
        if self.sealed:
            return 503, {"errors": ["Vault is sealed"]}
        may = self.tokens.get(token or "")
        if may is None:
            return 403, {"errors": ["permission denied"]}
        if rest == path:
            route = path.removeprefix("/v1/")
            return 404, {"errors": [f'no handler for route "{route}". route entry not found.']}
        if action == "keys" and method == "GET":
            return self._read(name, may)
        needed = "update" if name in self.keys else "create"
        if (action in {"keys", "encrypt"} and needed not in may) or (action == "decrypt" and "update" not in may):
            return 403, {"errors": ["1 error occurred:\n\t* permission denied\n\n"]}
        return {"keys": self._create, "encrypt": self._encrypt, "decrypt": self._decrypt}[action](name, body)

    def _read(self, name: str, may: frozenset[str]) -> _Reply:
        if "read" not in may:
            return 403, {"errors": ["1 error occurred:\n\t* permission denied\n\n"]}
        if name not in self.keys:
            return 404, {"errors": []}
        return 200, _answer(self.keys[name].described(name))

    def _create(self, name: str, body: dict[str, Any]) -> _Reply:
        made = TransitKey(exportable=body.get("exportable", False), kind=body.get("type", "aes256-gcm96"))
        self.keys.setdefault(name, made)
        return 204, None

    def _encrypt(self, name: str, body: dict[str, Any]) -> _Reply:
        key = self.keys.setdefault(name, TransitKey())  # the engine makes a key of which it never heard
        nonce, data = token_bytes(12), self._associated(body)
        raw = nonce + AESGCM(key.versions[-1]).encrypt(nonce, b64decode(body["plaintext"]), data)
        version = len(key.versions)
        return 200, _answer({"ciphertext": f"vault:v{version}:{b64encode(raw).decode()}", "key_version": version})

    def _decrypt(self, name: str, body: dict[str, Any]) -> _Reply:
        if name not in self.keys:
            return 400, {"errors": ["encryption key not found"]}
        key, text = self.keys[name], str(body["ciphertext"])
        if not text.startswith("vault:v"):
            return 400, {"errors": ["invalid ciphertext: no prefix"]}
        number, _, encoded = text.removeprefix("vault:v").partition(":")
        version = int(number) or 1
        if version > len(key.versions):
            return 400, {"errors": ["invalid ciphertext: version is too new"]}
        if version < key.minimum:
            return 400, {"errors": ["ciphertext or signature version is disallowed by policy (too old)"]}
        raw = b64decode(encoded)
        try:
            plain = AESGCM(key.versions[version - 1]).decrypt(raw[:12], raw[12:], self._associated(body))
        except (InvalidTag, ValueError):
            return 400, {"errors": ["cipher: message authentication failed"]}
        return 200, _answer({"plaintext": b64encode(plain).decode()})

    def _associated(self, body: dict[str, Any]) -> bytes | None:
        """A server of before ``associated_data`` passes over the member, as over any that it does not know."""
        return b64decode(body["associated_data"]) if self.binds and "associated_data" in body else None


def _answer(data: dict[str, Any]) -> dict[str, Any]:
    return {
        "request_id": str(UUID(bytes=token_bytes(16))),
        "lease_id": "",
        "renewable": False,
        "lease_duration": 0,
        "data": data,
        "wrap_info": None,
        "warnings": None,
        "auth": None,
    }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    engine: ClassVar[Engine]

    def _handle(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length) or b"{}")
        self.engine.namespaces.add(self.headers.get("X-Vault-Namespace"))
        token = self.headers.get("X-Vault-Token")
        status, document = self.engine.reply(self.command, self.path, token, body)
        content = b"" if document is None else json.dumps(document).encode() + b"\n"
        if self.engine.answer is not None:
            status, content = self.engine.answer[0], self.engine.answer[1].encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Cache-Control", "no-store")
        if status == 307:
            self.send_header("Location", f"https://{self.headers['Host']}/v1/elsewhere")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = _handle  # noqa: N815  the base class names them so

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  likewise
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", port), handler)
        self.open: list[socket.socket] = []

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        self.open.append(connection)
        return connection, address

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that does not trust this server says so and goes; so do connections that end with the server."""


class TransitServer:
    """The engine behind a socket on this machine, which may go away and come back on the same port."""

    def __init__(self, folder: Path) -> None:
        self.engine = Engine()
        self.folder = folder / "transit"
        self.folder.mkdir()
        self.token_file = self.folder / "token"
        self.write_token(TOKEN)
        self.ca_file = authority(self.folder) / "ca.pem"
        self._files = issued(self.ca_file.parent)
        self.port = 0
        self.come_back()

    def write_token(self, token: str) -> None:
        self.token_file.write_text(f"{token}\n", encoding="ascii")
        self.token_file.chmod(0o600)

    def settings(self, key: str = "kek") -> dict[str, object]:
        """The members of ``[kek]``."""
        url = f"https://127.0.0.1:{self.port}"
        return {
            "backend": "transit",
            "url": url,
            "key": key,
            "token_file": self.token_file,
            "ca_file": self.ca_file,
        }

    def come_back(self) -> None:
        handler = type("Handler", (_Handler,), {"engine": self.engine})
        self._server = _Server(self.port, handler)
        self.port = self._server.server_port
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._files.certificate, self._files.key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    def go_away(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        for connection in self._server.open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._thread.join()
