"""The benchmarks of sealed files, with tiny numbers: that they run and what they print. No time is judged."""

import shutil
from collections.abc import Callable

import pytest

from benchmarks.measure import Figure
from benchmarks.sealing import random_read, seal_vs_openssl, unseal_memory, unseal_vs_openssl, unseal_vs_tink

SIZE = (3 << 20) + 5


@pytest.mark.parametrize(
    ("measure", "name"),
    [
        (lambda: unseal_vs_tink(size=SIZE, rounds=1), "unseal-vs-tink"),
        (lambda: unseal_memory(sizes=(SIZE,)), "unseal-memory-mb"),
        (lambda: random_read(size=SIZE, rounds=1, times=2), "sealed-random-read"),
    ],
)
def test_benchmarks_of_sealed_files_print_their_line(measure: Callable[[], Figure], name: str) -> None:
    assert measure().line().startswith(f"{name} ")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="the peer is the openssl program, which is not here")
def test_benchmarks_against_openssl_print_their_lines() -> None:
    figures = [
        seal_vs_openssl(size=SIZE, rounds=1),
        *(unseal_vs_openssl(threads, size=SIZE, rounds=1) for threads in (1, 2)),
    ]
    names = [figure.line().split()[0] for figure in figures]
    assert names == ["seal-vs-openssl", "unseal-vs-openssl-1", "unseal-vs-openssl-2"]
