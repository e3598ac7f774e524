"""An OIDC issuer that offers sign-in from a command line (RFC 8628).

As a program, one whose user signs in at once: `python -m tests.kms.device_issuer CERTIFICATE KEY` prints its address.
"""

import json
import ssl
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs

from tests.kms.oidc import serving_over_tls


@dataclass
class DeviceIssuer:
    """An issuer that offers the device authorization grant; ``outcomes`` are its answers at the token endpoint."""

    outcomes: list[tuple[int, dict[str, Any]]]
    start: dict[str, Any] = field(default_factory=dict)
    known: dict[str, Any] = field(default_factory=dict)
    forms: list[tuple[str, dict[str, list[str]]]] = field(default_factory=list)
    url: str = ""

    @contextmanager
    def served(self, context: ssl.SSLContext) -> Iterator[str]:
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                start, tokens = f"{issuer.url}/device", f"{issuer.url}/t"
                known = {"issuer": issuer.url, "device_authorization_endpoint": start, "token_endpoint": tokens}
                self._answer(200, {**known, **issuer.known})

            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                issuer.forms.append((self.path, form))
                if self.path == "/device":
                    begun = {"device_code": "D", "user_code": "WDJB-MJHT", "verification_uri": f"{issuer.url}/go"}
                    self._answer(200, {**begun, "expires_in": 60, "interval": 1, **issuer.start})
                else:
                    self._answer(*issuer.outcomes.pop(0))

            def _answer(self, status: int, document: dict[str, Any]) -> None:
                body = json.dumps({name: one for name, one in document.items() if one is not None}).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name in the base class
                pass

        with serving_over_tls(Handler, context) as port:
            self.url = f"https://localhost:{port}"
            yield self.url


def main(certificate: str, key: str) -> None:
    """Serve until ended."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    signed_in = (200, {"access_token": "a token of this test", "id_token": "another"})
    with DeviceIssuer([signed_in]).served(context) as url:
        print(url, flush=True)  # noqa: T201  how the caller learns it
        threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
