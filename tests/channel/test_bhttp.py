"""Binary HTTP: the examples of RFC 9292, laws that hold for any message, every limit, and every way to be malformed."""

from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.channel.bhttp import (
    encode_request,
    encode_response,
    section,
    varint,
    written_content,
)
from attest.channel.bhttp_decoder import MessageDecoder
from attest.channel.messages import LIMITS, Fields, MessageLimits, Request, Response, field_values
from attest.errors import ChannelError
from tests.channel.support import vectors
from tests.channel.whole_messages import decode_request, decode_response

EXAMPLES = vectors("rfc9292")
REQUEST = Request(
    method="POST",
    authority="rag.example",
    path="/v1/ask?k=5",
    fields=((b"content-type", b"text/plain"), (b"x-two", b"1"), (b"x-two", b"2"), (b"x-empty", b"")),
    content=b"why?",
    trailers=((b"x-after", b"yes"),),
)
RESPONSE = Response(
    status=200,
    fields=((b"content-type", b"text/plain"),),
    content=b"because",
    trailers=((b"x-after", b"yes"),),
    interim=((103, ((b"link", b"</a>"),)), (102, ())),
)
TOKEN = st.text("abcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+.^_`|~-", min_size=1, max_size=20).map(str.encode)
VALUE = st.binary(max_size=30).filter(lambda v: not set(v) & {0, 10, 13} and v == v.strip(b" \t"))
CONNECTION = {b"connection", b"transfer-encoding", b"te", b"upgrade", b"keep-alive", b"proxy-connection"}
SECTION = st.lists(st.tuples(TOKEN.filter(lambda n: n not in CONNECTION), VALUE), max_size=4).map(tuple)
REQUESTS = st.builds(
    Request,
    method=st.sampled_from(["GET", "POST", "M-SEARCH"]),
    authority=st.sampled_from(["", "a.example", "[::1]:8080"]),
    path=st.text("/ab?%20=&", max_size=20),
    fields=SECTION,
    content=st.binary(max_size=100),
    trailers=SECTION,
)
RESPONSES = st.builds(
    Response,
    status=st.integers(200, 599),
    fields=SECTION,
    content=st.binary(max_size=100),
    trailers=SECTION,
    interim=st.lists(st.tuples(st.integers(100, 199), SECTION), max_size=3).map(tuple),
)
Refused = Callable[[], object]


def code_of(work: Refused) -> str:
    with pytest.raises(ChannelError) as refused:
        work()
    return refused.value.code


@pytest.mark.parametrize(("number", "text"), [(37, "25"), (15293, "7bbd"), (200, "40c8"), (494878333, "9d7f3e7d")])
def test_integers_are_those_of_the_specification(number: int, text: str) -> None:
    assert varint(number).hex() == text


@pytest.mark.parametrize("bits", [6, 14, 30])
def test_integers_are_as_short_as_they_can_be(bits: int) -> None:
    assert len(varint((1 << bits) - 1)) * 2 == len(varint(1 << bits))
    with pytest.raises(ValueError, match="variable-length"):
        varint(1 << 62)
    with pytest.raises(ValueError, match="variable-length"):
        varint(-1)


# -- the examples


def test_the_known_length_request_of_the_rfc_is_read_and_written_again() -> None:
    request = decode_request(EXAMPLES["known_request"])
    assert (request.method, request.scheme, request.authority, request.path) == ("GET", "https", "", "/hello.txt")
    assert field_values(request.fields, b"host") == (b"www.example.com",)
    assert len(request.fields) == 3
    assert encode_request(request) == EXAMPLES["known_request"]


def test_the_indeterminate_request_of_the_rfc_says_the_same_and_is_padded() -> None:
    raw = EXAMPLES["indeterminate_request"]
    assert decode_request(raw) == decode_request(EXAMPLES["known_request"])
    assert encode_request(decode_request(raw), indeterminate=True) + bytes(10) == raw


def test_the_response_of_the_rfc_with_interim_responses_is_read_and_written_again() -> None:
    raw = EXAMPLES["interim_response"]
    response = decode_response(raw)
    assert [status for status, _ in response.interim] == [102, 103]
    assert response.interim[0][1] == ((b"running", b'"sleep 15"'),)
    assert response.content.startswith(b"Hello World!")
    assert field_values(response.fields, b"server") == (b"Apache",)
    assert encode_response(response, indeterminate=True) == raw


def test_the_known_length_response_of_the_rfc_with_trailers_is_read_and_written_again() -> None:
    raw = EXAMPLES["known_response"]
    response = decode_response(raw)
    assert response.content == b"This content contains CRLF.\r\n"
    assert response.trailers == ((b"trailer", b"text"),)
    assert encode_response(response) == raw


# -- laws


@pytest.mark.parametrize("indeterminate", [False, True])
@given(request=REQUESTS, padding=st.integers(0, 20), step=st.integers(1, 30))
def test_any_request_is_read_as_it_was_written(indeterminate: bool, request: Request, padding: int, step: int) -> None:
    raw = encode_request(request, indeterminate=indeterminate)
    assert decode_request(raw + bytes(padding)) == request
    decoder = MessageDecoder("request")
    events = [event for at in range(0, len(raw), step) for event in decoder.feed(raw[at : at + step])]
    events += decoder.finish()
    assert isinstance(events[0], Request)
    assert b"".join(event for event in events if isinstance(event, bytes)) == request.content
    assert decoder.trailers == request.trailers


@pytest.mark.parametrize("indeterminate", [False, True])
@given(response=RESPONSES, padding=st.integers(0, 20))
def test_any_response_is_read_as_it_was_written(indeterminate: bool, response: Response, padding: int) -> None:
    raw = encode_response(response, indeterminate=indeterminate)
    assert decode_response(raw + bytes(padding)) == response


@pytest.mark.parametrize("start", range(5))
@given(rest=st.binary(max_size=80))
def test_reading_any_bytes_ends_in_a_message_or_a_documented_refusal(start: int, rest: bytes) -> None:
    data = bytes((start,)) + rest
    if not _refuses(decode_request, data):
        assert decode_request(encode_request(decode_request(data))).path == decode_request(data).path
    if not _refuses(decode_response, data):
        assert decode_response(encode_response(decode_response(data))).status == decode_response(data).status


def test_what_is_read_early_is_the_head_and_then_the_content_as_it_comes() -> None:
    raw = encode_response(RESPONSE, indeterminate=True)
    decoder = MessageDecoder("response")
    at = raw.index(b"because")
    head, piece = decoder.feed(raw[: at + 3])
    assert head == Response(status=200, fields=RESPONSE.fields, interim=RESPONSE.interim)
    assert piece == b"bec"
    assert decoder.feed(raw[at + 3 :]) == (b"ause",)
    assert decoder.finish() == ()


# -- where a message may end


@pytest.mark.parametrize(
    ("message", "decode"),
    [
        (encode_request(REQUEST), decode_request),
        (encode_request(REQUEST, indeterminate=True), decode_request),
        (encode_response(RESPONSE), decode_response),
        (encode_response(RESPONSE, indeterminate=True), decode_response),
    ],
)
def test_a_message_may_end_between_its_parts_and_nowhere_else(
    message: bytes, decode: Callable[[bytes], object]
) -> None:
    ends = [size for size in range(len(message) + 1) if not _refuses(decode, message[:size])]
    # After the control data, the header, the content, and at the end: never inside one of them.
    assert len(ends) == 4
    assert ends[-1] == len(message)
    for size in set(range(len(message))) - set(ends):
        with pytest.raises(ChannelError) as refused:
            decode(message[:size])
        assert refused.value.code == "bhttp-truncated"


def _refuses(decode: Callable[[bytes], object], data: bytes) -> bool:
    try:
        decode(data)
    except ChannelError:
        return True
    return False


@pytest.mark.parametrize("indeterminate", [False, True])
def test_empty_parts_at_the_end_may_be_left_out(indeterminate: bool) -> None:
    request = Request(method="GET", authority="a", path="/", fields=((b"a", b"b"),))
    raw = encode_request(request, indeterminate=indeterminate)
    assert decode_request(raw[:-1]) == decode_request(raw[:-2]) == request
    bare = encode_request(replace(request, fields=()), indeterminate=indeterminate)
    assert decode_request(bare[:-3]) == replace(request, fields=())
    assert decode_response(b"\x01\x40\xc8") == Response(status=200)
    assert decode_response(b"\x03\x40\xc8") == Response(status=200)


def test_no_message_ends_after_an_interim_status() -> None:
    assert code_of(lambda: decode_response(b"\x01\x40\x64")) == "bhttp-truncated"
    assert code_of(lambda: decode_response(b"\x01\x40\x64\x00")) == "bhttp-truncated"
    assert decode_response(b"\x01\x40\x64\x00\x40\xc8").interim == ((100, ()),)


# -- what is malformed


@pytest.mark.parametrize("first", [b"\x01", b"\x03", b"\x04", b"\x3f", b"\x40\x04", b"\xff" * 8])
def test_another_framing_is_refused(first: bytes) -> None:
    assert code_of(lambda: decode_request(first + bytes(20))) == "bhttp-malformed"


@pytest.mark.parametrize("first", [b"\x00", b"\x02", b"\x04"])
def test_a_request_is_no_response(first: bytes) -> None:
    assert code_of(lambda: decode_response(first + b"\x40\xc8")) == "bhttp-malformed"


def test_nothing_is_no_message() -> None:
    assert code_of(lambda: decode_request(b"")) == "bhttp-truncated"
    assert code_of(lambda: decode_response(b"")) == "bhttp-truncated"


def test_integers_may_be_longer_than_they_need_be() -> None:
    raw = encode_request(Request(method="GET", authority="a", path="/"))
    assert decode_request(b"\x40" + raw) == decode_request(b"\xc0" + bytes(6) + raw) == decode_request(raw)
    assert decode_request(b"\x00\x40\x03GET" + raw[5:]) == decode_request(raw)


@pytest.mark.parametrize("status", [0, 99, 600, 999, 1 << 40])
def test_a_status_that_is_none_is_refused(status: int) -> None:
    assert code_of(lambda: decode_response(b"\x01" + varint(status) + b"\x00\x00\x00")) == "bhttp-field-invalid"
    assert code_of(lambda: Response(status=status)) == "bhttp-field-invalid"


@pytest.mark.parametrize(("status", "interim"), [(200, False), (599, False), (100, True), (199, True)])
def test_the_first_and_the_last_status_of_each_kind_are_taken(status: int, interim: bool) -> None:
    response = Response(status=200, interim=((status, ()),)) if interim else Response(status=status)
    assert decode_response(encode_response(response)) == response


@pytest.mark.parametrize(("status", "interim"), [(199, False), (600, False), (99, True), (200, True)])
def test_interim_responses_have_statuses_of_their_own(status: int, interim: bool) -> None:
    made = partial(Response, status=200, interim=((status, ()),)) if interim else partial(Response, status=status)
    assert code_of(made) == "bhttp-field-invalid"


@pytest.mark.parametrize(
    "change",
    [
        {"method": ""},
        {"method": "GE T"},
        {"method": "G\u00c9T"},
        {"scheme": "http"},
        {"scheme": ""},
        {"authority": "a b"},
        {"authority": "user@host"},
        {"authority": "a/b"},
        {"path": "/a b"},
        {"path": "/\n"},
        {"path": "/\u00e9"},
    ],
)
def test_control_data_that_is_no_http_is_neither_made_nor_read(change: dict[str, str]) -> None:
    assert code_of(lambda: replace(REQUEST, **change)) == "bhttp-field-invalid"  # type: ignore[arg-type]
    control = [change.get(n, getattr(REQUEST, n)).encode("latin-1") for n in ("method", "scheme", "authority", "path")]
    raw = b"\x00" + b"".join(varint(len(part)) + part for part in control)
    assert code_of(lambda: decode_request(raw)) == "bhttp-field-invalid"


BAD_FIELDS: tuple[Fields, ...] = (
    ((b"Upper", b"x"),),
    ((b"", b"x"),),
    ((b":", b"x"),),
    ((b"a b", b"x"),),
    ((b"a:", b"x"),),
    ((b"\xc3\xa9", b"x"),),
    *(((name, b"x"),) for name in (b":method", b":scheme", b":authority", b":path", b":status")),
    ((b"a", b"x"), (b":other", b"x")),
    *(((b"a", value),) for value in (b"\0", b"a\rb", b"a\nb", b" a", b"a\t")),
)


@pytest.mark.parametrize("wrong", BAD_FIELDS)
@pytest.mark.parametrize("indeterminate", [False, True])
def test_fields_that_are_none_are_neither_made_nor_read(wrong: Fields, indeterminate: bool) -> None:
    assert code_of(lambda: replace(REQUEST, fields=wrong)) == "bhttp-field-invalid"
    assert code_of(lambda: replace(REQUEST, trailers=wrong)) == "bhttp-field-invalid"
    assert code_of(lambda: replace(RESPONSE, fields=wrong)) == "bhttp-field-invalid"
    assert code_of(lambda: replace(RESPONSE, trailers=wrong)) == "bhttp-field-invalid"
    assert code_of(lambda: replace(RESPONSE, interim=((103, ()), (103, wrong)))) == "bhttp-field-invalid"
    raw = bytes((3 if indeterminate else 1,)) + b"\x40\xc8" + section(wrong, indeterminate=indeterminate)
    if wrong[0][0] == b"" and indeterminate:
        assert decode_response(raw) == Response(status=200, content=b"x")  # an empty name is the section's end
        return
    assert code_of(lambda: decode_response(raw)) == ("bhttp-field-invalid" if wrong[0][0] else "bhttp-malformed")


def test_pseudo_fields_of_others_come_first_and_never_last() -> None:
    first = ((b":protocol", b"websocket"), (b"a", b"b"))
    assert replace(RESPONSE, fields=first, interim=((103, first),)).interim[0][1] == first
    assert decode_request(encode_request(replace(REQUEST, fields=first))).fields == first
    assert code_of(lambda: replace(REQUEST, trailers=first[:1])) == "bhttp-field-invalid"


def test_fields_of_the_connection_are_left_out() -> None:
    both = ((b"connection", b"close"), (b"te", b"trailers"), (b"x", b"y"))
    assert decode_request(encode_request(replace(REQUEST, fields=both))).fields == ((b"x", b"y"),)


@pytest.mark.parametrize("at", [0, 5, 9])
def test_padding_that_is_not_zero_is_refused(at: int) -> None:
    padding = bytearray(10)
    padding[at] = 1
    assert code_of(lambda: decode_request(encode_request(REQUEST) + padding)) == "bhttp-padding-invalid"


def test_a_message_that_was_refused_stays_refused() -> None:
    decoder = MessageDecoder("request")
    assert code_of(lambda: decoder.feed(b"\x09")) == "bhttp-malformed"
    assert code_of(lambda: decoder.feed(b"")) == "bhttp-malformed"
    assert code_of(decoder.finish) == "bhttp-malformed"
    done = MessageDecoder("request")
    done.feed(encode_request(REQUEST))
    done.finish()
    assert code_of(lambda: done.feed(b"\0")) == "bhttp-malformed"


@pytest.mark.parametrize("raw", [encode_request(REQUEST), encode_request(REQUEST, indeterminate=True)])
def test_no_altered_byte_makes_reading_fail_in_another_way(raw: bytes) -> None:
    for at in range(len(raw)):
        for bit in range(8):
            altered = raw[:at] + bytes((raw[at] ^ 1 << bit,)) + raw[at + 1 :]
            try:
                assert decode_request(altered) != REQUEST
            except ChannelError:
                continue


# -- limits


def sized(**sizes: int) -> Request:
    """A request in which these parts have these sizes."""
    usual = {"method": 3, "authority": 1, "path": 1, "name": 1, "value": 1, "content": 0} | sizes
    return Request(
        method="G" * usual["method"],
        authority="a" * usual["authority"],
        path="/" * usual["path"],
        fields=((b"n" * usual["name"], b"v" * usual["value"]),),
        content=b"c" * usual["content"],
    )


@pytest.mark.parametrize("indeterminate", [False, True])
@pytest.mark.parametrize("what", ["method", "authority", "path", "name", "value", "content"])
def test_each_size_is_taken_up_to_its_limit(what: str, indeterminate: bool) -> None:
    limits = replace(LIMITS, content=1000)
    size = getattr(limits, what)
    fits, over = (encode_request(sized(**{what: n}), indeterminate=indeterminate) for n in (size, size + 1))
    decode_request(fits, limits=limits)
    with pytest.raises(ChannelError) as refused:
        decode_request(over, limits=limits)
    assert refused.value.code == "bhttp-too-long"
    assert what in str(refused.value.field)


@pytest.mark.parametrize("indeterminate", [False, True])
def test_the_number_of_fields_their_sum_and_the_interim_responses_are_limited(indeterminate: bool) -> None:
    limits = MessageLimits(fields=3, section=34, interim=2)
    many = ((b"n", b"v"),) * 4
    long = ((b"n" * 8, b"v" * 8),) * 3
    interim = ((100, ()),) * 3
    for over, fits in (
        (Response(status=200, fields=many), Response(status=200, fields=many[1:])),
        (Response(status=200, trailers=long), Response(status=200, trailers=long[1:])),
        (Response(status=200, interim=interim), Response(status=200, interim=interim[1:])),
    ):
        if not indeterminate and over.trailers:
            continue  # there the lengths between the lines count too
        decode_response(encode_response(fits, indeterminate=indeterminate), limits=limits)
        raw = encode_response(over, indeterminate=indeterminate)
        assert code_of(lambda raw=raw: decode_response(raw, limits=limits)) == "bhttp-too-long"  # type: ignore[misc]


def test_a_section_of_known_length_is_limited_as_a_whole() -> None:
    line = ((b"n", b"v" * 10),)
    size = len(section(line, indeterminate=False)) - 1
    raw = encode_response(Response(status=200, fields=line))
    decode_response(raw, limits=MessageLimits(section=size))
    assert code_of(lambda: decode_response(raw, limits=MessageLimits(section=size - 1))) == "bhttp-too-long"


def test_a_name_that_leaves_no_room_in_its_section_is_refused() -> None:
    raw = encode_response(Response(status=200, fields=((b"n" * 20, b""),)), indeterminate=True)
    assert code_of(lambda: decode_response(raw, limits=MessageLimits(section=19))) == "bhttp-too-long"


def test_padding_is_limited() -> None:
    raw = encode_request(REQUEST)
    decode_request(raw + bytes(LIMITS.padding))
    assert code_of(lambda: decode_request(raw + bytes(LIMITS.padding + 1))) == "bhttp-too-long"


@pytest.mark.parametrize("name", ["method", "scheme", "authority", "path"])
def test_a_length_over_its_limit_is_refused_before_anything_is_awaited(name: str) -> None:
    parts = {"method": b"\x03GET", "scheme": b"\x05https", "authority": b"\x01a", "path": b"\x01/"}
    before = [parts[one] for one in list(parts)[: list(parts).index(name)]]
    decoder = MessageDecoder("request")
    assert code_of(lambda: decoder.feed(b"\x00" + b"".join(before) + b"\xff" * 8)) == "bhttp-too-long"


@pytest.mark.parametrize("kind", [0, 2])
def test_a_content_length_over_the_limit_is_refused_before_anything_is_awaited(kind: int) -> None:
    decoder = MessageDecoder("request")
    decoder.feed(bytes((kind,)) + b"\x03GET\x05https\x01a\x01/\x00")
    assert code_of(lambda: decoder.feed(b"\xff" * 8)) == "bhttp-too-long"


def test_the_sum_of_content_chunks_is_limited() -> None:
    raw = b"\x02\x03GET\x05https\x01a\x01/\x00" + written_content(b"12345") * 2 + b"\x00"
    assert decode_request(raw, limits=MessageLimits(content=10)).content == b"1234512345"
    assert code_of(lambda: decode_request(raw, limits=MessageLimits(content=9))) == "bhttp-too-long"


def test_every_limit_has_a_test() -> None:
    tested = {"method", "scheme", "authority", "path", "name", "value", "content"} | {"fields", "section", "interim"}
    assert {field.name for field in fields(MessageLimits)} == tested | {"padding"}


def test_the_limits_are_those_of_common_servers() -> None:
    assert (
        MessageLimits(
            method=32,
            scheme=8,
            authority=255,
            path=8192,
            name=256,
            value=8192,
            fields=100,
            section=32768,
            interim=8,
            content=8388608,
            padding=65536,
        )
        == LIMITS
    )


def test_a_message_is_limited_by_the_sum_of_its_parts() -> None:
    # Ten bytes of framing for each byte of content, ten sections of lines, and 64 bytes of lengths for each of them.
    parts = MessageLimits(
        method=1, scheme=10, authority=100, path=1000, section=10_000, interim=8, content=10**6, padding=10**9
    )
    assert parts.message == (1 + 10 + 100 + 1000 + 64) + 10 * (10_000 + 64) + 10 * 10**6 + 10**9
    # Two sections, and one byte of framing for 16 bytes of content.
    assert parts.single == (1 + 10 + 100 + 1000 + 64) + 2 * (10_000 + 64) + 10**6 + 10**6 // 16 + 10**9
