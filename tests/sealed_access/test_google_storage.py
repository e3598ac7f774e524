"""Sealed files in Google Cloud Storage, on a small server that names generations as Google's does."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from attest.errors import ConfigurationError, SealedSourceError
from attest.sealed.google_storage import google_place
from attest.sealed.locations import source_of, store_of
from tests.sealed_access.servers import BasicHandler, answer, hasty, serving, wanted

pytestmark = pytest.mark.loopback

CONTENT = bytes(range(256)) * 40


class Bucket:
    """Objects by path, and what was asked; ``generation`` and ``refusal`` are those of every object."""

    def __init__(self) -> None:
        self.objects = {"/models/m/w%20%231.sealed": CONTENT}
        self.generation = "17"
        self.refusal: tuple[int, str] | None = None
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.token: Callable[[BasicHandler], None] = lambda handler: answer(
            handler, 200, b'{"access_token": "t0k", "expires_in": 3600}', headers={"Content-Type": "application/json"}
        )

    def handler(self) -> type[BasicHandler]:
        bucket = self

        class Handler(BasicHandler):
            def do_POST(self) -> None:  # noqa: N802  the base class's
                self.rfile.read(int(self.headers["Content-Length"]))
                bucket.token(self)

            def do_GET(self) -> None:  # noqa: N802  the base class's
                bucket.seen.append((self.path, dict(self.headers.items())))
                content = bucket.objects.get(self.path)
                asked = self.headers.get("x-goog-if-generation-match", bucket.generation)
                if bucket.refusal or content is None or asked != bucket.generation:
                    status, code = bucket.refusal or ((404, "NoSuchKey") if content is None else (412, "Precondition"))
                    answer(self, status, f"<?xml version='1.0'?><Error><Code>{code}</Code></Error>".encode())
                    return
                start, stop = wanted(self, len(content))
                stated = f"bytes {start}-{stop - 1}/{len(content)}"
                answer(
                    self,
                    206,
                    content[start:stop],
                    headers={"Content-Range": stated, "X-Goog-Generation": bucket.generation},
                )

        return Handler


@pytest.fixture(autouse=True)
def own_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """None of this machine's credentials."""
    for name in ("GOOGLE_APPLICATION_CREDENTIALS", "STORAGE_EMULATOR_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "none"))
    monkeypatch.setenv("NO_GCE_CHECK", "true")


@contextmanager
def served(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[tuple[Bucket, str]]:
    """A bucket, and a service account whose tokens it issues."""
    bucket = Bucket()
    with serving(bucket.handler()) as url:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        account = {
            "type": "service_account",
            "client_email": "reader@test.example",
            "private_key": key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(),
            "token_uri": f"{url}/token",
            "universe_domain": "googleapis.com",
        }
        file = tmp_path / "account.json"
        file.write_text(json.dumps(account))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
        yield bucket, url


def test_an_object_is_read_by_ranges_of_the_generation_that_was_opened(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with served(monkeypatch, tmp_path) as (bucket, url):
        store = store_of("gs://models/m/", endpoint_url=url, patience=hasty())
        assert store.read_small("w #1.sealed", 10) == CONTENT[:11]
        store.close()
    (_, first), (path, second) = bucket.seen
    assert path == "/models/m/w%20%231.sealed"
    assert {first["authorization"], second["authorization"]} == {"Bearer t0k"}
    assert second["x-goog-if-generation-match"] == "17"


def test_an_object_that_was_written_over_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with served(monkeypatch, tmp_path) as (bucket, url):
        source = source_of("gcs://models/m/w #1.sealed", endpoint_url=url, patience=hasty())
        bucket.generation = "18"
        with pytest.raises(SealedSourceError) as error:
            source.read_into(0, memoryview(bytearray(9)))
        source.close()
    assert error.value.code == "sealed-source-changed"


@pytest.mark.parametrize(
    ("status", "reason", "code"),
    [
        (404, "NoSuchBucket", "not-found"),
        (403, "AccessDenied", "refused"),
        (401, "AuthenticationRequired", "refused"),
        (400, "ExpiredToken", "refused"),
        (503, "ServiceUnavailable", "unreachable"),
    ],
)
def test_a_refusal_names_its_reason_and_shows_no_token(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, status: int, reason: str, code: str
) -> None:
    with served(monkeypatch, tmp_path) as (bucket, url):
        bucket.refusal = (status, reason)
        with pytest.raises(SealedSourceError, match=reason) as error:
            source_of("gs://models/m/w #1.sealed", endpoint_url=url, patience=hasty())
    assert error.value.code == f"sealed-source-{code}"
    assert "t0k" not in str(error.getrepr(style="native"))


def test_credentials_that_were_revoked_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with served(monkeypatch, tmp_path) as (bucket, url):
        bucket.token = lambda handler: answer(handler, 400, b'{"error": "invalid_grant"}')
        with pytest.raises(ConfigurationError, match="expired or were revoked") as error:
            source_of("gs://models/m/w", endpoint_url=url, patience=hasty())
    assert error.value.code == "gs-settings-invalid"
    assert not bucket.seen


def test_a_token_service_that_is_gone_is_unreachable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with served(monkeypatch, tmp_path) as (bucket, url):
        file = tmp_path / "account.json"
        file.write_text(file.read_text().replace(f"{url}/token", "http://127.0.0.1:9/token"))
        with pytest.raises(SealedSourceError) as error:
            source_of("gs://models/m/w", endpoint_url=url, patience=hasty(attempts=1))
    assert error.value.code == "sealed-source-unreachable"
    assert not bucket.seen


def test_without_credentials_nothing_is_sent() -> None:
    with pytest.raises(ConfigurationError) as error:
        google_place("gs://models/m")
    assert error.value.code == "gs-settings-invalid"


def test_an_emulator_gets_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = Bucket()
    with serving(bucket.handler()) as url:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", url)
        source_of("gs://models/m/w #1.sealed", patience=hasty()).close()
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", url.removeprefix("http://"))
        source_of("gs://models/m/w #1.sealed", patience=hasty()).close()
    assert ["authorization" in headers for _, headers in bucket.seen] == [False, False]


@pytest.mark.parametrize("url", ["gs://", "gs://A/m", "gs://ab", "gs://bucket/\n", "gs:///m"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        google_place(url)
    assert error.value.code == "sealed-url-invalid"
