"""A server in a thread."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import HTTPServer

from attest.page.server import HOST


@contextmanager
def served(server: HTTPServer) -> Iterator[str]:
    """Serve until the end of the block."""
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://{HOST}:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
