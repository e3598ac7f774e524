"""A mirror as its command serves it, for programs of others."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from attest.clock import this_second
from attest.endorsements.bundle import build_bundle
from attest.endorsements.bundle_records import BundleEntry

Mirror = Callable[[list[BundleEntry]], str]


def absent(what: str) -> None:
    """Skip a test because a program is absent, or fail where ATTEST_REQUIRE_COMPAT=1 promises it."""
    if os.environ.get("ATTEST_REQUIRE_COMPAT") == "1":
        pytest.fail(f"ATTEST_REQUIRE_COMPAT=1, but {what}")
    pytest.skip(what)


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[Mirror]:
    """Serve entries by `attest endorsements serve`; returns the address."""
    with ExitStack() as stack:

        def serve(entries: list[BundleEntry]) -> str:
            now = this_second()
            bundle = tmp_path / "served.endorsements"
            bundle.write_bytes(build_bundle(entries, created=now, expires=now + timedelta(days=1)).to_bytes())
            command = [sys.executable, "-m", "attest", "endorsements", "serve", str(bundle), "--port", "0", "--json"]
            process = stack.enter_context(
                subprocess.Popen([*command, "--cache", str(tmp_path / "cache")], stdout=subprocess.PIPE, text=True)
            )
            stack.callback(process.terminate)
            assert process.stdout is not None
            text = ""
            while not text.endswith("}\n"):
                line = process.stdout.readline()
                assert line, "the mirror ended"
                text += line
            document = json.loads(text)
            assert document["answers"] > 0
            return str(document["address"])

        yield serve
