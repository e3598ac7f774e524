"""A key-encryption key in a transit engine: what it answers, and that it may go away and come back."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from attest.errors import ConfigurationError
from kms.domain.errors import IntegrityError, UnavailableError
from kms.domain.kek_records import KekRecord
from kms.domain.keys import Wrapped
from kms.keys.wrapping.backend import SingleKek
from kms.keys.wrapping.backends import create_backend, identify, open_backend
from kms.keys.wrapping.definitions import definition_of
from tests.kms.support import FakeRandom, Harness, Workload
from tests.kms.test_wrapping import CONTENT, CONTEXT, SECRET
from tests.kms.tls import authority
from tests.kms.transit import TOKEN, TransitKey, TransitServer
from tests.kms.wrapping import definition, flattened, made

pytestmark = pytest.mark.loopback


@pytest.fixture
def server(tmp_path: Path) -> Iterator[TransitServer]:
    made = TransitServer(tmp_path)
    yield made
    made.go_away()


@pytest.fixture
def made_kek(server: TransitServer) -> tuple[SingleKek, KekRecord]:
    return made(server)


@pytest.fixture
def kek(made_kek: tuple[SingleKek, KekRecord]) -> SingleKek:
    return made_kek[0]


def code_of(kek: SingleKek, wrapped: Wrapped) -> str:
    with pytest.raises((UnavailableError, IntegrityError)) as caught:
        kek.unwrap(wrapped, context=CONTEXT)
    return caught.value.code


def test_the_wrapped_form_holds_what_the_engine_returned(server: TransitServer, kek: SingleKek) -> None:
    content = kek.wrap(SECRET, context=CONTEXT).content
    assert content[:5] == b"\x03\0\0\0\x01"
    assert len(content) == 1 + 4 + 12 + 32 + 16
    server.engine.keys["kek"].versions.append(bytes(32))
    assert kek.wrap(SECRET, context=CONTEXT).content[:5] == b"\x03\0\0\0\x02"
    assert kek.unwrap(Wrapped(kek_id=kek.id, content=content), context=CONTEXT) == SECRET


def test_a_key_is_made_once_and_never_exportable(server: TransitServer) -> None:
    made(server)
    key = server.engine.keys["kek"]
    assert (key.kind, key.exportable) == ("aes256-gcm96", False)
    create_backend(definition(server), random=FakeRandom())
    assert server.engine.keys["kek"] is key


@pytest.mark.parametrize("key", [TransitKey(exportable=True), TransitKey(kind="chacha20-poly1305")])
def test_a_key_that_could_leave_or_is_of_another_kind_is_refused(server: TransitServer, key: TransitKey) -> None:
    server.engine.keys["kek"] = key
    with pytest.raises(ConfigurationError) as caught:
        create_backend(definition(server), random=FakeRandom())
    assert caught.value.code == "kek-unfit"


def test_mc_28_an_engine_that_passes_over_associated_data_is_refused(server: TransitServer) -> None:
    server.engine.binds = False
    with pytest.raises(ConfigurationError) as caught:
        made(server)
    assert caught.value.code == "kek-binds-nothing"


def test_mc_28_so_is_one_that_was_replaced_by_such(
    server: TransitServer, made_kek: tuple[SingleKek, KekRecord]
) -> None:
    _, record = made_kek
    server.engine.binds = False
    backend = open_backend(definition(server), random=FakeRandom())
    assert identify(backend, [record]) is None  # what was bound before does not open without


@pytest.mark.parametrize("rights", [frozenset[str](), frozenset({"create", "update"})])
def test_a_key_whose_kind_cannot_be_seen_is_not_taken(server: TransitServer, rights: frozenset[str]) -> None:
    server.engine.tokens[TOKEN] = rights
    with pytest.raises(UnavailableError) as caught:
        create_backend(definition(server), random=FakeRandom())
    assert caught.value.code == "kek-refused"


def test_update_suffices_once_the_key_is_there(server: TransitServer, kek: SingleKek) -> None:
    server.engine.tokens[TOKEN] = frozenset({"update"})
    assert kek.unwrap(kek.wrap(SECRET, context=CONTEXT), context=CONTEXT) == SECRET


@pytest.mark.parametrize(
    ("status", "text", "code"),
    [
        (400, '{"errors":["encryption key not found"]}', "kek-unavailable"),
        (400, '{"errors":["ciphertext or signature version is disallowed by policy (too old)"]}', "kek-unavailable"),
        (400, '{"errors":["cipher: message authentication failed"]}', "kek-replaced"),
        (400, "<html>bad request</html>", "kek-replaced"),
        (401, "", "kek-refused"),
        (403, '{"errors":["permission denied"]}', "kek-refused"),
        (
            404,
            '{"errors":["no handler for route \\"transit/decrypt/kek\\". route entry not found."]}',
            "kek-unavailable",
        ),
        (404, '{"errors":[]}', "kek-unavailable"),
        (405, '{"errors":["unsupported operation"]}', "kek-unavailable"),
        (412, '{"errors":["required index state not present"]}', "kek-unavailable"),
        (429, '{"errors":["request path \\"x\\": rate limit quota exceeded"]}', "kek-unavailable"),
        (472, "{}", "kek-unavailable"),
        (473, "{}", "kek-unavailable"),
        (500, '{"errors":["internal error"]}', "kek-unavailable"),
        (502, "", "kek-unavailable"),
        (503, '{"errors":["Vault is sealed"]}', "kek-unavailable"),
        (307, "", "kek-unavailable"),
        (200, "", "kek-unavailable"),
        (200, "[]", "kek-unavailable"),
        (200, "{}", "kek-unavailable"),
        (200, '{"data":{}}', "kek-unavailable"),
        (200, '{"data":[]}', "kek-unavailable"),
        (200, '{"data":{"plaintext":"="}}', "kek-unavailable"),
        (200, '{"data":{"plaintext":"AB=="}}', "kek-unavailable"),
        (200, '{"data":{"plaintext":7,"ciphertext":7}}', "kek-unavailable"),
        (204, "", "kek-unavailable"),
    ],
)
def test_every_answer_but_the_right_one_is_a_refusal(
    server: TransitServer, kek: SingleKek, status: int, text: str, code: str
) -> None:
    wrapped = kek.wrap(SECRET, context=CONTEXT)
    server.engine.answer = (status, text)
    assert code_of(kek, wrapped) == code
    with pytest.raises(UnavailableError) as caught:
        kek.wrap(SECRET, context=CONTEXT)
    assert caught.value.code == code
    assert caught.value.retryable
    server.engine.answer = None
    assert kek.unwrap(wrapped, context=CONTEXT) == SECRET


@pytest.mark.parametrize("ciphertext", ["vault:v0:AAAA", "vault:v1:!", "vault:v1:QUJD", "plain", "vault:v1:"])
def test_an_encryption_that_is_none_is_not_kept(server: TransitServer, kek: SingleKek, ciphertext: str) -> None:
    server.engine.answer = (200, f'{{"data":{{"ciphertext":"{ciphertext}"}}}}')
    with pytest.raises(UnavailableError) as caught:
        kek.backend.seal(CONTENT, associated_data=b"")
    assert caught.value.code == "kek-unavailable"


def test_version_0_of_a_ciphertext_which_the_engine_takes_for_1_is_refused(kek: SingleKek) -> None:
    content = kek.wrap(SECRET, context=CONTEXT).content
    other = Wrapped(kek_id=kek.id, content=content[:1] + bytes(4) + content[5:])
    assert code_of(kek, other) == "wrapped-key-invalid"


def test_a_server_that_goes_away_is_unavailable_and_comes_back_without_a_restart(
    server: TransitServer, tmp_path: Path
) -> None:
    (tmp_path / "service").mkdir()
    harness = Harness.make(tmp_path / "service", **flattened(server.settings()))
    harness.add_key("model")
    request = Workload().request(harness.releases.challenge(), "model")
    server.go_away()
    for _ in range(2):
        with pytest.raises(UnavailableError) as caught:
            harness.releases.release(request)
        assert caught.value.code == "kek-unavailable"
        assert caught.value.retryable
        assert str(server.port) not in str(caught.value.context())
    with pytest.raises(UnavailableError):
        harness.add_key("another")
    assert harness.decisions() == []
    server.come_back()
    server.engine.sealed = True
    with pytest.raises(UnavailableError):
        harness.releases.release(request)
    server.engine.sealed = False
    assert harness.releases.release(request).keys  # the same challenge: nothing was used up
    harness.close()


def test_a_token_that_is_renewed_in_its_file_counts_at_once(server: TransitServer, kek: SingleKek) -> None:
    wrapped = kek.wrap(SECRET, context=CONTEXT)
    server.engine.tokens["hvs.renewed"] = server.engine.tokens.pop(TOKEN)
    assert code_of(kek, wrapped) == "kek-refused"
    server.write_token("hvs.renewed")
    assert kek.unwrap(wrapped, context=CONTEXT) == SECRET
    server.engine.tokens = {TOKEN: server.engine.tokens["hvs.renewed"]}
    server.token_file.unlink()
    assert code_of(kek, wrapped) == "kek-refused"


def test_a_key_that_was_replaced_by_another_of_its_name_wraps_nothing(server: TransitServer, kek: SingleKek) -> None:
    wrapped = kek.wrap(SECRET, context=CONTEXT)
    right = server.engine.keys.pop("kek")
    assert code_of(kek, wrapped) == "kek-unavailable"
    server.engine.keys["kek"] = TransitKey()
    assert code_of(kek, wrapped) == "kek-replaced"
    with pytest.raises(UnavailableError) as caught:
        kek.wrap(SECRET, context=CONTEXT)
    assert caught.value.code == "kek-replaced"
    server.engine.keys["kek"] = right
    assert kek.unwrap(wrapped, context=CONTEXT) == SECRET


def test_a_server_of_another_authority_is_not_asked(server: TransitServer, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    members = server.settings() | {"ca_file": authority(tmp_path / "other") / "ca.pem"}
    asked = server.engine.asked.total()
    with pytest.raises(UnavailableError) as caught:
        create_backend(definition_of(members, source="a test"), random=FakeRandom())
    assert caught.value.code == "kek-unavailable"
    assert server.engine.asked.total() == asked


def test_a_missing_ca_file_is_told_at_start(server: TransitServer, tmp_path: Path) -> None:
    made(server)
    members = server.settings() | {"ca_file": tmp_path / "none.pem"}
    with pytest.raises(ConfigurationError) as caught:
        open_backend(definition_of(members, source="a test"), random=FakeRandom())
    assert caught.value.code == "file-unreadable"


def test_the_environment_changes_nothing(
    server: TransitServer, kek: SingleKek, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrapped = kek.wrap(SECRET, context=CONTEXT)
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "VAULT_ADDR"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nowhere")
    monkeypatch.setenv("VAULT_TOKEN", "another")
    backend = open_backend(definition(server), random=FakeRandom())
    again = SingleKek(backend, kek_id=kek.id, proof=kek._proof)  # noqa: SLF001  as read from the database
    assert again.unwrap(wrapped, context=CONTEXT) == SECRET
    backend.close()


def test_a_namespace_and_a_deeper_mount_are_said(server: TransitServer) -> None:
    server.engine.mount = "team/transit"
    members = server.settings() | {"mount": "team/transit", "namespace": "org/kms"}
    backend = create_backend(definition_of(members, source="a test"), random=FakeRandom())
    assert backend.open(backend.seal(CONTENT, associated_data=b"a"), associated_data=b"a") == CONTENT
    assert server.engine.namespaces == {"org/kms"}
    backend.close()


def test_mc_33_neither_token_nor_secret_is_in_an_error_or_a_log_line(
    server: TransitServer, kek: SingleKek, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    wrapped = kek.wrap(SECRET, context=CONTEXT)
    kek.unwrap(wrapped, context=CONTEXT)
    server.engine.tokens.clear()
    with pytest.raises(UnavailableError) as caught:
        kek.unwrap(wrapped, context=CONTEXT)
    shown = caplog.text + repr(caught.value) + str(caught.value.context()) + repr(vars(kek.backend))
    assert "permission denied" in caplog.text
    for secret in (TOKEN, CONTENT.decode(), "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="):
        assert secret not in shown
