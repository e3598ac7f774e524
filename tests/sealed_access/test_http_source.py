"""Sealed files on a web server: ranges, and everything a server can do wrong."""

import random
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import ConfigurationError, SealedFileError, SealedSourceError
from attest.sealed import SealedReader, ranges
from attest.sealed.http_source import HttpSource, HttpStore
from attest.sealed.locations import source_of, store_of
from attest.sealed.ranges import Interruption, RangeReader, Receive, RetryPolicy, receive_from, unreachable
from tests.sealed.segments import sealed
from tests.sealed_access.making import ASSOCIATED, KEY, seal
from tests.sealed_access.servers import MODIFIED, BasicHandler, Shelf, answer, hasty, serving, validators

pytestmark = pytest.mark.loopback

CONTENT = bytes(range(256)) * 40
Fault = Callable[[BasicHandler, bytes, int, int], bool]


def read(source: HttpSource, start: int, stop: int) -> bytes:
    buffer = bytearray(stop - start)
    source.read_into(start, memoryview(buffer))
    return bytes(buffer)


def shelf_of(*faults: Fault | None, content: bytes = CONTENT, etag: str = '"one"', modified: str = MODIFIED) -> Shelf:
    return Shelf(files={"/m": content}, faults=list(faults), etag=etag, modified=modified)


def saying(status: int = 206, body: bytes | None = None, **headers: str) -> Fault:
    """Answer the range, except for what is given."""

    def fault(handler: BasicHandler, content: bytes, start: int, stop: int) -> bool:
        stated = {"Content-Range": f"bytes {start}-{stop - 1}/{len(content)}", "ETag": '"one"'}
        stated.update({name.replace("_", "-"): value for name, value in headers.items()})
        answer(
            handler,
            status,
            content[start:stop] if body is None else body,
            headers={name: value for name, value in stated.items() if value},
        )
        return True

    return fault


def dropping(after: int, shelf: Shelf | None = None) -> Fault:
    """Break the line after so many bytes of the body."""

    def fault(handler: BasicHandler, content: bytes, start: int, stop: int) -> bool:
        stated = {"Content-Range": f"bytes {start}-{stop - 1}/{len(content)}", **validators(shelf or Shelf(files={}))}
        answer(handler, 206, content[start:stop], headers=stated, sent=after)
        return True

    return fault


def code_of(error: pytest.ExceptionInfo[SealedFileError] | pytest.ExceptionInfo[ConfigurationError]) -> str:
    return error.value.code


@pytest.mark.parametrize(("start", "stop"), [(0, 1), (0, 10240), (17, 17), (100, 9000), (10239, 10240)])
def test_a_range_is_the_slice(start: int, stop: int) -> None:
    with serving(shelf_of().handler()) as url, HttpSource(f"{url}/m", patience=hasty()) as source:
        assert source.size == len(CONTENT)
        assert read(source, start, stop) == CONTENT[start:stop]


def test_each_request_carries_the_strong_etag_of_the_first_answer() -> None:
    shelf = shelf_of()
    with serving(shelf.handler()) as url, HttpSource(f"{url}/m", patience=hasty()) as source:
        read(source, 5, 9)
    assert [headers.get("If-Range") for _, headers in shelf.seen] == [None, '"one"']
    assert shelf.seen[1][1]["Range"] == "bytes=5-8"
    assert shelf.seen[1][1]["Accept-Encoding"] == "identity"


def test_last_modified_pins_where_the_etag_is_weak() -> None:
    shelf = shelf_of(etag='W/"one"')
    with serving(shelf.handler()) as url, HttpSource(f"{url}/m", patience=hasty()) as source:
        assert read(source, 0, 4) == CONTENT[:4]
    assert shelf.seen[1][1]["If-Range"] == shelf.modified


def test_a_file_without_any_validator_is_refused() -> None:
    with (
        serving(shelf_of(etag="", modified="").handler()) as url,
        pytest.raises(SealedSourceError) as error,
    ):
        HttpSource(f"{url}/m", patience=hasty())
    assert code_of(error) == "sealed-source-unpinned"


def test_an_empty_file_has_size_0() -> None:
    with serving(shelf_of(content=b"").handler()) as url, HttpSource(f"{url}/m", patience=hasty()) as source:
        assert source.size == 0
        source.read_into(0, memoryview(bytearray()))


def _ignoring(handler: BasicHandler, content: bytes, start: int, stop: int) -> bool:
    answer(handler, 200, content, headers={"ETag": '"one"'})
    return True


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (_ignoring, "ignores ranges"),
        (saying(Content_Range=""), "Content-Range"),
        (saying(Content_Range="bytes 1-1/10240"), "Content-Range"),
        (saying(Content_Range="bytes 0-1/10240"), "Content-Range"),
        (saying(Content_Range="bytes 0-0/*"), "Content-Range"),
        (saying(Content_Range="bytes 0-0/0"), "Content-Range"),
        (saying(Content_Range="bytes 0-0/9999999999999999"), "Content-Range"),
        (saying(Content_Range="bytes 0-0/10240, bytes 3-4/10240"), "Content-Range"),
        (saying(Content_Range="octets 0-0/10240"), "Content-Range"),
        (saying(Content_Encoding="gzip"), "content coding"),
        (saying(body=b"abc"), "Content-Length"),
        (saying(status=204), "status 204"),
        (saying(status=416, Content_Range="bytes */10240"), "status 416"),
        (saying(status=400), "status 400"),
        (saying(status=302, Location="/m?1"), "redirect"),
    ],
)
def test_a_first_answer_that_is_none_is_refused(fault: Fault, words: str) -> None:
    with (
        serving(shelf_of(*[fault] * 9).handler()) as url,
        pytest.raises(SealedSourceError, match=words) as error,
    ):
        HttpSource(f"{url}/m", patience=hasty())
    assert code_of(error) == "sealed-source-answer-invalid"


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (_ignoring, "changed"),
        (saying(ETag='"two"'), "changed"),
        (saying(ETag=""), "changed"),
        (saying(status=412), "changed"),
        (saying(status=416, Content_Range="bytes */4"), "changed"),
        (saying(Content_Range="bytes 5-8/10241"), "changed"),
        (saying(Content_Range="bytes 5-9/10240"), "answer-invalid"),
        (saying(Content_Range="bytes 4-8/10240"), "answer-invalid"),
        (saying(Content_Encoding="br"), "answer-invalid"),
        (saying(body=b"abcde"), "answer-invalid"),
        (saying(status=404), "not-found"),
        (saying(status=410), "not-found"),
        (saying(status=401), "refused"),
        (saying(status=403), "refused"),
    ],
)
def test_a_later_answer_that_is_none_is_refused(fault: Fault, code: str) -> None:
    with (
        serving(shelf_of(None, fault).handler()) as url,
        HttpSource(f"{url}/m", patience=hasty()) as source,
        pytest.raises(SealedSourceError) as error,
    ):
        read(source, 5, 9)
    assert code_of(error) == f"sealed-source-{code}"


def test_more_bytes_than_announced_are_refused() -> None:
    def flooding(handler: BasicHandler, content: bytes, start: int, stop: int) -> bool:
        handler.send_response(206)
        handler.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(content)}")
        handler.send_header("ETag", '"one"')
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(b"10\r\n0123456789abcdef\r\n0\r\n\r\n")
        return True

    with (
        serving(shelf_of(None, flooding).handler()) as url,
        HttpSource(f"{url}/m", patience=hasty()) as source,
        pytest.raises(SealedSourceError, match="more bytes than it announced"),
    ):
        read(source, 5, 9)


def test_a_dropped_connection_is_resumed_in_the_middle() -> None:
    shelf = shelf_of(None, dropping(1000), dropping(500))
    with serving(shelf.handler()) as url, HttpSource(f"{url}/m", patience=hasty()) as source:
        assert read(source, 0, 10240) == CONTENT
    assert [headers["Range"] for _, headers in shelf.seen[1:]] == [
        "bytes=0-10239",
        "bytes=1000-10239",
        "bytes=1500-10239",
    ]


def test_a_server_that_drops_again_and_again_is_given_up() -> None:
    waits: list[float] = []
    patience = RetryPolicy(attempts=4, random=lambda: 1.0, sleep=waits.append, connections=1)
    with (
        serving(shelf_of(None, *[dropping(10)] * 9).handler()) as url,
        HttpSource(f"{url}/m", patience=patience) as source,
        pytest.raises(SealedSourceError) as error,
    ):
        read(source, 0, 10240)
    assert code_of(error) == "sealed-source-unreachable"
    assert error.value.retryable
    assert waits == [0.5, 1.0, 2.0]


def test_attempts_that_bring_much_are_not_counted() -> None:
    content = bytes(1 << 20)
    shelf = shelf_of(None, *[dropping(100_000)] * 8, content=content)
    with serving(shelf.handler()) as url, HttpSource(f"{url}/m", patience=hasty(attempts=3)) as source:
        assert read(source, 0, len(content)) == content


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_busy_server_is_asked_again(status: int) -> None:
    with (
        serving(shelf_of(None, saying(status=status), saying(status=status)).handler()) as url,
        HttpSource(f"{url}/m", patience=hasty()) as source,
    ):
        assert read(source, 1, 3) == CONTENT[1:3]


def test_retry_after_is_waited_for_and_a_long_one_is_refused_at_once() -> None:
    waits: list[float] = []
    patience = RetryPolicy(sleep=waits.append)
    with (
        serving(shelf_of(None, saying(status=503, Retry_After="7")).handler()) as url,
        HttpSource(f"{url}/m", patience=patience) as source,
    ):
        read(source, 0, 1)
    assert waits == [7.0]
    with (
        serving(shelf_of(saying(status=503, Retry_After="3600")).handler()) as url,
        pytest.raises(SealedSourceError, match="503"),
    ):
        HttpSource(f"{url}/m", patience=patience)
    assert waits == [7.0]


def test_a_server_that_drips_is_left_and_resumed_elsewhere() -> None:
    now = iter(float(second) for second in range(1000))
    shelf = shelf_of(None)
    patience = hasty(answer_seconds=0.5, monotonic=lambda: next(now), attempts=2)
    with serving(shelf.handler()) as url, HttpSource(f"{url}/m", patience=patience) as source:
        # One block holds it all, so that the clock, which jumps a second at each look, is not asked.
        assert read(source, 0, 100) == CONTENT[:100]

    def dripping(handler: BasicHandler, content: bytes, start: int, stop: int) -> bool:
        handler.send_response(206)
        handler.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(content)}")
        handler.send_header("ETag", '"one"')
        handler.send_header("Content-Length", str(stop - start))
        handler.end_headers()
        handler.wfile.write(content[start : start + 1])
        handler.wfile.flush()
        gone.wait(5)
        return True

    gone = threading.Event()
    with (
        serving(shelf_of(None, *[dripping] * 5).handler()) as url,
        HttpSource(f"{url}/m", patience=patience) as source,
    ):
        with pytest.raises(SealedSourceError, match="within"):
            read(source, 0, 100)
        gone.set()


def test_a_silent_server_times_out() -> None:
    gone = threading.Event()

    def silent(handler: BasicHandler, content: bytes, start: int, stop: int) -> bool:
        gone.wait(5)
        return True

    with (
        serving(shelf_of(silent, silent).handler()) as url,
        pytest.raises(SealedSourceError) as error,
    ):
        HttpSource(f"{url}/m", patience=hasty(read_seconds=0.05, attempts=2))
    gone.set()
    assert code_of(error) == "sealed-source-unreachable"


def test_nobody_listening_is_unreachable() -> None:
    with serving(shelf_of().handler()) as url:
        pass
    with pytest.raises(SealedSourceError) as error:
        HttpSource(f"{url}/m", patience=hasty(attempts=2))
    assert code_of(error) == "sealed-source-unreachable"


def test_a_large_read_is_cut_at_multiples_of_the_segment_and_runs_side_by_side(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ranges, "PIECE_BYTES", 1 << 20)
    content = bytes(range(251)) * 20_000
    shelf = shelf_of(content=content)
    with serving(shelf.handler()) as url, HttpSource(f"{url}/m", patience=hasty()) as source:
        assert read(source, 1000, 4_500_000) == content[1000:4_500_000]
    asked = sorted(headers["Range"] for _, headers in shelf.seen[1:])
    assert asked == [
        "bytes=1000-1048575",
        "bytes=1048576-2097151",
        "bytes=2097152-3145727",
        "bytes=3145728-4194303",
        "bytes=4194304-4499999",
    ]


def test_one_failed_piece_fails_the_read_and_stops_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "PIECE_BYTES", 1 << 20)
    shelf = shelf_of(None, saying(ETag='"two"'), content=bytes(40 << 20))
    with (
        serving(shelf.handler()) as url,
        HttpSource(f"{url}/m", patience=hasty(connections=2)) as source,
        pytest.raises(SealedSourceError, match="changed"),
    ):
        read(source, 0, 40 << 20)
    assert len(shelf.seen) < 40


def test_many_threads_read_at_once() -> None:
    with serving(shelf_of().handler()) as url, HttpSource(f"{url}/m", patience=hasty()) as source:
        results: dict[int, bytes] = {}

        def one(start: int) -> None:
            results[start] = read(source, start, start + 500)

        threads = [threading.Thread(target=one, args=(start,)) for start in range(0, 8000, 500)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results == {start: CONTENT[start : start + 500] for start in range(0, 8000, 500)}


def test_redirects_are_followed_and_the_callers_headers_stay_at_home() -> None:
    far = shelf_of()
    with serving(far.handler()) as elsewhere:

        def away(handler: BasicHandler, content: bytes, start: int, stop: int) -> bool:
            answer(handler, 307, headers={"Location": f"{elsewhere}/m?sig=secret"})
            return True

        near = shelf_of(*[away] * 9)
        with (
            serving(near.handler()) as url,
            HttpSource(f"{url}/m", headers=lambda: {"Authorization": "Bearer t"}, patience=hasty()) as source,
        ):
            assert read(source, 3, 7) == CONTENT[3:7]
    assert {headers.get("Authorization") for _, headers in near.seen} == {"Bearer t"}
    assert {headers.get("Authorization") for _, headers in far.seen} == {None}


@pytest.mark.parametrize("location", [None, "ftp://127.0.0.1/m", "http://u:p@127.0.0.1/m"])
def test_a_redirect_to_somewhere_else_is_refused(location: str | None) -> None:
    def away(handler: BasicHandler, content: bytes, start: int, stop: int) -> bool:
        answer(handler, 302, headers={} if location is None else {"Location": location})
        return True

    with serving(shelf_of(away).handler()) as url, pytest.raises(SealedSourceError) as error:
        HttpSource(f"{url}/m", patience=hasty())
    assert code_of(error) == "sealed-source-answer-invalid"


def test_https_is_never_left_for_http() -> None:
    from attest.sealed.http_connections import _redirected

    with pytest.raises(SealedSourceError, match="as safe"):
        _redirected("https://a.example/m", "http://a.example/m")
    assert _redirected("http://a.example/m", "https://b.example/x") == "https://b.example/x"


@pytest.mark.parametrize(
    "url",
    [
        "ftp://host/x",
        "host/x",
        "http://",
        "http:///x",
        "http://u@host/x",
        "http://u:p@host/x",
        "http://host/x#part",
        "http://host:x/",
        "http://host/a b",
        "http://höst/x",
        "http://host:99999/x",
    ],
)
def test_an_address_that_is_none_is_refused_before_anything_is_sent(url: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        HttpSource(url)
    assert code_of(error) == "sealed-url-invalid"
    assert "u:p" not in error.value.message


@pytest.mark.parametrize("host", ["a..b", "...", "a" * 300, "[v1.x]"])
def test_a_host_that_no_name_can_be_is_refused(host: str) -> None:
    with pytest.raises((ConfigurationError, SealedSourceError)) as error:
        HttpSource(f"http://{host}/" + "p" * 1000, patience=hasty(attempts=1), trust_env=False)
    assert error.value.code == "sealed-url-invalid"
    assert len(error.value.message) < 600


def test_a_server_that_lies_about_the_size_does_not_open_as_a_sealed_file() -> None:
    sealed = seal(CONTENT)

    def lying(by: int) -> Fault:
        def fault(handler: BasicHandler, content: bytes, start: int, stop: int) -> bool:
            stated = {"Content-Range": f"bytes {start}-{stop - 1}/{len(content) + by}", "ETag": '"one"'}
            answer(handler, 206, content[start:stop].ljust(stop - start, b"\0"), headers=stated)
            return True

        return fault

    for by in (-100, -1, 1, 100):
        with (
            serving(shelf_of(*[lying(by)] * 9, content=sealed).handler()) as url,
            HttpSource(f"{url}/m", patience=hasty()) as source,
            pytest.raises(SealedFileError),
        ):
            SealedReader(source, key=KEY, associated_data=ASSOCIATED)


def test_a_query_is_sent_and_never_shown() -> None:
    shelf = shelf_of(None, saying(status=403))
    with (
        serving(shelf.handler()) as url,
        HttpSource(f"{url}/m?X-Amz-Signature=secret", patience=hasty()) as source,
    ):
        assert "secret" not in source.name
        with pytest.raises(SealedSourceError) as error:
            read(source, 0, 1)
    assert shelf.seen[0][0].endswith("?X-Amz-Signature=secret")
    assert "secret" not in error.value.message


def test_a_range_outside_the_file_and_a_closed_source_are_wrong_use() -> None:
    with serving(shelf_of().handler()) as url:
        source = HttpSource(f"{url}/m", patience=hasty())
        for start, size in ((-1, 2), (10240, 1), (0, 10241)):
            with pytest.raises(ValueError, match="not within"):
                source.read_into(start, memoryview(bytearray(size)))
        source.close()
        source.close()
        with pytest.raises(ValueError, match="closed"):
            read(source, 0, 1)


def test_a_store_reads_small_files_and_opens_large_ones() -> None:
    shelf = Shelf(files={"/models/sealed.json": b"{}", "/models/a%20b/%C3%BC.sealed": CONTENT, "/models/none": b""})
    with serving(shelf.handler()) as url:
        store = HttpStore(f"{url}/models", patience=hasty())
        assert store.read_small("sealed.json", 10) == b"{}"
        assert store.read_small("none", 10) == b""
        with store.open("a b/ü.sealed") as source:
            assert read(source, 0, 3) == CONTENT[:3]
        assert store.read_small("a b/ü.sealed", 100) == CONTENT[:101]
        assert store.sizes() is None
        with pytest.raises(SealedSourceError) as missing:
            store.read_small("absent", 100)
        assert code_of(missing) == "sealed-source-not-found"
        store.close()
        store.close()
        with pytest.raises(ValueError, match="closed"):
            store.open("none")


def test_settings_of_the_network_that_cannot_be_used_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "nonsense://proxy")
    with pytest.raises(ConfigurationError) as error:
        HttpSource("https://models.example/m")
    assert code_of(error) == "network-settings-invalid"


def test_the_proxy_of_the_environment_is_used_with_its_password_and_no_proxy_is_honoured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shelf = Shelf(files={"http://models.example/m": CONTENT, "/m": CONTENT})
    with serving(shelf.handler()) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.replace("http://", "http://user:p%40ss@"))
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        with HttpSource("http://models.example/m", patience=hasty()) as source:
            assert read(source, 5, 9) == CONTENT[5:9]
        with HttpSource(f"{proxy}/m", patience=hasty()) as source:
            assert read(source, 5, 9) == CONTENT[5:9]
    asked = [(path, headers.get("proxy-authorization")) for path, headers in shelf.seen]
    assert asked == [("http://models.example/m", "Basic dXNlcjpwQHNz")] * 2 + [("/m", None)] * 2


def test_the_environments_proxy_is_left_out_where_the_environment_is_not_trusted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with serving(shelf_of().handler()) as url, HttpSource(f"{url}/m", patience=hasty(), trust_env=False) as source:
        assert read(source, 5, 9) == CONTENT[5:9]


@pytest.mark.parametrize("value", ["Bearer se\ncret", "Bearer secr\u2026t"])
def test_a_header_that_cannot_be_sent_is_refused_and_not_shown(value: str) -> None:
    with serving(shelf_of().handler()) as url, pytest.raises(ConfigurationError) as error:
        HttpSource(f"{url}/m", headers=lambda: {"Authorization": value}, patience=hasty())
    assert code_of(error) == "headers-invalid"
    assert "Bearer" not in str(error.getrepr(chain=True, style="native"))


def test_answers_that_are_left_unread_free_their_connections() -> None:
    shelf = shelf_of(None, *[saying(status=503)] * 9, *[_ignoring] * 9, content=bytes(1 << 20))
    patience = hasty(connections=1, attempts=99)
    with serving(shelf.handler()) as url, HttpSource(f"{url}/m", patience=patience) as source:
        for _ in range(9):
            with pytest.raises(SealedSourceError, match="changed"):
                read(source, 0, 9)
        assert read(source, 0, 9) == bytes(9)


def test_ranges_one_after_the_other_share_a_connection() -> None:
    ports: set[int] = set()

    def noting(handler: BasicHandler, content: bytes, start: int, stop: int) -> bool:
        ports.add(handler.client_address[1])
        return False

    with (
        serving(shelf_of(*[noting] * 9).handler()) as url,
        HttpSource(f"{url}/m", patience=hasty()) as source,
    ):
        for start in range(8):
            read(source, start, start + 900)
    assert len(ports) == 1


def test_bytes_are_received_as_they_arrive() -> None:
    """Memory for more than has arrived is filled in part: a sender of single bytes is noticed after each of them."""
    go_on = threading.Event()

    def pausing(handler: BasicHandler, content: bytes, start: int, stop: int) -> bool:
        stated = {"Content-Range": f"bytes {start}-{stop - 1}/{len(content)}", "ETag": '"one"'}
        answer(handler, 206, content[start : start + 10], headers=stated, length=stop - start)
        assert go_on.wait(30)
        handler.wfile.write(content[start + 10 : stop])
        return True

    with serving(shelf_of(None, pausing).handler()) as url, HttpSource(f"{url}/m", patience=hasty()) as source:
        assert source.size == len(CONTENT)
        memory = memoryview(bytearray(1000))
        with source._ask(0, 1000) as receive:  # noqa: SLF001  what a range is made of
            received = receive(memory)
            assert received == 10
            go_on.set()
            while received < 1000:
                received += receive(memory[received:])
            assert receive(memory) == 0
    assert memory == CONTENT[:1000]


def test_an_answer_in_chunks_is_read_however_they_arrive() -> None:
    parts: list[int] = []

    def chunked(handler: BasicHandler, content: bytes, start: int, stop: int) -> bool:
        handler.send_response(206)
        handler.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(content)}")
        handler.send_header("ETag", '"one"')
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        whole = b"%x\r\n%s\r\n0\r\n\r\n" % (stop - start, content[start:stop])
        for at in range(0, len(whole), 700):  # no part is a chunk
            handler.wfile.write(whole[at : at + 700])
            handler.wfile.flush()
            parts.append(at)
            time.sleep(0.001)
        return True

    shelf = shelf_of(None, chunked, chunked)
    with serving(shelf.handler()) as url, HttpSource(f"{url}/m", patience=hasty(attempts=1)) as source:
        assert read(source, 0, 10240) == CONTENT
        assert read(source, 5, 5000) == CONTENT[5:5000]
    assert (len(shelf.seen), len(set(shelf.clients))) == (3, 1)
    assert len(parts) > 20


def test_bytes_count_also_where_the_line_breaks_behind_the_last_one() -> None:
    asked: list[int] = []

    @contextmanager
    def ask(begin: int, stop: int) -> Iterator[Receive]:
        asked.append(begin)

        def blocks() -> Iterator[bytes]:
            yield CONTENT[begin:stop]
            raise Interruption(unreachable("x", "broke off"))

        yield receive_from(blocks())

    patience = hasty(attempts=1)
    reader = RangeReader(name="x", size=len(CONTENT), ask=ask, patience=patience)
    buffer = bytearray(300)
    reader.read_into(0, memoryview(buffer))
    assert (bytes(buffer), asked) == (CONTENT[:300], [0])


@pytest.mark.parametrize("how", ["reset", "silent"])
def test_a_connection_that_is_reset_or_falls_silent_is_resumed_in_the_middle(how: str) -> None:
    over = threading.Event()

    def breaking(handler: BasicHandler, content: bytes, start: int, stop: int) -> bool:
        stated = {"Content-Range": f"bytes {start}-{stop - 1}/{len(content)}", "ETag": '"one"'}
        answer(handler, 206, content[start : start + 1000], headers=stated, length=stop - start)
        if how == "reset":
            handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            handler.connection.close()
        else:
            assert over.wait(30)
        handler.close_connection = True
        return True

    shelf = shelf_of(None, breaking)
    with serving(shelf.handler()) as url, HttpSource(f"{url}/m", patience=hasty(read_seconds=0.5)) as source:
        assert read(source, 0, 10240) == CONTENT
        over.set()
    assert len(shelf.seen) == 3


def test_reads_in_turn_share_a_connection() -> None:
    shelf = shelf_of()
    with serving(shelf.handler()) as url, HttpSource(f"{url}/m", patience=hasty()) as source:
        for start in range(5):
            assert read(source, start, start + 100) == CONTENT[start : start + 100]
    assert len(shelf.seen) == 6
    assert len(set(shelf.clients)) == 1


def test_a_store_takes_no_query() -> None:
    with pytest.raises(ConfigurationError, match="query"):
        HttpStore("https://a.example/m?x=1")


@pytest.mark.parametrize("changes", [{"connections": 0}, {"connections": 65}, {"attempts": 0}])
def test_patience_without_sense_is_refused(changes: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be"):
        RetryPolicy(**changes)  # type: ignore[arg-type]  # integers


def test_waits_grow_with_jitter_up_to_a_bound() -> None:
    patience = RetryPolicy(random=lambda: 0.0, attempts=99)
    assert [patience.wait_after(failures, None) for failures in (1, 2, 3, 60)] == [0.25, 0.5, 1.0, 15.0]
    assert patience.wait_after(1, 31.0) is None
    assert patience.wait_after(1, 30.0) == 30.0


@given(
    start=st.integers(0, 5000),
    size=st.integers(0, 3000),
    piece=st.sampled_from([7, 64, 1000]),
    luck=st.lists(st.integers(0, 400), max_size=30),
)
def test_any_range_is_the_slice_however_often_the_line_breaks(
    start: int, size: int, piece: int, luck: list[int]
) -> None:
    content = random.Random(1).randbytes(8000)
    dealt = list(luck)
    lock = threading.Lock()

    @contextmanager
    def ask(begin: int, stop: int) -> Iterator[Receive]:
        with lock:
            sent = dealt.pop() if dealt else stop - begin

        def blocks() -> Iterator[bytes]:
            yield content[begin : min(stop, begin + sent)]
            if begin + sent < stop:
                raise Interruption(unreachable("x", "broke off"))

        yield receive_from(blocks())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranges, "PIECE_BYTES", piece)
        patience = RetryPolicy(connections=3, attempts=100, sleep=lambda _: None)
        reader = RangeReader(name="x", size=len(content), ask=ask, patience=patience)
        buffer = bytearray(size)
        reader.read_into(start, memoryview(buffer))
        reader.close()
    assert buffer == content[start : start + size]


def test_a_stream_that_just_ends_early_is_resumed() -> None:
    asked: list[int] = []

    @contextmanager
    def ask(begin: int, stop: int) -> Iterator[Receive]:
        asked.append(begin)
        yield receive_from(iter((CONTENT[begin : begin + 100],)))

    reader = RangeReader(name="x", size=len(CONTENT), ask=ask, patience=hasty(attempts=9))
    buffer = bytearray(300)
    reader.read_into(0, memoryview(buffer))
    assert bytes(buffer) == CONTENT[:300]
    assert asked == [0, 100, 200]


def test_an_interrupted_read_leaves_nothing_that_still_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while pieces are on their way: the buffer is the caller's again when the exception arrives."""
    monkeypatch.setattr(ranges, "PIECE_BYTES", 4)
    started, finished = [], []

    def ask(start: int, stop: int) -> object:
        started.append(start)
        if start == 0:
            raise KeyboardInterrupt
        raise Interruption(unreachable("x", "never"))

    def sleep(_: float) -> None:
        finished.append(1)

    reader = RangeReader(name="x", size=8, ask=ask, patience=RetryPolicy(sleep=sleep, connections=2))  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt):
        reader.read_into(0, memoryview(bytearray(8)))
    reader.close()


def test_a_sealed_file_is_read_in_few_requests_and_an_interrupted_one_is_resumed() -> None:
    plaintext = random.Random(3).randbytes(40 << 20)
    raw = bytes(sealed(plaintext, key=KEY, aad=ASSOCIATED))

    def interrupted(handler: BasicHandler, content: bytes, start: int, stop: int) -> bool:
        stated = {"Content-Range": f"bytes {start}-{stop - 1}/{len(content)}", "ETag": '"one"'}
        answer(handler, 206, content[start:stop], headers=stated, sent=(stop - start) // 2)
        return True

    shelf = Shelf(files={"/m": raw}, faults=[None, None, None, interrupted, None, interrupted])
    with serving(shelf.handler()) as url:
        source = HttpSource(f"{url}/m", patience=hasty())
        with SealedReader(source, key=KEY, associated_data=ASSOCIATED) as reader:
            opening = len(shelf.seen)
            assert reader.read(0, reader.size) == plaintext
            assert (opening, len(shelf.seen) - opening) == (3, 5 + 2)
            got = bytearray()
            reader.stream(got.extend)
            assert got == plaintext
            assert len(shelf.seen) == 3 + 7 + 6


@pytest.mark.parametrize("place", ["ftp://models.example/m", "htps://models.example/m", "swift://c/m"])
def test_an_address_of_another_kind_says_what_can_be_read(place: str) -> None:
    for opened in (source_of, store_of):
        with pytest.raises(ConfigurationError) as caught:
            opened(place)
        assert (caught.value.code, caught.value.expected) == (
            "sealed-url-invalid",
            "a path, https://, http://, s3://, az://, abfss://, gs:// or oci://",
        )
        assert "check the spelling" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("place", "module", "extra"),
    [("s3://models/m", "boto3", "s3"), ("az://models/m", "azure", "azure"), ("gs://models/m", "google", "gs")],
)
def test_a_kind_whose_library_is_missing_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, place: str, module: str, extra: str
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", "test")
    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigurationError) as caught:
        store_of(place)
    assert (caught.value.code, caught.value.hint) == (f"{extra}-unavailable", f"pip install 'attest-kms[{extra}]'")


def test_a_stream_gives_no_byte_behind_its_range() -> None:
    with serving(shelf_of().handler()) as url, HttpSource(f"{url}/m", patience=hasty()) as source:
        with source.stream(10, 20) as stream:
            first, more = bytearray(20), bytearray(b"?")
            stream.read_into(memoryview(first))
            with pytest.raises(ValueError, match="bytes less than"):
                stream.read_into(memoryview(more))
        assert (bytes(first), bytes(more)) == (CONTENT[10:30], b"?")
