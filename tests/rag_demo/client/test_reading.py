"""Any bytes at all that a service may send are an answer or a documented error; a screen shows them harmlessly."""

import io
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from attest.errors import AttestError
from rag_demo.client.answers import UploadProgress, document_of, documents_of, progress_of, reply_of, state_of
from rag_demo.client.errors import RagRefusedError, refused
from rag_demo.client.events import MAX_EVENT_BYTES, Event, read_events
from rag_demo.client.screen import Screen
from rag_demo.client.uploads import Sent
from tests.rag_demo.client.site import ANSWER, DOCUMENT, PASSAGE, STATE, events_of
from tests.rag_demo.client.test_chat import CONTROL

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
NAMES = ("passage", "text", "answer", "progress", "stored", "refused", "message", "")


@given(data=st.binary(max_size=300), cuts=st.lists(st.integers(0, 300), max_size=6))
@example(data=b"event: answer\ndata: {}\n\n: filler\n\n", cuts=[3, 15])
@settings(max_examples=80)
def test_any_bytes_are_events_or_an_error_however_they_are_cut(data: bytes, cuts: list[int]) -> None:
    def read(pieces: list[bytes]) -> tuple[list[Event], str]:
        found: list[Event] = []
        try:
            for event in read_events(pieces):
                found.append(event)  # noqa: PERF402  those before an error count, too
        except AttestError as exc:
            return found, exc.code
        return found, ""

    marks = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    pieces = [data[begin:end] for begin, end in pairwise(marks)]
    assert read([data]) == read(pieces) == read([data[at : at + 1] for at in range(len(data))])


@given(document=JSON, base=st.sampled_from([ANSWER, PASSAGE, DOCUMENT, STATE, {}]), place=st.integers(0, 12))
@settings(max_examples=120)
def test_any_document_is_an_answer_or_an_error(
    document: Any,  # noqa: ANN401  JSON
    base: dict[str, Any],
    place: int,
) -> None:
    members = dict(base)
    if members and place:
        members[sorted(members)[place % len(members)]] = document
    elif isinstance(document, dict):
        members = document
    for name in NAMES:
        for read in (reply_of, progress_of):
            _attempt(read, Event(name=name, members=members))
    for read_document in (document_of, documents_of, state_of):
        _attempt(read_document, members)
        _attempt(read_document, document)
    assert isinstance(refused(document, 500), RagRefusedError)
    assert isinstance(refused(members, 429), RagRefusedError)


def _attempt(read: Any, value: Any) -> None:  # noqa: ANN401
    try:
        read(value)
    except AttestError as exc:
        assert exc.code == "rag-answer-malformed"  # noqa: PT017  nothing is an answer too


@pytest.mark.parametrize(("size", "fits"), [(MAX_EVENT_BYTES - 100, True), (MAX_EVENT_BYTES + 1, False)])
def test_an_event_has_a_longest(size: int, *, fits: bool) -> None:
    data = events_of(("text", {"delta": "x" * size}))
    if fits:
        assert len(list(read_events([data]))) == 1
        return
    with pytest.raises(AttestError):
        list(read_events([data]))


def test_filler_is_no_event_and_has_no_end() -> None:
    filler = b": " + b"x" * 500 + b"\n"
    assert list(read_events([filler] * 10_000 + [b"\n"])) == []
    with pytest.raises(AttestError):
        list(read_events([b": "] + [b"x" * 65_536] * 40))


class _Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def test_a_bar_shows_how_far_an_upload_is_and_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    out = _Terminal()
    screen = Screen(out)
    screen.progress(Sent(sent=50, of=100))
    assert "[############............] sealed and sent 50 of 100 bytes" in out.getvalue()
    screen.progress(UploadProgress(pages=3, of=4, passages=7))
    assert "[##################......] read 3 of 4 pages, 7 passages" in out.getvalue()
    screen.progress(UploadProgress(pages=3, of=None, passages=7))
    screen.progress(UploadProgress(pages=4, of=4, passages=2, of_passages=8))
    assert "[######..................] read 4 pages, embedded 2 of 8 passages" in out.getvalue()
    screen.line("stored")
    assert out.getvalue().endswith("\r\x1b[Kstored\n")
    silent = io.StringIO()
    Screen(silent).progress(Sent(sent=1, of=1))
    assert silent.getvalue() == ""


@pytest.mark.parametrize("columns", [20, 40, 200])
def test_a_bar_is_never_wider_than_the_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    out = _Terminal()
    Screen(out).progress(Sent(sent=1_000_000, of=2_000_000))
    shown = out.getvalue().removeprefix("\r\x1b[K")
    assert shown.startswith("[####")
    assert len(shown) == min(columns - 1, len("[] sealed and sent 1000000 of 2000000 bytes") + 24)


@given(text=st.text(max_size=200))
@settings(max_examples=60)
def test_a_screen_writes_nothing_that_moves_anything(text: str) -> None:
    out = io.StringIO()
    screen = Screen(out)
    screen.line(text)
    screen.text(text)
    screen.piece(text)
    screen.facts(iter([(text, text)]))
    assert CONTROL.findall(out.getvalue()) == []


def test_a_terminal_that_prints_only_ascii_gets_only_ascii() -> None:
    written = io.BytesIO()
    out = io.TextIOWrapper(written, encoding="ascii")
    Screen(out).line("na\u00efve \u2603")
    out.flush()
    assert written.getvalue() == b"na\\xefve \\u2603\n"
