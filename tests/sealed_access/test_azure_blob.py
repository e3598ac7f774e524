"""Sealed files in Azure Blob Storage, on a small server that checks what Azure checks of a signature."""

import base64
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import parse_qs, urlsplit

import pytest

from attest.errors import ConfigurationError, SealedSourceError
from attest.sealed.azure_blob import azure_place
from attest.sealed.http_source import HttpSource
from attest.sealed.locations import source_of, store_of
from tests.sealed_access.servers import BasicHandler, Shelf, answer, hasty, serving

pytestmark = pytest.mark.loopback

CONTENT = bytes(range(256)) * 40
KEY = base64.b64encode(bytes(64)).decode()
VARIABLES = (
    "AZURE_STORAGE_ACCOUNT",
    "AZURE_STORAGE_CONNECTION_STRING",
    "AZURE_STORAGE_KEY",
    "AZURE_STORAGE_SAS_TOKEN",
)


@pytest.fixture(autouse=True)
def account(monkeypatch: pytest.MonkeyPatch) -> None:
    """Made-up settings, and none of this machine's."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", "test")
    monkeypatch.setenv("AZURE_STORAGE_KEY", KEY)


def refusing(status: int, code: str) -> object:
    def fault(handler: BasicHandler, content: bytes, start: int, stop: int) -> bool:
        answer(handler, status, headers={"x-ms-error-code": code})
        return True

    return fault


@contextmanager
def blobs(*faults: object) -> Iterator[tuple[Shelf, str]]:
    shelf = Shelf(files={"/test/models/m/w%20%231.sealed": CONTENT}, modified="", faults=list(faults))  # type: ignore[arg-type]  # Fault
    with serving(shelf.handler()) as url:
        yield shelf, f"{url}/test"


def read(source: HttpSource, start: int, stop: int) -> bytes:
    buffer = bytearray(stop - start)
    source.read_into(start, memoryview(buffer))
    return bytes(buffer)


def test_a_blob_is_read_by_ranges_under_a_signature_for_reading_this_container() -> None:
    with blobs() as (shelf, endpoint):
        store = store_of("az://models/m", endpoint_url=endpoint, patience=hasty())
        with store.open("w #1.sealed") as source:
            assert read(source, 5, 900) == CONTENT[5:900]  # type: ignore[arg-type]  # of HTTP
        store.close()
    path, headers = shelf.seen[1]
    query = parse_qs(urlsplit(path).query)
    assert (query["sp"], query["sr"]) == (["r"], ["c"])
    assert headers["Range"] == "bytes=5-899"
    assert headers["If-Match"] == '"one"'
    assert headers["x-ms-version"] >= "2021"


def test_each_request_is_signed_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    _, access = azure_place("az://models/m")
    assert access.query is not None
    before = parse_qs(access.query())["se"]
    time.sleep(1.1)
    assert parse_qs(access.query())["se"] > before


def test_a_shared_access_signature_is_sent_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_KEY")
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", "?sv=1&sig=secret")
    with blobs(None, refusing(403, "AuthenticationFailed")) as (shelf, endpoint):
        source = source_of("az://models/m/w #1.sealed", endpoint_url=endpoint, patience=hasty())
        with pytest.raises(SealedSourceError) as error:
            source.read_into(0, memoryview(bytearray(9)))
        source.close()
    assert shelf.seen[0][0].endswith("?sv=1&sig=secret")
    assert "secret" not in f"{source.name}{error.getrepr(style='native')}"
    assert (error.value.code, error.value.got) == ("sealed-source-refused", "status 403, AuthenticationFailed")


@pytest.mark.parametrize(
    ("status", "reason", "code"),
    [
        (404, "ContainerNotFound", "not-found"),
        (404, "BlobNotFound", "not-found"),
        (403, "AuthorizationPermissionMismatch", "refused"),
        (409, "PublicAccessNotPermitted", "refused"),
        (400, "InvalidAuthenticationInfo", "refused"),
        (412, "ConditionNotMet", "changed"),
        (503, "ServerBusy", "unreachable"),
        (400, "InvalidUri", "answer-invalid"),
    ],
)
def test_a_refusal_names_its_reason(status: int, reason: str, code: str) -> None:
    with blobs(*[refusing(status, reason)] * 9) as (_, endpoint), pytest.raises(SealedSourceError) as error:
        source_of("az://models/m/w #1.sealed", endpoint_url=endpoint, patience=hasty())
    assert error.value.code == f"sealed-source-{code}"
    assert code == "changed" or reason in error.value.message


def test_a_blob_that_was_written_over_is_refused() -> None:
    with blobs() as (shelf, endpoint):
        source = source_of("az://models/m/w #1.sealed", endpoint_url=endpoint, patience=hasty())
        shelf.etag = '"two"'
        with pytest.raises(SealedSourceError, match="changed") as error:
            source.read_into(0, memoryview(bytearray(9)))
        source.close()
    assert error.value.code == "sealed-source-changed"


@pytest.mark.parametrize(
    ("settings", "url", "endpoint"),
    [
        ({}, "az://models/m", "https://test.blob.core.windows.net/models/m"),
        ({}, "az://$web", "https://test.blob.core.windows.net/%24web"),
        ({}, "abfss://c01@other.dfs.core.windows.net/m/n", "https://other.blob.core.windows.net/c01/m/n"),
        (
            {"AZURE_STORAGE_CONNECTION_STRING": f"AccountName=mine;AccountKey={KEY};EndpointSuffix=core.example"},
            "az://models/m",
            "https://mine.blob.core.example/models/m",
        ),
        (
            {"AZURE_STORAGE_CONNECTION_STRING": "BlobEndpoint=https://e.example/x;SharedAccessSignature=sv=1&sig=2"},
            "az://models/m",
            "https://e.example/x/models/m",
        ),
        (
            {"AZURE_STORAGE_CONNECTION_STRING": f"AccountName=mine;AccountKey={KEY}"},
            "abfs://c01@other.dfs.core.windows.net/m",
            "https://other.blob.core.windows.net/c01/m",
        ),
    ],
)
def test_the_account_is_found_as_azures_own_programs_find_it(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], url: str, endpoint: str
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert azure_place(url).url == endpoint


@pytest.mark.parametrize(
    "settings",
    [
        {"AZURE_STORAGE_ACCOUNT": ""},
        {"AZURE_STORAGE_KEY": "se cret"},
        {"AZURE_STORAGE_SAS_TOKEN": "sig=se cret", "AZURE_STORAGE_KEY": ""},
        {"AZURE_STORAGE_CONNECTION_STRING": "secret"},
    ],
)
def test_settings_that_cannot_be_used_are_refused_and_not_shown(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str]
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError) as error:
        azure_place("az://models/m")
    assert error.value.code == "azure-settings-invalid"
    assert "cret" not in error.value.message


def test_without_key_and_signature_entra_id_is_asked_and_a_refusal_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_KEY")
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "EnvironmentCredential")  # the library's own: no other source
    for name in ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET"):
        monkeypatch.delenv(name, raising=False)
    with blobs() as (shelf, endpoint), pytest.raises(ConfigurationError) as error:
        source_of("az://models/m/w", endpoint_url=endpoint, patience=hasty())
    assert error.value.code == "azure-settings-invalid"
    assert not shelf.seen


@pytest.mark.parametrize(
    "url", ["az://", "az://UPPER/m", "az://a/m", "az://a--b/m", "abfss://c01@x.example/m", "az://models/\n"]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        azure_place(url)
    assert error.value.code == "sealed-url-invalid"


def test_credentials_are_sent_in_clear_to_no_other_machine() -> None:
    with pytest.raises(ConfigurationError, match="https") as error:
        azure_place("az://models/m", endpoint_url="http://storage.example")
    assert error.value.code == "sealed-url-invalid"
