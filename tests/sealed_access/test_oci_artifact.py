"""Sealed models in OCI registries, on a small registry that demands what it is told to."""

import base64
import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from attest.errors import AttestError, ConfigurationError, SealedFileError, SealedSourceError, SealedTamperError
from attest.sealed.locations import source_of, store_of
from attest.sealed.oci_artifact import OciAddress
from attest.sealed.ranges import RetryPolicy
from attest.sealed.registry_tokens import require_realm
from tests.sealed_access.servers import BasicHandler, answer, hasty, serving, wanted

pytestmark = pytest.mark.loopback

CONTENT = bytes(range(256)) * 40
TITLE = "org.opencontainers.image.title"


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def layer(content: bytes, title: str | None, **changes: object) -> dict[str, object]:
    made: dict[str, object] = {"digest": digest_of(content), "size": len(content)}
    return made | ({} if title is None else {"annotations": {TITLE: title}}) | changes


class Registry:
    """One repository, ``team/model``; ``challenge`` is sent to whoever brings no ``allowed`` authorization."""

    def __init__(self, *layers: dict[str, object]) -> None:
        shown = layers or (layer(CONTENT, "a/w.sealed"), layer(b"{}", "sealed.json"), layer(b"other", None))
        self.manifest = json.dumps({"schemaVersion": 2, "layers": shown}).encode()
        self.blobs = {digest_of(one): one for one in (CONTENT, b"{}", b"other")}
        self.challenge = ""
        self.allowed: str | None = None
        self.token = b'{"token": "t0k", "expires_in": 300}'
        self.token_moved_to: str | None = None
        self.refusal: tuple[int, str] | None = None
        self.answer_blob: Callable[[BasicHandler, bytes], bool] = lambda *_: False
        self.seen: list[tuple[str, str | None]] = []

    @property
    def digest(self) -> str:
        return digest_of(self.manifest)

    def handler(self) -> type[BasicHandler]:
        registry = self

        class Handler(BasicHandler):
            def do_GET(self) -> None:  # noqa: N802  the base class's
                given = self.headers.get("Authorization")
                registry.seen.append((self.path, given))
                if self.path.startswith("/token"):
                    moved = registry.token_moved_to
                    answer(self, 307 if moved else 200, registry.token, headers={"Location": moved} if moved else {})
                elif registry.allowed is not None and given != registry.allowed:
                    answer(self, 401, headers={"WWW-Authenticate": registry.challenge})
                elif self.path == "/v2/":
                    answer(self, 200, b"{}")
                elif registry.refusal is not None:
                    status, code = registry.refusal
                    answer(self, status, json.dumps({"errors": [{"code": code}]}).encode())
                elif "/manifests/" in self.path:
                    answer(self, 200, registry.manifest)
                else:
                    self._blob(registry.blobs.get(self.path.rpartition("/")[2]))

            def _blob(self, content: bytes | None) -> None:
                if content is None:
                    answer(self, 404, b'{"errors": [{"code": "BLOB_UNKNOWN"}]}')
                elif not registry.answer_blob(self, content):
                    start, stop = wanted(self, len(content))
                    stated = {"Content-Range": f"bytes {start}-{stop - 1}/{len(content)}"}
                    answer(self, 206, content[start:stop], headers=stated)

        return Handler


@pytest.fixture(autouse=True)
def logins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A file for logins, without any yet, and none of this machine's."""
    for name in ("REGISTRY_AUTH_FILE", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    return tmp_path / "config.json"


@contextmanager
def served(registry: Registry) -> Iterator[str]:
    with serving(registry.handler()) as url:
        yield url.replace("http://", "oci://") + "/team/model"


def host_of(address: str) -> str:
    return address.removeprefix("oci://").partition("/")[0]


def log_in(file: Path, address: str, **changes: object) -> None:
    entry = {"auth": base64.b64encode(b"ann:p4ss").decode()} | changes
    file.write_text(json.dumps({"auths": {host_of(address): entry}}))


BASIC = "Basic " + base64.b64encode(b"ann:p4ss").decode()


def test_the_files_of_an_artifact_are_read_by_their_titles_and_by_ranges() -> None:
    registry = Registry()
    with served(registry) as address:
        store = store_of(f"{address}:v1", patience=hasty())
        assert store.name == address
        assert store.read_small("sealed.json", 9) == b"{}"
        with store.open("a/w.sealed") as source:
            buffer = bytearray(50)
            source.read_into(100, memoryview(buffer))
            assert (source.size, bytes(buffer)) == (len(CONTENT), CONTENT[100:150])
        with pytest.raises(SealedSourceError, match="title") as error:
            store.open("b.sealed")
        store.close()
        store.close()
    assert error.value.code == "sealed-source-not-found"
    assert [path for path, _ in registry.seen] == [
        "/v2/",
        "/v2/team/model/manifests/v1",
        f"/v2/team/model/blobs/{digest_of(b'{}')}",
        f"/v2/team/model/blobs/{digest_of(CONTENT)}",
    ]


def test_one_file_of_an_artifact_is_opened_by_its_title() -> None:
    with served(Registry()) as address:
        with source_of(f"{address}#a/w.sealed", patience=hasty()) as source:  # type: ignore[attr-defined]  # of HTTP
            buffer = bytearray(9)
            source.read_into(1, memoryview(buffer))
            assert bytes(buffer) == CONTENT[1:10]
        with pytest.raises(SealedSourceError):
            source_of(f"{address}#none", patience=hasty())
        with pytest.raises(ConfigurationError, match="#FILE"):
            source_of(address, patience=hasty())


def test_a_digest_pins_the_manifest() -> None:
    registry = Registry()
    with served(registry) as address:
        pinned = f"{address}:v1@{registry.digest}"
        store_of(pinned, patience=hasty()).close()
        assert registry.seen[-1][0].endswith(f"/manifests/{registry.digest}")
        registry.manifest += b" "
        with pytest.raises(SealedTamperError) as error:
            store_of(pinned, patience=hasty())
    assert error.value.code == "oci-digest-mismatch"


def test_a_tag_that_moves_while_a_model_is_open_changes_nothing() -> None:
    registry = Registry()
    with served(registry) as address:
        store = store_of(f"{address}:v1", patience=hasty())
        registry.manifest = Registry(layer(b"other", "sealed.json")).manifest
        assert store.read_small("sealed.json", 9) == b"{}"
        store.close()


def test_a_token_is_asked_for_once_with_the_password_and_renewed_before_it_expires(logins: Path) -> None:
    registry = Registry()
    registry.allowed = "Bearer t0k"
    now = [0.0]
    with served(registry) as address:
        registry.challenge = (
            f'Bearer realm="http://{host_of(address)}/token?x=1",service="reg",scope="registry:catalog:*"'
        )
        log_in(logins, address)
        store = store_of(address, patience=hasty(monotonic=lambda: now[0]))
        store.read_small("sealed.json", 9)
        now[0] = 250.0
        store.read_small("sealed.json", 9)
        store.close()
    asked = [(path, given) for path, given in registry.seen if path.startswith("/token")]
    assert asked == [("/token?x=1&scope=repository%3Ateam%2Fmodel%3Apull&service=reg", BASIC)] * 2
    assert {given for path, given in registry.seen if "/team/" in path} == {"Bearer t0k"}
    assert {given for path, given in registry.seen if path == "/v2/"} == {None}


def test_the_password_does_not_follow_a_redirect_to_another_host(logins: Path) -> None:
    registry, other = Registry(), Registry()
    registry.allowed = "Bearer t0k"
    with served(registry) as address, served(other) as elsewhere:
        registry.challenge = f'Bearer realm="http://{host_of(address)}/token"'
        registry.token_moved_to = f"http://{host_of(elsewhere)}/token"
        log_in(logins, address)
        store_of(address, patience=hasty()).close()
    assert [given for path, given in registry.seen if path.startswith("/token")] == [BASIC]
    assert [given for path, given in other.seen] == [None]


def test_a_token_of_any_length_of_life_is_renewed_within_a_day(logins: Path) -> None:
    registry = Registry()
    registry.allowed, registry.token = "Bearer t0k", b'{"token": "t0k", "expires_in": ' + b"9" * 400 + b"}"
    now = [0.0]
    with served(registry) as address:
        registry.challenge = f'Bearer realm="http://{host_of(address)}/token"'
        log_in(logins, address)
        store = store_of(address, patience=hasty(monotonic=lambda: now[0]))
        now[0] = 86_400.0
        store.read_small("sealed.json", 9)
        store.close()
    assert sum(path.startswith("/token") for path, _ in registry.seen) == 2


def test_a_token_is_asked_for_without_a_password_where_none_is_kept() -> None:
    registry = Registry()
    registry.allowed = "Bearer t0k"
    with served(registry) as address:
        registry.challenge = f'Bearer realm="http://{host_of(address)}/token"'
        store_of(address, patience=hasty()).close()
    assert [given for path, given in registry.seen if path.startswith("/token")] == [None]


def test_a_registry_that_asks_for_the_password_gets_it_from_the_file_or_the_helper(
    logins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = Registry()
    registry.allowed, registry.challenge = BASIC, 'Basic realm="r"'
    with served(registry) as address:
        log_in(logins, address)
        store_of(address, patience=hasty()).close()
        helper = logins.with_name("docker-credential-test")
        helper.write_text('#!/bin/sh\nread host\necho "{\\"Username\\": \\"ann\\", \\"Secret\\": \\"p4ss\\"}"\n')
        helper.chmod(0o700)
        monkeypatch.setenv("PATH", f"{logins.parent}:/usr/bin:/bin")
        for config in ({"credHelpers": {host_of(address): "test"}}, {"credsStore": "test"}):
            logins.write_text(json.dumps(config))
            store_of(address, patience=hasty()).close()


@pytest.mark.parametrize(
    "config",
    [
        "damaged",
        '{"credsStore": "none-such"}',
        '{"credsStore": "../bin/x"}',
        '{"auths": {"HOST": {"auth": "s3cret!"}}}',
        '{"auths": {"HOST": {"identitytoken": "s3cret"}}}',
    ],
)
def test_logins_that_cannot_be_used_are_refused_and_not_shown(logins: Path, config: str) -> None:
    registry = Registry()
    registry.allowed, registry.challenge = BASIC, 'Basic realm="r"'
    with served(registry) as address:
        logins.write_text(config.replace("HOST", host_of(address)))
        with pytest.raises(ConfigurationError) as error:
            store_of(address, patience=hasty())
    assert error.value.code == "oci-settings-invalid"
    assert "s3cret" not in str(error.getrepr(style="native"))


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("echo 'credentials not found in native keychain'; exit 1", True),
        ("echo 'the keychain is locked, s3cret'; exit 1", False),
        ("echo '{}'", False),
        ('echo \'{"Username": "<token>", "Secret": "s3cret"}\'', False),
    ],
)
def test_a_helper_without_credentials_leaves_access_anonymous_and_one_that_fails_is_refused(
    logins: Path, monkeypatch: pytest.MonkeyPatch, script: str, found: bool
) -> None:
    registry = Registry()
    registry.allowed = "Bearer t0k"
    helper = logins.with_name("docker-credential-test")
    helper.write_text(f"#!/bin/sh\n{script}\n")
    helper.chmod(0o700)
    logins.write_text('{"credsStore": "test"}')
    monkeypatch.setenv("PATH", f"{logins.parent}:/usr/bin:/bin")
    with served(registry) as address:
        registry.challenge = f'Bearer realm="http://{host_of(address)}/token"'
        if found:
            store_of(address, patience=hasty()).close()
            return
        with pytest.raises(ConfigurationError) as error:
            store_of(address, patience=hasty())
    assert error.value.code == "oci-settings-invalid"
    assert "s3cret" not in error.value.message


def test_logins_are_found_where_docker_and_podman_keep_them(
    logins: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    registry = Registry()
    registry.allowed, registry.challenge = BASIC, 'Basic realm="r"'
    places = {
        "REGISTRY_AUTH_FILE": tmp_path / "auth.json",
        "HOME": tmp_path / ".docker/config.json",
        "XDG_RUNTIME_DIR": tmp_path / "containers/auth.json",
    }
    monkeypatch.delenv("DOCKER_CONFIG")
    monkeypatch.setenv("HOME", str(tmp_path / "none"))
    with served(registry) as address:
        with pytest.raises(SealedSourceError, match="refused"):
            store_of(address, patience=hasty())
        for name, file in places.items():
            file.parent.mkdir(exist_ok=True)
            log_in(file, address)
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv(name, str(file if name == "REGISTRY_AUTH_FILE" else tmp_path))
                store_of(address, patience=hasty()).close()
            file.unlink()


def test_a_login_file_that_cannot_be_read_is_refused(logins: Path) -> None:
    registry = Registry()
    registry.allowed, registry.challenge = BASIC, 'Basic realm="r"'
    logins.mkdir()
    with served(registry) as address, pytest.raises(ConfigurationError) as error:
        store_of(address, patience=hasty())
    assert error.value.code == "oci-settings-invalid"


@pytest.mark.parametrize(
    "challenge", ["", "Negotiate", "Bearer", 'Bearer realm="ftp://x/token"', 'Bearer realm="http://u:p@x/"']
)
def test_a_challenge_that_is_none_is_refused(challenge: str) -> None:
    registry = Registry()
    registry.allowed, registry.challenge = "Bearer t0k", challenge
    with served(registry) as address, pytest.raises(SealedSourceError) as error:
        store_of(address, patience=hasty())
    assert error.value.code == "sealed-source-answer-invalid"


def test_a_password_is_not_sent_in_clear_to_a_token_service_of_a_registry_with_tls() -> None:
    with pytest.raises(SealedSourceError, match="https"):
        require_realm("http://tokens.example/token", "https://registry.example/v2/")
    require_realm("https://tokens.example/token", "https://registry.example/v2/")


@pytest.mark.parametrize("token", [b"", b"[]", b'{"token": ""}', b'{"token": "a b"}', b'{"token": "' + b"x" * 70000])
def test_a_token_that_is_none_is_refused(token: bytes) -> None:
    registry = Registry()
    registry.allowed, registry.token = "Bearer t0k", token
    with served(registry) as address:
        registry.challenge = f'Bearer realm="http://{host_of(address)}/token"'
        with pytest.raises(SealedSourceError, match="token") as error:
            store_of(address, patience=hasty())
    assert error.value.code == "sealed-source-answer-invalid"


@pytest.mark.parametrize(
    ("status", "reason", "code"),
    [
        (404, "NAME_UNKNOWN", "not-found"),
        (404, "MANIFEST_UNKNOWN", "not-found"),
        (403, "DENIED", "refused"),
        (401, "UNAUTHORIZED", "refused"),
        (429, "TOOMANYREQUESTS", "unreachable"),
    ],
)
def test_a_refusal_names_its_reason(status: int, reason: str, code: str) -> None:
    registry = Registry()
    registry.refusal = (status, reason)
    with served(registry) as address, pytest.raises(SealedSourceError, match=reason) as error:
        store_of(address, patience=hasty())
    assert error.value.code == f"sealed-source-{code}"


def test_a_busy_registry_is_asked_again() -> None:
    registry = Registry()
    registry.refusal = (503, "UNAVAILABLE")

    def better(_: float) -> None:
        registry.refusal = None

    with served(registry) as address:
        store_of(address, patience=RetryPolicy(sleep=better)).close()


def test_nobody_listening_is_unreachable() -> None:
    with served(Registry()) as address:
        pass
    with pytest.raises(SealedSourceError) as error:
        store_of(address, patience=hasty())
    assert error.value.code == "sealed-source-unreachable"


@pytest.mark.parametrize(
    "manifest",
    [
        b"",
        b"[]",
        b'{"manifests": []}',
        b'{"layers": {}}',
        b'{"layers": []}',
        b'{"layers": [7, {"digest": "sha256:00"}]}',
        json.dumps({"layers": [layer(b"", "a"), layer(b"", "a")]}).encode(),
        json.dumps({"layers": [layer(b"", "a", digest="sha256:../x")]}).encode(),
        json.dumps({"layers": [layer(b"", "a", digest=7)]}).encode(),
        json.dumps({"layers": [layer(b"", "a", size=-1)]}).encode(),
        json.dumps({"layers": [layer(b"", "a", size="1")]}).encode(),
    ],
)
def test_a_manifest_that_names_no_files_is_refused(manifest: bytes) -> None:
    registry = Registry()
    registry.manifest = manifest
    with served(registry) as address, pytest.raises(SealedFileError) as error:
        store_of(address, patience=hasty())
    assert error.value.code == "oci-artifact-invalid"


def test_a_manifest_without_end_is_refused() -> None:
    registry = Registry()
    registry.manifest = b" " * (5 << 20)
    with served(registry) as address, pytest.raises(SealedSourceError, match="manifest") as error:
        store_of(address, patience=hasty())
    assert error.value.code == "sealed-source-answer-invalid"


def _ignoring(handler: BasicHandler, content: bytes) -> bool:
    answer(handler, 200, content)
    return True


def _longer(handler: BasicHandler, content: bytes) -> bool:
    start, stop = wanted(handler, len(content))
    answer(handler, 206, content[start:stop], headers={"Content-Range": f"bytes {start}-{stop - 1}/{len(content) + 1}"})
    return True


@pytest.mark.parametrize(
    ("fault", "code"), [(_ignoring, "sealed-source-answer-invalid"), (_longer, "sealed-source-changed")]
)
def test_a_blob_that_is_not_what_the_manifest_says_is_refused(
    fault: Callable[[BasicHandler, bytes], bool], code: str
) -> None:
    registry = Registry()
    registry.answer_blob = fault
    with served(registry) as address:
        store = store_of(address, patience=hasty())
        with pytest.raises(AttestError) as error:
            store.read_small("sealed.json", 9)
        store.close()
    assert error.value.code == code


@pytest.mark.parametrize(
    ("url", "base", "reference"),
    [
        ("oci://docker.io/team/m:1", "https://registry-1.docker.io/v2/team/m", "1"),
        ("oci://reg.example:5000/m", "https://reg.example:5000/v2/m", "latest"),
        ("oci://localhost/a-b/c__d", "http://localhost/v2/a-b/c__d", "latest"),
        ("oci://[::1]:5000/m@sha256:" + "0" * 64, "http://[::1]:5000/v2/m", "sha256:" + "0" * 64),
    ],
)
def test_an_address_names_registry_repository_and_version(url: str, base: str, reference: str) -> None:
    address = OciAddress.parse(url)
    assert (address.base, address.reference) == (base, reference)


@pytest.mark.parametrize(
    "url",
    [
        "oci://",
        "oci://reg.example",
        "oci://reg.example/UPPER",
        "oci://reg.example/a/../b",
        "oci://u:p@reg.example/m",
        "oci://reg.example/m:",
        "oci://reg.example/m@sha256:00",
        "oci://reg.example/m@md5:" + "0" * 64,
        "oci://reg.example/" + "m" * 256,
    ],
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        OciAddress.parse(url)
    assert error.value.code == "sealed-url-invalid"
