"""The listening socket of a service, opened in one way."""

from __future__ import annotations

import errno
import os
import socket
from typing import NamedTuple

from attest.errors import ConfigurationError


class AddressFields(NamedTuple):
    """Names of the settings of an address, and what to do about each, for errors."""

    host: str
    port: str
    other_host: str
    other_port: str


def listen(host: str, port: int, *, backlog: int, fields: AddressFields) -> socket.socket:
    """Open a listening socket; port 0 takes any.

    Accepted connections send at once (``TCP_NODELAY``): the body of an answer would otherwise wait for the delayed
    acknowledgement of its head, 40 ms on a connection that is kept open. asyncio sets the option only on sockets of
    protocol ``IPPROTO_TCP``, which ``socket.create_server`` does not make.

    Raises:
        ConfigurationError: ``address-in-use`` or ``address-unusable``.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        made = socket.create_server((host, port), family=family, backlog=backlog)
    except OSError as exc:
        taken = exc.errno == errno.EADDRINUSE
        problem = os.strerror(exc.errno) if exc.errno is not None and exc.errno > 0 else str(exc)
        raise ConfigurationError(
            f"cannot listen on {host} port {port}: {problem}",
            code="address-in-use" if taken else "address-unusable",
            field=fields.port if taken else fields.host,
            got=f"{host}:{port}",
            hint=fields.other_port if taken else fields.other_host,
        ) from exc
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made
