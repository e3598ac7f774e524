"""Options for access to the location of a sealed model, the same for every command that reads one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from attest.terminal.display import gathered

if TYPE_CHECKING:
    from attest.sealed import FileStore

MAX_HEADERS_BYTES: Final = 64 * 1024

_HEADER: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\x20-\x7e]*?)[ \t]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceOptions:
    """Headers for a web server, and the endpoint of object storage at another address than its service's own."""

    headers_file: str | None
    endpoint_url: str | None

    @contextmanager
    def opened(self, place: str) -> Iterator[FileStore]:
        """Open the store of a sealed model, and close it at the end.

        Raises:
            ConfigurationError: ``headers-invalid``, or as ``store_of``.
        """
        from attest.sealed import store_of

        headers = None if self.headers_file is None else _headers(self.headers_file)
        store = store_of(place, headers=None if headers is None else lambda: headers, endpoint_url=self.endpoint_url)
        try:
            yield store
        finally:
            close = getattr(store, "close", None)
            if close is not None:
                close()


place_options = gathered(
    "access",
    PlaceOptions,
    (
        click.option(
            "--headers",
            "headers_file",
            metavar="FILE",
            help="Headers for a web server, such as 'Authorization: Bearer …', a line each.",
        ),
        click.option(
            "--endpoint-url",
            metavar="URL",
            help="Endpoint of s3:, az: or gs: storage at another address than the service's own.",
        ),
    ),
    title="Access to the location",
)
"""Add ``--headers`` and ``--endpoint-url``; the command gets one ``access``."""


def _headers(file: str) -> Mapping[str, str]:
    """Read headers from a file, where the system's list of processes does not show them; errors show none."""
    from attest.cli.files import read_file
    from attest.errors import ConfigurationError

    content = read_file(file, limit=MAX_HEADERS_BYTES, what="--headers")
    lines = [line for line in content.decode("utf-8", "replace").splitlines() if line.strip()]
    matches = [_HEADER.fullmatch(line) for line in lines]
    if len(content) > MAX_HEADERS_BYTES or not all(matches):
        raise ConfigurationError(
            f"{file} does not contain headers",
            code="headers-invalid",
            field="--headers",
            expected="lines of 'Name: value', ASCII",
        )
    return {match[1]: match[2] for match in matches if match}
