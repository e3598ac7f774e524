"""Some of the million bodies that `make fuzz-bodies` sends, and that the tally would tell."""

import json
from pathlib import Path

from tests.fuzz.bodies import SLOW_SECONDS, Service, Tally, fuzz, open_harness


def test_an_honest_request_is_answered_and_no_altered_one_is(tmp_path: Path) -> None:
    harness = open_harness(tmp_path)
    service = Service(harness)
    try:
        assert service.send(service.honest())[0] == 200
        tally = fuzz(service, count=600, seed="suite")
    finally:
        service.close()
        harness.close()
    assert tally.wrong == []
    assert tally.codes.total() == 600
    assert len(tally.codes) > 5


def test_the_tally_tells_what_is_wrong() -> None:
    honest = json.dumps({"challenge": "x", "keys": ["model"]}).encode()
    problem = b'{"code": "x"}'
    tally = Tally()
    for body, status, answer, seconds in (
        (b"accepted", 200, b"{}", 0.0),
        (b"failed", 500, problem, 0.0),
        (b"slow", 400, problem, SLOW_SECONDS + 1),
        (b"no problem document", 400, b"", 0.0),
    ):
        tally.add(body, honest, status, answer, seconds)
    tally.add(b"refused", honest, 400, problem, SLOW_SECONDS)
    assert [body for _, body in tally.wrong] == [b"accepted", b"failed", b"slow", b"no problem document"]
