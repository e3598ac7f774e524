"""The benchmarks of the page, with one round: that they run and what they print. No time is judged."""

import pytest

from benchmarks.page import bundle_size, first_verdict, verify_time
from tests.page.browser import browser_is_there


@pytest.mark.loopback
def test_the_benchmarks_of_the_page_print_lines_with_their_bars() -> None:
    if not browser_is_there():
        pytest.skip("no Chromium here; on Debian: apt-get install chromium-headless-shell")
    figures = (
        (verify_time(rounds=1), "page-verify-ms", 50),
        (bundle_size(), "bundle-gzip-kb", 60),
        (first_verdict(rounds=1), "page-first-verdict-ms", 1000),
    )
    for figure, id_, bar in figures:
        assert figure.line().startswith(f"{id_} ")
        assert f" bar <={bar} " in figure.line()
