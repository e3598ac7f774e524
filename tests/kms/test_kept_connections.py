"""Answers on a connection that a client keeps open."""

import http.client
import time
from pathlib import Path

import pytest

from tests.kms.process import ServedProcess
from tests.kms.test_tls import service
from tests.kms.tls import authority, issued, trusting

DELAYED_ACKNOWLEDGEMENT_SECONDS = 0.04
"""What each answer takes at least where head and body leave apart and the body waits."""


@pytest.mark.loopback
@pytest.mark.parametrize("tls", [False, True])
def test_an_answer_does_not_wait_for_the_acknowledgement_of_its_head(tmp_path: Path, *, tls: bool) -> None:
    ca = authority(tmp_path)
    config = service(tmp_path, issued(ca))
    if not tls:
        config.write_text("\n".join(one for one in config.read_text().splitlines() if not one.startswith("tls_")))
    served = ServedProcess.start(config)
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
    if tls:
        connection = http.client.HTTPSConnection("127.0.0.1", served.port, timeout=60, context=trusting(ca))
    try:
        # The quickest of twenty: other work on the machine delays some of them, the acknowledgement delays all.
        assert min(_seconds(connection) for _ in range(20)) < DELAYED_ACKNOWLEDGEMENT_SECONDS / 2
    finally:
        connection.close()
        assert served.terminate() == 0


def _seconds(connection: http.client.HTTPConnection) -> float:
    begin = time.perf_counter()
    connection.request("GET", "/healthz")
    answer = connection.getresponse()
    answer.read()
    assert answer.will_close is False
    return time.perf_counter() - begin
