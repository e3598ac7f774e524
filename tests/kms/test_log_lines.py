"""Entries of the log as lines of text."""

import pytest

from attest.encoding import JsonValue
from kms.log.render import text_line

SEEN: dict[str, JsonValue] = {"seq": 7, "time": "T"}


@pytest.mark.parametrize(
    ("members", "line"),
    [
        (
            {"kind": "maa-attested", "outcome": "allow", "tee": "sevsnpvm", "simulated": True, "reasons": []},
            "     7  T  maa-attested  allow sevsnpvm SIMULATED",
        ),
        (
            {"kind": "kbs-attested", "outcome": "deny", "reasons": [{"code": "a"}, {"code": "b"}, {"code": "a"}]},
            "     7  T  kbs-attested  deny a b",
        ),
        (
            {"kind": "decision", "outcome": "allow", "requested": ["k"], "via": "skr", "asked_by": {"name": "app"}},
            "     7  T  decision  allow k via skr by app",
        ),
        (
            {"kind": "decision", "outcome": "deny", "requested": ["k"], "via": "native", "reasons": [{"code": "a"}]},
            "     7  T  decision  deny k a",
        ),
    ],
)
def test_a_line_says_what_was_asked_by_which_protocol_and_what_came_of_it(
    members: dict[str, JsonValue], line: str
) -> None:
    assert text_line({**SEEN, **members}) == line
