"""A client and a gateway, without a network: round trips, and everything that somebody in between could do."""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from operator import itemgetter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from attest.channel import (
    KEM_HYBRID,
    KEM_X25519,
    ChannelKey,
    ChannelRefusal,
    Gateway,
    MemoryReplayWindow,
    MessageForm,
    MessageLimits,
    Request,
    RequestSealer,
    Response,
    ServedExchange,
    ServiceKeys,
)
from attest.channel.bhttp import END, encode_request, request_head, section, written_content
from attest.channel.chunked import PIECE_BYTES, ChunkSealer
from attest.channel.config import choose
from attest.channel.fields import EVIDENCE, REFUSED, http_date, parse_http_date, refusal_code
from attest.channel.messages import field_values
from attest.channel.ohttp import begin_sealing
from attest.channel.refusals import REFUSAL_BYTES
from attest.channel.replays import Use
from attest.channel.server import WINDOW
from attest.encoding import base64url_text
from attest.errors import (
    ChannelError,
    ChannelRefusedError,
    ChannelTamperError,
    VerificationError,
)
from tests.channel.support import ASK, AUTHORITY, SAID, SECOND, Service, opened, opener_of, sealed
from tests.samples import AT

FORMS = tuple(MessageForm)
BIG = replace(ASK, content=os.urandom(3 * PIECE_BYTES + 77))


@pytest.fixture(scope="module")
def service() -> Service:
    return Service()


def begun(service: Service) -> ServedExchange:
    exchange = service.gateway.exchange("POST", MessageForm.CHUNKED.request_type)
    assert isinstance(exchange, ServedExchange)
    return exchange


def refusal_of(service: Service, body: bytes, **options: object) -> ChannelRefusal:
    found = service.receive(body, **options)[1]  # type: ignore[arg-type]
    assert isinstance(found, ChannelRefusal), found
    return found


def inner(service: Service, request: Request, *, form: MessageForm = MessageForm.CHUNKED) -> bytes:
    """Seal a message as it is, without what a client of ours adds."""
    sealing = begin_sealing(choose(service.key.document), form)
    message = encode_request(request)
    if form is MessageForm.SINGLE:
        return sealing.prefix + sealing.context.seal(message)
    return sealing.prefix + ChunkSealer(sealing.context).final(message)


def dated(**changes: object) -> Request:
    return replace(ASK, **{"fields": ((b"date", http_date(AT)),)} | changes)  # type: ignore[arg-type]


# -- round trips


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("padding", [True, False])
@pytest.mark.parametrize("kem", [KEM_HYBRID, KEM_X25519])
@pytest.mark.parametrize("request_", [ASK, BIG, replace(ASK, content=b"")])
def test_a_request_and_its_answer_arrive(form: MessageForm, padding: bool, kem: int, request_: Request) -> None:
    key = ChannelKey.born(random=os.urandom, at=AT, kems=(kem,))
    service = Service(key=key, options={"padding": padding})
    body, sealer = sealed(service.record(), request_, form=form, kems=(kem,), padding=padding)
    exchange, found = service.receive(body, form=form, step=1000)
    assert isinstance(found, Request)
    assert (found.method, found.authority, found.path) == ("POST", AUTHORITY, "/v1/ask?k=5")
    assert found.content == request_.content
    answer = Response(status=200, content=request_.content[::-1], trailers=((b"x", b"y"),))
    assert opened(opener_of(sealer, form), exchange.answer(answer)) == answer


@given(
    pieces=st.lists(st.binary(max_size=40_000), max_size=4),
    step=st.integers(1, 5000),
    answers=st.lists(st.binary(max_size=3000), max_size=4),
)
def test_uploads_and_streams_arrive_in_any_portions(pieces: list[bytes], step: int, answers: list[bytes]) -> None:
    service = _SHARED
    sealer = RequestSealer(_RECORD, replace(ASK, content=b""), at=AT)
    body = sealer.begin() + b"".join(sealer.add(piece) for piece in pieces) + sealer.end(((b"after", b"all"),))
    exchange, found = service.receive(body, step=step)
    assert isinstance(found, Request)
    assert found.content == b"".join(pieces)
    assert found.trailers == ((b"after", b"all"),)
    stream = exchange.stream(Response(status=200, fields=((b"a", b"b"),)))
    parts = []
    for one in answers:
        stream.add(one)
        parts.append(stream.tick())
    parts.append(stream.end(((b"x", b"y"),)))
    answer = opened(opener_of(sealer), parts)
    assert answer == Response(status=200, fields=((b"a", b"b"),), content=b"".join(answers), trailers=((b"x", b"y"),))


_SHARED = Service()
_RECORD = _SHARED.record()


def test_text_is_read_while_the_answer_is_made(service: Service) -> None:
    body, sealer = sealed(service.record())
    exchange, _ = service.receive(body)
    opener, stream = opener_of(sealer), exchange.stream(Response(status=200))
    stream.add(b"x" * 600)
    first = opener.feed(stream.tick())
    assert len(b"".join(event for event in first if isinstance(event, bytes))) > 400
    with pytest.raises(ChannelTamperError) as refused:
        opener.finish()
    assert refused.value.code == "channel-truncated"


# -- altered, cut, reordered


@pytest.mark.parametrize("form", FORMS)
def test_no_byte_of_a_request_can_be_altered(service: Service, form: MessageForm) -> None:
    body, _ = sealed(service.record(), form=form)
    for at in range(len(body)):
        altered = body[:at] + bytes((body[at] ^ 1 << at % 8,)) + body[at + 1 :]
        found = refusal_of(service, altered, form=form)
        assert (found.status, found.inside) == (422, False)
    assert isinstance(service.receive(body, form=form)[1], Request)


@pytest.mark.parametrize("form", FORMS)
def test_no_byte_of_an_answer_can_be_altered_or_missing(service: Service, form: MessageForm) -> None:
    body, sealer = sealed(service.record(), form=form)
    answer = service.receive(body, form=form)[0].answer(SAID)
    for at in range(len(answer)):
        for wrong in (answer[:at] + bytes((answer[at] ^ 1 << at % 8,)) + answer[at + 1 :], answer[:at]):
            with pytest.raises(ChannelError):
                opened(opener_of(sealer, form), wrong)
    with pytest.raises(ChannelError):
        opened(opener_of(sealer, form), answer + b"\0")
    assert opened(opener_of(sealer, form), answer) == SAID


@pytest.mark.parametrize("form", FORMS)
def test_a_request_that_is_cut_anywhere_is_refused(service: Service, form: MessageForm) -> None:
    body, _ = sealed(service.record(), form=form)
    for size in range(1, len(body)):
        found = refusal_of(service, body[:size], form=form)
        assert (found.status, found.inside) == (422, False)
    assert refusal_of(service, body + b"\0", form=form).status == 422


def parts_of(body: bytes) -> Iterator[bytes]:
    """Split the chunks behind a header of 7 and an enc of 1,120 bytes."""
    at = 7 + 1120
    yield body[:at]
    while body[at]:
        size = 1 << (body[at] >> 6)
        length = int.from_bytes(body[at : at + size], "big") & (1 << 8 * size - 2) - 1
        yield body[at : at + size + length]
        at += size + length
    yield body[at:]


@pytest.mark.parametrize(
    "order",
    [(0, 2, 1, 3, 4), (0, 1, 3, 4), (0, 1, 2, 2, 3, 4), (0, 1, 2, 3), (0, 4), (0, 1, 2, 4, 3), (0, 1, 2, 3, 4, 4)],
)
def test_chunks_that_are_reordered_dropped_repeated_or_appended_are_refused(
    service: Service, order: tuple[int, ...]
) -> None:
    body, _ = sealed(service.record(), BIG)
    parts = list(parts_of(body))
    assert len(parts) == 5
    found = refusal_of(service, b"".join(parts[number] for number in order))
    assert (found.status, found.inside) == (422, False)


def test_chunks_of_two_requests_do_not_mix(service: Service) -> None:
    first, second = (list(parts_of(sealed(service.record(), BIG)[0])) for _ in range(2))
    assert refusal_of(service, b"".join((*first[:2], *second[2:]))).status == 422


def test_the_answer_to_another_request_is_refused(service: Service) -> None:
    body, sealer = sealed(service.record())
    other, _ = sealed(service.record())
    service.receive(body)
    with pytest.raises(ChannelTamperError):
        opened(opener_of(sealer), service.receive(other)[0].answer(SAID))


def test_a_request_to_another_key_is_refused(service: Service) -> None:
    stranger = Service()
    body, _ = sealed(service.record())
    assert refusal_of(stranger, body).code == "channel-not-opened"
    for key_id in range(1, 256):
        assert refusal_of(service, bytes((key_id,)) + body[1:]).status == 422


def test_one_form_cannot_be_sent_as_the_other(service: Service) -> None:
    single, _ = sealed(service.record(), form=MessageForm.SINGLE)
    chunked, _ = sealed(service.record())
    assert refusal_of(service, single, form=MessageForm.CHUNKED).status == 422
    assert refusal_of(service, chunked, form=MessageForm.SINGLE).status == 422


def test_a_downgraded_suite_is_refused(service: Service) -> None:
    body, _ = sealed(service.record())
    for header in ("00647a00010001", "00002000010002", "00647a00020002", "00647a0001ffff", "00647a00010003"):
        assert refusal_of(service, bytes.fromhex(header) + body[7:]).status == 422


# -- replay


@pytest.mark.parametrize("form", FORMS)
def test_a_request_is_answered_once(form: MessageForm) -> None:
    service = Service()
    body, sealer = sealed(service.record(), form=form)
    assert isinstance(service.receive(body, form=form)[1], Request)
    exchange, found = service.receive(body, form=form, at=AT + WINDOW)
    assert isinstance(found, ChannelRefusal)
    assert (found.status, found.code, found.inside) == (409, "request-replayed", True)
    answer = opened(opener_of(sealer, form), exchange.refuse(found, at=AT))
    assert (answer.status, refusal_code(answer.fields)) == (409, "request-replayed")


def test_a_replay_is_refused_until_its_date_is_too_old_whatever_the_clock() -> None:
    service = Service()
    body, _ = sealed(service.record(), at=AT + WINDOW)  # the latest date that counts
    assert isinstance(service.receive(body, at=AT)[1], Request)
    for later in (SECOND, WINDOW, 2 * WINDOW):
        assert refusal_of(service, body, at=AT + later).code == "request-replayed"
    assert refusal_of(service, body, at=AT + 2 * WINDOW + SECOND).code == "date-refused"


@given(
    skew=st.integers(-600, 600),
    held=st.lists(st.tuples(st.integers(0, 900), st.integers(0, 900)), min_size=2, max_size=4),
    split=st.integers(1, 300),
)
@example(skew=300, held=[(0, 200), (241, 1)], split=200)
def test_however_clocks_differ_and_ends_are_held_back_a_request_is_answered_once(
    skew: int, held: list[tuple[int, int]], split: int
) -> None:
    """Copies of a request begin at any moment and end at any later one; its date is a client's whose clock is off."""
    service = Service()
    body, _ = sealed(service.record(), BIG, date=AT + skew * SECOND)
    answered = 0
    moments: list[tuple[int, int, ServedExchange]] = []
    for begin, rest in held:
        exchange = begun(service)
        moments += [(begin, 0, exchange), (begin + rest, 1, exchange)]
    for moment, is_end, exchange in sorted(moments, key=itemgetter(0, 1)):
        at = AT + moment * SECOND
        exchange.feed(body[-split:] if is_end else body[:-split], at=at)
        answered += bool(is_end) and isinstance(exchange.finish(at=at), Request)
    assert answered <= 1


def test_the_date_of_an_upload_is_judged_when_it_begins() -> None:
    """A long upload is answered, and one whose end is held back until its date counts is not."""
    for skew, held, answered in ((0, 900, True), (300, 200, False), (-120, 900, True), (-121, 0, False)):
        service = Service()
        body, _ = sealed(service.record(), BIG, date=AT + skew * SECOND)
        exchange = begun(service)
        exchange.feed(body[:-20], at=AT)
        exchange.feed(body[-20:], at=AT + held * SECOND)
        assert isinstance(exchange.finish(at=AT + held * SECOND), Request) is answered, (skew, held)


def test_rubbish_uses_nothing_up() -> None:
    service = Service()
    body, _ = sealed(service.record())
    refusal_of(service, body[:-1] + bytes((body[-1] ^ 1,)))
    assert len(service.window) == 0
    assert isinstance(service.receive(body)[1], Request)


def test_a_first_attempt_that_was_cut_stays_used() -> None:
    service = Service()
    body, _ = sealed(service.record(), BIG)
    parts = list(parts_of(body))
    for rest in (b"", b"\x00" + bytes(16), b"\x20" + bytes(32), bytes(16400)):
        fresh = Service(key=service.key)
        assert refusal_of(fresh, b"".join(parts[:2]) + rest).status in {400, 422}
        assert len(fresh.window) == 1
        assert refusal_of(fresh, body).code == "request-replayed"


def test_a_full_window_refuses_and_forgets_nothing_that_counts() -> None:
    service = Service(window=MemoryReplayWindow(2))
    bodies = [sealed(service.record())[0] for _ in range(3)]
    assert isinstance(service.receive(bodies[0])[1], Request)
    assert isinstance(service.receive(bodies[1])[1], Request)
    found = refusal_of(service, bodies[2])
    assert (found.status, found.code, found.inside) == (503, "too-busy", True)
    assert refusal_of(service, bodies[0]).code == "request-replayed"
    later = AT + 2 * WINDOW + SECOND
    again, _ = sealed(service.record(), at=AT + 2 * WINDOW)
    assert isinstance(service.receive(again, at=later)[1], Request)
    assert len(service.window) == 1


def test_a_window_remembers_until_the_end_and_longer_where_the_clock_goes_back() -> None:
    window = MemoryReplayWindow(3)
    assert window.use(b"a", at=AT, until=AT + SECOND) is Use.FIRST
    assert window.use(b"a", at=AT + SECOND, until=AT + 9 * SECOND) is Use.USED
    assert window.use(b"b", at=AT - 5 * SECOND, until=AT - 4 * SECOND) is Use.FIRST
    assert window.use(b"b", at=AT, until=AT) is Use.USED  # behind one that still counts
    assert window.use(b"c", at=AT + 2 * SECOND, until=AT + 3 * SECOND) is Use.FIRST
    assert len(window) == 1


def test_a_clock_that_is_moved_on_and_back_lets_nothing_be_answered_twice() -> None:
    service = Service()
    body, other = sealed(service.record())[0], sealed(service.record())[0]
    assert isinstance(service.receive(body)[1], Request)
    # Whoever has the machine's clock moves it on until all is forgotten; another request lets the window notice.
    far = AT + 2 * WINDOW + SECOND
    late, _ = sealed(service.record(at=far), at=far)
    assert isinstance(service.receive(late, at=far)[1], Request)
    # Back again, the date of the first one counts.
    for moment in (AT, AT + WINDOW, AT + 2 * WINDOW):
        assert refusal_of(service, body, at=moment).code in {"too-busy", "request-replayed"}
    assert refusal_of(service, other).code == "too-busy"
    now, _ = sealed(service.record(at=far), at=far)
    assert isinstance(service.receive(now, at=far)[1], Request)


def test_a_replicated_key_needs_a_window_that_is_shared() -> None:
    key = replace(ChannelKey.born(random=os.urandom, at=AT), replicated=True)
    with pytest.raises(ValueError, match="shared replay window"):
        Service(key=key)
    with pytest.raises(ValueError, match="a reason is required"):
        Service(key=key, options={"insecure_replays": " "})
    Service(key=key, options={"insecure_replays": "one replica alone"})
    service = Service()
    with pytest.raises(ValueError, match="shared replay window"):
        service.gateway.replace_key(key, at=AT)
    assert service.gateway.keys.current is service.key


# -- what is wrong inside


@pytest.mark.parametrize("off", [WINDOW + SECOND, -WINDOW - SECOND, timedelta(days=60)])
def test_a_date_outside_the_window_is_refused_with_the_services_own(service: Service, off: timedelta) -> None:
    body, sealer = sealed(service.record(at=AT + off), at=AT + off)
    exchange, found = service.receive(body)
    assert isinstance(found, ChannelRefusal)
    answer = opened(opener_of(sealer), exchange.refuse(found, at=AT))
    assert answer.status == 400
    assert json.loads(answer.content)["type"] == "https://iana.org/assignments/http-problem-types#date"
    assert parse_http_date(field_values(answer.fields, b"date")[0]) == AT


@pytest.mark.parametrize("off", [WINDOW, -WINDOW])
def test_a_date_at_the_edge_of_the_window_is_taken(service: Service, off: timedelta) -> None:
    body, _ = sealed(service.record(at=AT + off), at=AT + off)
    assert isinstance(service.receive(body)[1], Request)


@pytest.mark.parametrize(
    "fields",
    [
        (),
        ((b"date", b"today"),),
        ((b"date", http_date(AT)),) * 2,
        ((b"date", b"Tue, 01 Jun 2026 00:00:00 GMT"),),  # another day of the week
        ((b"date", b"Mon, 31 Feb 2026 00:00:00 GMT"),),
        ((b"date", b"Mon, 01 Jux 2026 00:00:00 GMT"),),
    ],
)
def test_a_date_that_is_none_is_refused(service: Service, fields: tuple[tuple[bytes, bytes], ...]) -> None:
    assert refusal_of(service, inner(service, replace(ASK, fields=fields))).code == "date-refused"


@given(st.datetimes(timezones=st.just(UTC)))
def test_any_date_is_read_as_it_was_written(moment: datetime) -> None:
    whole = moment.replace(microsecond=0)
    assert parse_http_date(http_date(whole)) == whole


def test_evidence_that_was_not_given_out_is_refused(service: Service) -> None:
    for text in (base64url_text(bytes(32)).encode(), b"", b"***", b"\xff"):
        fields = ((b"date", http_date(AT)), (EVIDENCE, text))
        found = refusal_of(service, inner(service, replace(ASK, fields=fields)))
        assert (found.status, found.code, found.inside) == (421, "evidence-stale", True)
    twice = ((EVIDENCE, base64url_text(service.record().proof).encode()),) * 2
    assert refusal_of(service, inner(service, dated(fields=(*dated().fields, *twice)))).code == "evidence-stale"


def test_a_client_that_names_no_evidence_is_answered(service: Service) -> None:
    assert isinstance(service.receive(inner(service, dated()))[1], Request)


@pytest.mark.parametrize("authority", ["other.example", "rag.example:444", "rag.example.", "RAG.example"])
def test_a_request_for_another_service_is_refused(service: Service, authority: str) -> None:
    found = refusal_of(service, inner(service, dated(authority=authority)))
    assert (found.status, found.code) == (421, "authority-unknown")


@pytest.mark.parametrize(
    ("authority", "hosts", "code"),
    [
        ("", (), "request-malformed"),
        ("", (b"rag.example",), None),
        (AUTHORITY, (b"rag.example",), None),
        (AUTHORITY, (b"other.example",), "request-malformed"),
        ("", (b"rag.example", b"rag.example"), "request-malformed"),
        ("", (b"other.example",), "authority-unknown"),
    ],
)
def test_whom_a_request_is_for_is_said_once_or_twice_the_same(
    service: Service, authority: str, hosts: tuple[bytes, ...], code: str | None
) -> None:
    fields = (*dated().fields, *((b"host", host) for host in hosts))
    found = service.receive(inner(service, dated(authority=authority, fields=fields)))[1]
    assert (found.code if isinstance(found, ChannelRefusal) else None) == code


@pytest.mark.parametrize(
    "change",
    [
        {"method": "CONNECT"},
        {"fields": (*dated().fields, (b"expect", b"100-continue"))},
        {"fields": (*dated().fields, (b"content-length", b"5"))},
        {"fields": (*dated().fields, (b"content-length", b"24"), (b"content-length", b"25"))},
    ],
)
def test_what_makes_no_sense_inside_is_refused(service: Service, change: dict[str, object]) -> None:
    found = refusal_of(service, inner(service, dated(**change)))
    assert (found.status, found.code, found.inside) == (400, "request-malformed", True)


def test_a_content_length_that_agrees_is_taken_and_fields_of_a_connection_are_not(service: Service) -> None:
    fields = (*dated().fields, (b"content-length", b"24"))
    found = service.receive(inner(service, dated(fields=fields)))[1]
    assert isinstance(found, Request)
    assert found.fields == fields


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("message", [b"", b"\x09", b"\x00\x03GET", bytes(300)])
def test_what_opens_and_is_no_http_is_refused_inside(service: Service, form: MessageForm, message: bytes) -> None:
    sealing = begin_sealing(choose(service.key.document), form)
    sealed_message = (
        sealing.context.seal(message) if form is MessageForm.SINGLE else ChunkSealer(sealing.context).final(message)
    )
    found = refusal_of(service, sealing.prefix + sealed_message, form=form)
    assert (found.status, found.code, found.inside) == (400, "request-malformed", True)


def test_a_content_over_the_limit_is_refused_inside_and_the_rest_passed_over() -> None:
    service = Service(options={"limits": MessageLimits(content=1000)})
    assert isinstance(service.receive(sealed(service.record(), replace(ASK, content=bytes(1000)))[0])[1], Request)
    for size in (1001, 500_000):
        for form in FORMS:
            body, _ = sealed(service.record(), replace(ASK, content=bytes(size)), form=form)
            found = refusal_of(service, body, form=form, step=4000)
            assert found.status == 413
            assert found.inside == (form is MessageForm.CHUNKED or size == 1001)


def test_rubbish_in_the_single_form_is_held_up_to_one_message_and_no_more(service: Service) -> None:
    """Nothing of it opens before its end, so that its length alone can be judged: a message is 9 MB, and no 81 MiB."""
    sealing = begin_sealing(choose(service.key.document), MessageForm.SINGLE)
    exchange = service.gateway.exchange("POST", MessageForm.SINGLE.request_type)
    assert isinstance(exchange, ServedExchange)
    exchange.feed(sealing.prefix, at=AT)
    for _ in range(9):
        assert not exchange.refused
        exchange.feed(os.urandom(1 << 20), at=AT)
    assert exchange.refused
    found = exchange.finish(at=AT)
    assert isinstance(found, ChannelRefusal)
    assert (found.status, found.inside) == (413, False)


def test_the_longest_message_of_the_single_form_is_answered() -> None:
    limits = MessageLimits(content=100_000)
    service = Service(options={"limits": limits})
    head = dated(content=b"", fields=(*dated().fields, *((b"x-long", bytes(97 + i % 26 for i in range(8000))),) * 3))
    sealing = begin_sealing(choose(service.key.document), MessageForm.SINGLE)
    plain = request_head(head, indeterminate=True)
    for _ in range(100_000 // 16):
        plain += written_content(bytes(16))
    plain += END + section((), indeterminate=True) + bytes(limits.padding)
    found = service.receive(sealing.prefix + sealing.context.seal(plain), form=MessageForm.SINGLE)[1]
    assert isinstance(found, Request), found
    assert found.content == bytes(100_000)


def test_more_chunks_than_a_message_could_need_are_refused() -> None:
    service = Service(options={"limits": MessageLimits(content=10, padding=10)})
    sealing = begin_sealing(choose(service.key.document), MessageForm.CHUNKED)
    sealer = ChunkSealer(sealing.context)
    exchange = service.gateway.exchange("POST", MessageForm.CHUNKED.request_type)
    assert not isinstance(exchange, ChannelRefusal)
    exchange.feed(sealing.prefix + sealer.piece(b"\x02"), at=AT)
    exchange.feed(sealer.piece(b"\x03GET\x05https\x01a\x01/\x00" + b"\x01a" * 11), at=AT)
    assert exchange.refused
    found = exchange.finish(at=AT)
    assert isinstance(found, ChannelRefusal)
    assert (found.status, found.inside) == (413, True)


def test_every_refusal_inside_has_one_length() -> None:
    lengths: set[int] = set()
    service = Service(window=MemoryReplayWindow(3), options={"limits": MessageLimits(content=100)})
    first = inner(service, dated())
    service.receive(first)
    for body in (first, inner(service, ASK), inner(service, dated(authority="x")), inner(service, dated())):
        exchange, found = service.receive(body)
        assert isinstance(found, ChannelRefusal)
        lengths.add(len(exchange.refuse(found, at=AT)))
    assert len(lengths) == 1
    assert lengths.pop() > REFUSAL_BYTES


# -- what is seen in the clear


@pytest.mark.parametrize(
    ("method", "media_type", "status"),
    [("GET", "message/ohttp-req", 405), ("POST", "application/json", 415), ("POST", None, 415), ("POST", "", 415)],
)
def test_what_is_no_encrypted_request_is_refused_in_the_clear(
    service: Service, method: str, media_type: str | None, status: int
) -> None:
    found = service.gateway.exchange(method, media_type)
    assert isinstance(found, ChannelRefusal)
    assert (found.status, found.inside) == (status, False)


def test_a_media_type_counts_without_case_and_parameters(service: Service) -> None:
    assert not isinstance(service.gateway.exchange("POST", " Message/OHTTP-Req ; a=b"), ChannelRefusal)


def test_an_empty_body_is_refused_in_the_clear(service: Service) -> None:
    found = refusal_of(service, b"")
    assert (found.status, found.inside) == (400, False)


def test_everything_that_does_not_open_is_refused_in_the_same_words(service: Service) -> None:
    body, _ = sealed(service.record())
    wrong = (body[:3], body[:500], b"\xff" + body[1:], body[:-1], b"\0" * 2000, body[:1127] + b"\x01")
    assert len({refusal_of(service, one).document() for one in wrong}) == 1


@pytest.mark.parametrize(
    ("status", "media_type", "code"),
    [
        (200, "text/html", "channel-refused"),
        (200, None, "channel-refused"),
        (200, "message/ohttp-res", "channel-refused"),
        (404, "message/ohttp-chunked-res", "channel-refused"),
        (422, "application/problem+json", "channel-keys-refused"),
        (500, "message/ohttp-chunked-res", "channel-refused"),
    ],
)
def test_a_client_reads_nothing_of_what_is_no_answer(
    service: Service, status: int, media_type: str | None, code: str
) -> None:
    _, sealer = sealed(service.record())
    with pytest.raises(ChannelRefusedError) as refused:
        sealer.answer(status, media_type)
    assert refused.value.code == code


# -- misuse


def test_an_exchange_answers_once_and_only_what_opened(service: Service) -> None:
    body, _ = sealed(service.record())
    exchange, _ = service.receive(body)
    exchange.answer(SAID)
    for again in (lambda: exchange.answer(SAID), lambda: exchange.stream(SAID)):
        with pytest.raises(ValueError, match="answered"):
            again()
    exchange, found = service.receive(body[:-1])
    assert isinstance(found, ChannelRefusal)
    with pytest.raises(ValueError, match="did not open"):
        exchange.answer(SAID)
    with pytest.raises(ValueError, match="in the clear"):
        exchange.refuse(found, at=AT)


def test_a_single_message_is_not_streamed(service: Service) -> None:
    body, _ = sealed(service.record(), form=MessageForm.SINGLE)
    exchange, _ = service.receive(body, form=MessageForm.SINGLE)
    assert not exchange.streams
    with pytest.raises(ValueError, match="as a whole"):
        exchange.stream(SAID)


def test_an_application_cannot_speak_for_the_gateway(service: Service) -> None:
    body, sealer = sealed(service.record())
    forged = replace(SAID, fields=(*SAID.fields, (REFUSED, b"evidence-stale")))
    answer = opened(opener_of(sealer), service.receive(body)[0].answer(forged))
    assert answer == SAID


def test_a_caller_cannot_say_what_is_added(service: Service) -> None:
    for name in (b"date", EVIDENCE):
        with pytest.raises(ValueError, match="is added"):
            RequestSealer(service.record(), replace(ASK, fields=((name, b"x"),)), at=AT)


@pytest.mark.parametrize("off", [-SECOND, timedelta(minutes=5)])
def test_nothing_is_sealed_by_a_record_that_does_not_count_now(service: Service, off: timedelta) -> None:
    record = service.record()
    with pytest.raises(VerificationError) as refused:
        RequestSealer(record, ASK, at=AT + off)
    assert refused.value.code == "channel-record-expired"
    RequestSealer(record, ASK, at=AT + timedelta(minutes=5) - SECOND)


def test_x25519_alone_is_sealed_to_only_where_it_is_allowed_by_name() -> None:
    service = Service(key=ChannelKey.born(random=os.urandom, at=AT, kems=(KEM_X25519,)))
    with pytest.raises(ChannelError) as refused:
        RequestSealer(service.record(), ASK, at=AT)
    assert refused.value.code == "channel-keys-unsupported"


def test_an_answer_of_the_single_form_is_bounded(service: Service) -> None:
    body, sealer = sealed(service.record(), form=MessageForm.SINGLE)
    service.receive(body, form=MessageForm.SINGLE)
    opener = sealer.answer(200, MessageForm.SINGLE.answer_type, limits=MessageLimits(content=10))
    opener.feed(bytes(100_000))
    with pytest.raises(ChannelError) as refused:
        opener.feed(bytes(1_000_000))
    assert refused.value.code == "bhttp-too-long"


@pytest.mark.parametrize("form", FORMS)
@given(data=st.binary(max_size=1500))
def test_any_bytes_are_refused_by_the_gateway(form: MessageForm, data: bytes) -> None:
    found = _SHARED.receive(b"\x00\x64\x7a\x00\x01\x00\x02" + data, form=form, step=100)[1]
    assert isinstance(found, ChannelRefusal)
    assert found.status == 422


def test_a_gateway_needs_somebody_to_be_for() -> None:
    service = Service(options={"authorities": ()})
    assert isinstance(service.gateway, Gateway)
    assert isinstance(service.gateway.keys, ServiceKeys)
    assert refusal_of(service, inner(service, dated())).code == "authority-unknown"
