"""The searcher finds what is there, in every form; one that finds nothing would prove nothing."""

import base64
import bz2
import gzip
import json
import lzma
import os
import random
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest

from rag_demo.demo.document import DOCUMENT_TEXT, QUESTION, SENTENCES
from rag_demo.demo.search import MAX_STREAMS, Haystack, Hit, Searcher, process_haystacks
from rag_demo.demo.secret_forms import bytes_needles, text_needles, weight_windows
from rag_demo.demo.weights import weight_needles

SENTENCE = "The keeper's parrot is called Admiral Pomfret"
WINDOW = bytes(range(7, 7 + 32))
SEARCHER = Searcher((*text_needles("text", (SENTENCE,)), *bytes_needles("weights", WINDOW)))
NOISE = random.Random(5).randbytes(4096)


def hay(data: bytes, name: str = "hay") -> Haystack:
    return Haystack(name=name, read=lambda: data)


def found(data: bytes, searcher: Searcher = SEARCHER) -> list[Hit]:
    return list(searcher.search(hay(data)))


def each(template: str) -> Callable[[bytes], bytes]:
    return lambda data: "".join(template % one for one in data).encode()


def in_base64(shift: int, rest: int) -> Callable[[bytes], bytes]:
    return lambda data: base64.b64encode(b"x" * shift + data + b"y" * rest)


def in_base64url(shift: int) -> Callable[[bytes], bytes]:
    return lambda data: base64.urlsafe_b64encode(b"\xff" * shift + data)


TEXTS: dict[str, Callable[[str], bytes]] = {
    "utf-8": str.encode,
    "utf-16 le": lambda text: text.encode("utf-16-le"),
    "utf-16 be": lambda text: text.encode("utf-16-be"),
    "utf-32": lambda text: text.encode("utf-32-le"),
    "json": lambda text: json.dumps({"q": text}).encode(),
    "json escaped": lambda text: "".join(f"\\u{ord(one):04x}" for one in text).encode(),
    "json escaped upper": lambda text: "".join(f"\\u{ord(one):04X}" for one in text).encode(),
    "percent": lambda text: quote(text).encode(),
    "percent all reserved": lambda text: quote(text, safe="").encode(),
    "form": lambda text: quote_plus(text).encode(),
    "upper": lambda text: text.upper().encode(),
    "lower": lambda text: text.lower().encode(),
}
BYTES: dict[str, Callable[[bytes], bytes]] = {
    "raw": bytes,
    "reversed": lambda data: data[::-1],
    "hex": lambda data: data.hex().encode(),
    "hex upper": lambda data: data.hex().upper().encode(),
    "hex spaced": lambda data: data.hex(" ").encode(),
    "percent bytes": each("%%%02X"),
    "percent bytes lower": each("%%%02x"),
    "escaped": each("\\x%02x"),
    "base32": base64.b32encode,
    "base85": base64.b85encode,
    **{f"base64 {shift}{rest}": in_base64(shift, rest) for shift in range(3) for rest in range(3)},
    **{f"base64url {shift}": in_base64url(shift) for shift in range(3)},
}
PACKED: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "gzip fast": lambda data: gzip.compress(data, 1),
    "zlib": zlib.compress,
    "zlib fast": lambda data: zlib.compress(data, 1),
    "zlib best": lambda data: zlib.compress(data, 9),
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "gzip in gzip": lambda data: gzip.compress(NOISE + gzip.compress(data)),
}


@pytest.mark.parametrize("form", TEXTS)
def test_a_text_is_found_in_every_form(form: str) -> None:
    assert found(NOISE + TEXTS[form](SENTENCE) + NOISE)
    assert not found(NOISE + TEXTS[form](SENTENCE[::2] + "!") + NOISE)


@pytest.mark.parametrize("form", BYTES)
@pytest.mark.parametrize("secret", [SENTENCE.encode(), WINDOW], ids=["text", "weights"])
def test_bytes_are_found_in_every_form(form: str, secret: bytes) -> None:
    hits = found(NOISE + BYTES[form](secret) + NOISE)
    assert hits
    assert all(hit.offset >= len(NOISE) for hit in hits)


@pytest.mark.parametrize("form", PACKED)
@pytest.mark.parametrize("before", [0, 1, 4000])
def test_what_is_compressed_is_looked_into(form: str, before: int) -> None:
    packed = PACKED[form](NOISE + SENTENCE.encode() + NOISE)
    hits = found(NOISE[:before] + packed + NOISE)
    assert hits
    assert "inflated" in hits[0].where


def test_raw_deflate_is_looked_into_where_a_body_begins() -> None:
    deflate = zlib.compressobj(wbits=-15)
    packed = deflate.compress(SENTENCE.encode() * 3) + deflate.flush()
    assert found(packed)
    assert found(b"HTTP/1.1 200 OK\r\ncontent-encoding: deflate\r\n\r\n" + packed)


def test_a_compressed_stream_that_breaks_off_counts_as_far_as_it_goes() -> None:
    packed = gzip.compress(SENTENCE.encode() + random.Random(1).randbytes(50_000))
    assert found(packed[: len(packed) // 2])


@pytest.mark.parametrize("begin", [0, 5, 13, len(SENTENCE) - 24])
def test_half_a_sentence_is_found_too(begin: int) -> None:
    assert found(NOISE + SENTENCE[begin : begin + 24].encode() + NOISE)


@pytest.mark.parametrize("offset", [-40, -16, -9, -8, -7, -1, 0, 1])
def test_what_lies_across_the_bounds_of_what_is_read_at_once_is_found(offset: int) -> None:
    size = 4 * 1024 * 1024
    data = bytearray(size + 100)
    place = size + offset
    data[place : place + len(SENTENCE)] = SENTENCE.encode()
    assert any(hit.offset == place for hit in found(bytes(data)))


def test_each_place_is_told_once_and_nothing_of_the_secret() -> None:
    searcher = Searcher(bytes_needles("weights", WINDOW))
    hits = found(NOISE + WINDOW + NOISE + WINDOW, searcher)
    assert [hit.offset for hit in hits] == [len(NOISE), 2 * len(NOISE) + len(WINDOW)]
    assert str(hits[0]) == f"weights (as it is) in hay at {len(NOISE)}"


def test_nothing_is_found_where_nothing_is() -> None:
    assert found(b"") == found(b"x") == found(NOISE * 100) == []
    assert found(b"The keeper's cat is called something else altogether, and whistles") == []


def test_the_words_of_the_demonstration_are_all_in_its_document_and_all_looked_for() -> None:
    searcher = Searcher(text_needles("document", SENTENCES))
    flat = " ".join(DOCUMENT_TEXT.split())
    for sentence in SENTENCES:
        assert sentence in flat
        assert found(sentence.encode(), searcher)
    lines = [line for line in DOCUMENT_TEXT.splitlines() if len(line) > 60]
    assert all(found(line.encode(), searcher) for line in lines)
    assert found(QUESTION.encode(), Searcher(text_needles("question", (QUESTION,))))


def test_the_models_weights_are_found_in_the_model() -> None:
    from rag_demo.demo.owner import model_folder

    searcher = Searcher(weight_needles())
    assert len({needle.what for needle in searcher.needles}) == 6
    with (model_folder() / "model.safetensors").open("rb") as file:
        part = file.read(50_000_000)
    found_in = {hit.needle.what for hit in searcher._plain("model", part)}  # noqa: SLF001  without inflating
    assert len(found_in) >= 3


def test_a_search_that_cannot_fail_is_refused() -> None:
    for needles in ((), tuple(bytes_needles("x", WINDOW))[:0]):
        with pytest.raises(ValueError, match="expected needles"):
            Searcher(needles)
    with pytest.raises(ValueError, match="by chance"):
        list(text_needles("x", ("short",)))
    with pytest.raises(ValueError, match="by chance"):
        list(bytes_needles("x", b"short"))
    assert weight_windows(bytes(10_000), count=5) == ()
    assert weight_windows(WINDOW[:31], count=5) == ()


def test_more_compressed_places_than_can_be_looked_into_are_no_success() -> None:
    with pytest.raises(ValueError, match="look compressed"):
        found(b"x\x9c" * (MAX_STREAMS + 1))


def test_files_are_read_and_their_names_are_looked_at(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_bytes(b"x" + SENTENCE.encode())
    (tmp_path / "owner").mkdir()
    (tmp_path / "owner" / "file").write_bytes(SENTENCE.encode())
    (tmp_path / "link").symlink_to(tmp_path / "owner" / "file")
    hits = [hit for one in Haystack.files(tmp_path, without=[tmp_path / "owner"]) for hit in SEARCHER.search(one)]
    assert {hit.where for hit in hits} == {str(tmp_path / "a" / "file")}
    (tmp_path / SENTENCE).touch()
    hits = [hit for one in Haystack.files(tmp_path, without=[tmp_path / "owner"]) for hit in SEARCHER.search(one)]
    assert any("names of files" in hit.where for hit in hits)


@pytest.mark.parametrize("place", ["argument", "environment"])
def test_arguments_and_environments_of_processes_are_looked_at(place: str) -> None:
    arguments = [sys.executable, "-S", "-c", "import time; time.sleep(60)"]
    env = dict(os.environ)
    if place == "argument":
        arguments.append(SENTENCE)
    else:
        env["SECRET"] = SENTENCE
    process = subprocess.Popen(arguments, env=env)
    try:
        end = time.monotonic() + 60
        while not (hits := [hit for one in process_haystacks([process.pid]) for hit in SEARCHER.search(one)]):
            assert time.monotonic() < end
            time.sleep(0.02)
        assert ("environ" in hits[0].where) is (place == "environment")
    finally:
        process.kill()
        process.wait()


def test_a_process_that_may_not_be_looked_into_ends_no_search() -> None:
    assert [one.name for one in process_haystacks([1])] == ["/proc/1/cmdline", "/proc/1/environ"]
    assert [hit for one in process_haystacks([1]) for hit in SEARCHER.search(one)] == []
