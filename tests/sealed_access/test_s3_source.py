"""Sealed files in object storage, on a small server that speaks the part of S3 that is used."""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from urllib.parse import unquote

import pytest

from attest.errors import AttestError, ConfigurationError, SealedSourceError
from attest.sealed.s3_source import S3Address, S3Source, S3Store, s3_client
from tests.sealed_access.servers import BasicHandler, answer, hasty, serving, wanted

pytestmark = pytest.mark.loopback

CONTENT = bytes(range(256)) * 40
Fault = Callable[[BasicHandler, bytes, int, int], bool]
_SIGNED = re.compile(
    r"AWS4-HMAC-SHA256 Credential=test/[0-9]{8}/eu-central-1/s3/aws4_request, "
    r"SignedHeaders=[a-z0-9;-]*host[a-z0-9;-]*, Signature=[0-9a-f]{64}"
)


@dataclass
class Bucket:
    """Objects by ``/bucket/key``; faults as in ``servers.Shelf``, for GET alone."""

    objects: dict[str, bytes]
    etag: str = '"0123"'
    version: str | None = None
    faults: list[Fault | None] = field(default_factory=list)
    heads: list[Fault | None] = field(default_factory=list)
    seen: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


def handler_of(current: Callable[[], Bucket]) -> type[BasicHandler]:  # noqa: C901  one small server
    class Handler(BasicHandler):
        def _take(self, which: str) -> tuple[Fault | None, bytes | None]:
            bucket = current()
            with bucket.lock:
                headers = {name.lower(): value for name, value in self.headers.items()}
                bucket.seen.append((self.command, self.path, headers))
                faults = bucket.heads if which == "heads" else bucket.faults
                fault = faults.pop(0) if faults else None
            return fault, bucket.objects.get(unquote(self.path.partition("?")[0]))

        def _named(self) -> dict[str, str]:
            bucket = current()
            named = {"ETag": bucket.etag, "x-amz-version-id": bucket.version or ""}
            return {name: value for name, value in named.items() if value}

        def do_HEAD(self) -> None:  # noqa: N802  the base class's
            fault, content = self._take("heads")
            if fault is not None and fault(self, content or b"", 0, 0):
                return
            if content is None:
                answer(self, 404)
                return
            self.send_response(200)
            for name, value in self._named().items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()

        def do_GET(self) -> None:  # noqa: N802  the base class's
            fault, content = self._take("faults")
            if content is None:
                refuse(404, "NoSuchKey")(self, b"", 0, 0)
                return
            start, stop = wanted(self, len(content))
            if fault is not None and fault(self, content, start, stop):
                return
            if self.headers.get("If-Match") != current().etag:
                refuse(412, "PreconditionFailed")(self, content, start, stop)
                return
            stated = {"Content-Range": f"bytes {start}-{stop - 1}/{len(content)}", **self._named()}
            answer(self, 206, content[start:stop], headers=stated)

    return Handler


def refuse(status: int, code: str) -> Fault:
    def fault(handler: BasicHandler, content: bytes, start: int, stop: int) -> bool:
        body = f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode()
        answer(handler, status, b"" if handler.command == "HEAD" else body, headers={"Content-Type": "application/xml"})
        return True

    return fault


def saying(body: bytes | None = None, sent: int | None = None, **headers: str) -> Fault:
    def fault(handler: BasicHandler, content: bytes, start: int, stop: int) -> bool:
        stated = {"Content-Range": f"bytes {start}-{stop - 1}/{len(content)}", "ETag": '"0123"'}
        stated.update({name.replace("_", "-"): value for name, value in headers.items()})
        named = {name: value for name, value in stated.items() if value}
        answer(handler, 206, content[start:stop] if body is None else body, headers=named, sent=sent)
        return True

    return fault


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    """Made-up credentials, and none of this machine's."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "made up",
        "AWS_DEFAULT_REGION": "eu-central-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": f"{tmp_path}/none",
        "AWS_SHARED_CREDENTIALS_FILE": f"{tmp_path}/none",
    }.items():
        monkeypatch.setenv(name, value)


class _Storage:
    """One server and one client for all tests: making a client of boto3 takes as long as twenty requests."""

    bucket: Bucket

    def __init__(self) -> None:
        self._serving = serving(handler_of(lambda: self.bucket))
        self.client = s3_client(patience=hasty(), endpoint_url=self._serving.__enter__())


@cache
def storage() -> _Storage:
    return _Storage()


@contextmanager
def opened(bucket: Bucket) -> Iterator[S3Source]:
    storage().bucket = bucket
    with S3Source("s3://models/m", client=storage().client, patience=hasty()) as source:
        yield source


def bucket_of(*faults: Fault | None, etag: str = '"0123"', version: str | None = None) -> Bucket:
    return Bucket(objects={"/models/m": CONTENT}, faults=list(faults), etag=etag, version=version)


def read(source: S3Source, start: int, stop: int) -> bytes:
    buffer = bytearray(stop - start)
    source.read_into(start, memoryview(buffer))
    return bytes(buffer)


@pytest.mark.parametrize(("start", "stop"), [(0, 1), (0, 10240), (17, 17), (100, 9000), (10239, 10240)])
def test_a_range_is_the_slice(start: int, stop: int) -> None:
    with opened(bucket_of()) as source:
        assert source.size == len(CONTENT)
        assert source.name == "s3://models/m"
        assert read(source, start, stop) == CONTENT[start:stop]


def test_every_request_is_signed_and_every_range_names_the_version_that_was_opened() -> None:
    bucket = bucket_of(version="v7")
    with opened(bucket) as source:
        read(source, 5, 9)
    (head, _, first), (get, path, second) = bucket.seen
    assert (head, get) == ("HEAD", "GET")
    assert _SIGNED.fullmatch(first["authorization"])
    assert _SIGNED.fullmatch(second["authorization"])
    assert second["range"] == "bytes=5-8"
    assert second["if-match"] == '"0123"'
    assert "versionId=v7" in path


def test_an_object_that_was_written_over_is_refused() -> None:
    bucket = bucket_of()
    with opened(bucket) as source:
        bucket.etag = '"4567"'
        with pytest.raises(SealedSourceError) as error:
            read(source, 0, 9)
    assert error.value.code == "sealed-source-changed"


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (saying(ETag='"else"'), "changed"),
        (saying(ETag=""), "changed"),
        (saying(Content_Range=""), "answer-invalid"),
        (saying(Content_Range="bytes 5-8/10241"), "answer-invalid"),
        (saying(Content_Range="bytes 4-7/10240"), "answer-invalid"),
        (saying(body=b"abcde"), "answer-invalid"),
        (refuse(404, "NoSuchKey"), "not-found"),
        (refuse(404, "NoSuchVersion"), "not-found"),
        (refuse(403, "AccessDenied"), "refused"),
        (refuse(403, "RequestTimeTooSkewed"), "refused"),
        (refuse(416, "InvalidRange"), "changed"),
        (refuse(400, "InvalidRequest"), "answer-invalid"),
    ],
)
def test_an_answer_that_is_none_is_refused(fault: Fault, code: str) -> None:
    with opened(bucket_of(fault)) as source, pytest.raises(SealedSourceError) as error:
        read(source, 5, 9)
    assert error.value.code == f"sealed-source-{code}"


@pytest.mark.parametrize(("status", "code"), [(404, "not-found"), (403, "refused"), (500, "unreachable")])
def test_opening_what_is_not_given_is_refused(status: int, code: str) -> None:
    bucket = bucket_of()
    bucket.heads = [refuse(status, "")] * 9
    with pytest.raises(SealedSourceError) as error, opened(bucket):
        pass
    assert error.value.code == f"sealed-source-{code}"


def test_an_object_without_an_etag_is_refused() -> None:
    with pytest.raises(SealedSourceError) as error, opened(bucket_of(etag="")):
        pass
    assert error.value.code == "sealed-source-unpinned"


def test_a_dropped_connection_is_resumed_in_the_middle() -> None:
    bucket = bucket_of(saying(sent=1000), refuse(503, "SlowDown"), saying(sent=0))
    with opened(bucket) as source:
        assert read(source, 0, 10240) == CONTENT
    asked = [headers["range"] for method, _, headers in bucket.seen if method == "GET"]
    assert asked[0] == "bytes=0-10239"
    # How much of the first answer arrived is up to buffers in between; what matters is that nothing starts over.
    assert all(int(one.removeprefix("bytes=").split("-")[0]) in {0, 1000} for one in asked)
    assert asked[-1].endswith("-10239")


def test_a_bucket_that_drops_again_and_again_is_given_up() -> None:
    with opened(bucket_of(*[saying(sent=0)] * 9)) as source, pytest.raises(SealedSourceError) as error:
        read(source, 0, 100)
    assert error.value.code == "sealed-source-unreachable"
    assert error.value.retryable


def test_nobody_listening_is_unreachable() -> None:
    with serving(handler_of(bucket_of)) as url:
        pass
    with pytest.raises(SealedSourceError) as error:
        S3Source("s3://models/m", endpoint_url=url, patience=hasty(attempts=2))
    assert error.value.code == "sealed-source-unreachable"


def test_without_credentials_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    bucket = bucket_of()
    with serving(handler_of(lambda: bucket)) as url, pytest.raises(ConfigurationError) as error:
        S3Source("s3://models/m", endpoint_url=url, patience=hasty())
    assert error.value.code == "s3-settings-invalid"
    assert not bucket.seen


def test_an_endpoint_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigurationError) as error:
        S3Source("s3://models/m", endpoint_url="nowhere")
    assert error.value.code == "s3-settings-invalid"


@pytest.mark.parametrize(
    "url", ["s3:/b/k", "http://b/k", "s3://", "s3://-b/k", "s3:///k", "s3://b/\n", "s3://b/" + "k" * 1025]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        S3Address.parse(url)
    assert error.value.code == "sealed-url-invalid"


def test_a_source_needs_a_key() -> None:
    with pytest.raises(AttestError) as error:
        S3Source("s3://models")
    assert error.value.code == "sealed-url-invalid"


@pytest.mark.parametrize("prefix", ["s3://models", "s3://models/", "s3://models/a/b", "s3://models/a/b/"])
def test_a_store_opens_what_lies_below_its_prefix(prefix: str) -> None:
    below = "/" + prefix.removeprefix("s3://").rstrip("/")
    bucket = Bucket(objects={f"{below}/sealed.json": b"{}", f"{below}/x/ü.sealed": CONTENT})
    storage().bucket = bucket
    store = S3Store(prefix, client=storage().client, patience=hasty())
    assert store.name == prefix.rstrip("/")
    assert store.sizes() is None
    assert store.read_small("sealed.json", 10) == b"{}"
    assert store.read_small("x/ü.sealed", 100) == CONTENT[:101]
    with store.open("x/ü.sealed") as source:
        assert read(source, 10, 20) == CONTENT[10:20]
    with pytest.raises(SealedSourceError) as error:
        store.open("none")
    assert error.value.code == "sealed-source-not-found"
