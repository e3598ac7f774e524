"""`attest endorsements serve`: a mirror from bundles and the cache, until it is stopped."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from attest.clock import this_second
from attest.endorsements.bundle import build_bundle
from tests.cli.conftest import Attest
from tests.fetch.conftest import Server, simulated
from tests.fetch.mirror_entries import VCEKS, amd_entries

NOW = this_second()
ENTRIES = amd_entries(NOW, VCEKS[:1])
(VCEK,) = ENTRIES
PATH = f"/vcek/v1/{VCEKS[0].product}/{VCEKS[0].hwid.hex()}?" + "&".join(f"{name}={n:02d}" for name, n in VCEKS[0].spls)
pytestmark = pytest.mark.loopback


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """Run the command; gives the address of its line and the process."""
    command = [sys.executable, "-m", "attest", "endorsements", "serve", *arguments, "--port", "0"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=folder
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        try:
            yield line, process
        finally:
            process.kill()


def got(line: str) -> bytes:
    """Get the VCEK from the mirror that a line names."""
    connection = http.client.HTTPConnection(urlsplit(line.split(maxsplit=1)[0]).netloc, timeout=60)
    connection.request("GET", PATH)
    answer = connection.getresponse().read()
    connection.close()
    return answer


def bundle(folder: Path, *, days: int = 1) -> str:
    """Write a bundle with one VCEK; days before today make it expired."""
    made = build_bundle(ENTRIES, created=NOW - timedelta(days=30), expires=NOW + timedelta(days=days))
    (folder / "site.endorsements").write_bytes(made.to_bytes())
    return "site.endorsements"


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_it_says_where_it_serves_and_ends_on_a_signal(tmp_path: Path, end: signal.Signals) -> None:
    with serving(tmp_path, bundle(tmp_path)) as (line, process):
        address = line.split()[0]
        assert line == f"{address} serves 1 endorsements\n"
        assert address.startswith("http://127.0.0.1:")
        assert got(address) == VCEK.data
        process.send_signal(end)
        out, err = process.communicate(timeout=20)
        assert (out, err, process.returncode) == ("", "ended\n", 0)


def test_an_expired_bundle_is_served_with_a_warning(tmp_path: Path) -> None:
    with serving(tmp_path, bundle(tmp_path, days=-1)) as (line, process):
        assert "serves 1 endorsements" in line
        process.send_signal(signal.SIGTERM)
        assert "expired" in process.communicate(timeout=20)[1]


def test_what_is_missing_is_fetched_with_fetch_alone_and_kept_in_the_cache(tmp_path: Path) -> None:
    vendor = Server()
    vendor.answering = simulated(this_update=NOW)
    try:
        with serving(tmp_path, "--fetch", "--kds", vendor.url) as (line, _):
            assert "serves 0 endorsements, and fetches what is missing" in line
            for _ in range(2):
                assert got(line) == VCEK.data
        assert len(vendor.requests) == 1
        with serving(tmp_path) as (line, _):
            assert got(line) == VCEK.data
        assert len(vendor.requests) == 1
    finally:
        vendor.stop()


def test_a_service_that_is_away_does_not_hide_an_old_answer(tmp_path: Path) -> None:
    with serving(tmp_path, bundle(tmp_path), "--fetch", "--kds", "http://127.0.0.1:9") as (line, _):
        assert got(line) == VCEK.data


def test_the_line_is_json_on_request(tmp_path: Path) -> None:
    with serving(tmp_path, bundle(tmp_path), "--json") as (line, process):
        assert process.stdout is not None
        text = line
        while not text.endswith("}\n"):
            text += process.stdout.readline()
    document = json.loads(text)
    assert document.pop("address").startswith("http://127.0.0.1:")
    assert document == {"schema": "attest.mirror/1", "answers": 1, "fetch": False}


def test_requests_are_shown_with_verbose(tmp_path: Path) -> None:
    with serving(tmp_path, bundle(tmp_path), "--verbose") as (line, process):
        assert got(line) == VCEK.data
        process.send_signal(signal.SIGTERM)
        assert f"127.0.0.1 GET {PATH} HTTP/1.1 200" in process.communicate(timeout=20)[1]


def test_a_port_that_is_taken_and_an_address_of_another_machine_are_errors(attest: Attest, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ran = attest("endorsements", "serve", "--port", taken.getsockname()[1], "--cache", tmp_path)
    assert ran.code == 2
    assert "cannot listen on 127.0.0.1" in ran.err
    assert "--port" in ran.err
    ran = attest("endorsements", "serve", "--bind", "192.0.2.1", "--port", "0", "--cache", tmp_path)
    assert (ran.code, "--bind" in ran.err) == (2, True)


def test_a_file_that_is_no_bundle_is_an_error(attest: Attest, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"x")
    assert attest("endorsements", "serve", tmp_path / "x", "--port", "0").code in (2, 5)
    assert attest("endorsements", "serve", tmp_path / "absent", "--port", "0").code == 2
