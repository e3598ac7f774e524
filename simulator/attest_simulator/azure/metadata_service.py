"""The instance-metadata service on the loopback address, for tests and demonstrations.

It can fail a given number of times first, for tests of retries.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import urlsplit

from attest_simulator.azure.imds import MAX_BODY_BYTES, ImdsAnswer, SimulatedImds, refusal

_RETRY_AFTER_SECONDS = "1"
_TIMEOUT_SECONDS = 10.0
_BUSY = 429


def imds_handler(service: SimulatedImds, *, busy: Sequence[int] = ()) -> type[BaseHTTPRequestHandler]:
    """Return a handler for ``http.server`` that passes requests to the service.

    Args:
        service: the service.
        busy: statuses such as 429 and 503 of the first answers, in order.
    """
    failures = deque(busy)

    class Handler(BaseHTTPRequestHandler):
        """Handler of one connection."""

        timeout = _TIMEOUT_SECONDS

        def do_GET(self) -> None:
            """Answer."""
            self._send(self._failure() or service.get(urlsplit(self.path).path, self._lower_headers()))

        def do_POST(self) -> None:
            """Answer; the body is read up to its stated length, and at most one byte beyond the limit."""
            length = self.headers.get("Content-Length", "")
            size = int(length) if length.isdecimal() and len(length) < len(str(MAX_BODY_BYTES)) + 3 else 0
            body = self.rfile.read(min(size, MAX_BODY_BYTES + 1))
            answer = self._failure() or service.post(urlsplit(self.path).path, self._lower_headers(), body)
            self._send(answer)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  http.server's own name
            """Log nothing."""

        def _lower_headers(self) -> dict[str, str]:
            return {name.lower(): value for name, value in self.headers.items()}

        @staticmethod
        def _failure() -> ImdsAnswer | None:
            try:
                status = failures.popleft()
            except IndexError:
                return None
            answer = refusal(status, "ask again later")
            if status == _BUSY:
                return answer._replace(headers={**answer.headers, "Retry-After": _RETRY_AFTER_SECONDS})
            return answer

        def _send(self, answer: ImdsAnswer) -> None:
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

    return Handler


@contextmanager
def serving_imds(service: SimulatedImds, *, busy: Sequence[int] = ()) -> Generator[str]:
    """Serve on a free port of 127.0.0.1, in a thread, until the block ends.

    Args:
        service: the service.
        busy: as of ``imds_handler``.

    Yields:
        its URL, such as ``http://127.0.0.1:40123``, in place of ``http://169.254.169.254``.
    """
    with ThreadingHTTPServer(("127.0.0.1", 0), imds_handler(service, busy=busy)) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
