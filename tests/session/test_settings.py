"""Where a session's settings come from, and what is refused."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import attest
from attest import load_policy
from attest.errors import AttestError, ConfigurationError
from attest.release import VerifierKey, verifier_key
from attest.session import SessionSettings, load_settings
from attest.session.connection import expectation_of, open_http
from attest.session.settings import MACHINE_FILE, settings_files
from tests.kms.proving import POLICIES

SERVICE = verifier_key("kms.example/prod", Ed25519PrivateKey.from_private_bytes(bytes(32)).public_key())
OTHER = verifier_key("kms.example/test", Ed25519PrivateKey.from_private_bytes(bytes(range(32))).public_key())
URL = "https://kms.example"
NAMED = {"ATTEST_KMS_URL": URL, "ATTEST_KMS_KEY": SERVICE.text}


def written(folder: Path, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / "attest.toml"
    file.write_text(text)
    return file


def refused(
    given: dict[str, object], *, environ: dict[str, str] | None = None, files: tuple[Path, ...] = ()
) -> AttestError:
    with pytest.raises(AttestError) as caught:
        load_settings(given, environ=environ or {}, files=files)
    return caught.value


def test_the_first_that_says_something_counts(tmp_path: Path) -> None:
    project = written(tmp_path / "project", 'kms.url = "https://project"\nkms.tls_ca = "ca.pem"\n')
    user = written(tmp_path / "user", f'[kms]\nurl = "https://user"\nkey = "{SERVICE.text}"\ntls_ca = "/else/ca.pem"\n')
    found = load_settings({"timeout_seconds": 5}, environ={"ATTEST_KMS_URL": URL}, files=(project, user))
    assert (found.url, found.service, found.timeout_seconds) == (URL, SERVICE, 5.0)
    assert found.tls_ca == tmp_path / "project" / "ca.pem"
    assert found.origins == {
        "timeout_seconds": "argument timeout_seconds",
        "url": "ATTEST_KMS_URL",
        "tls_ca": f"{project} [kms] tls_ca",
        "key": f"{user} [kms] key",
    }
    assert load_settings({"url": "http://given"}, environ=NAMED, files=()).url == "http://given"


def test_files_are_looked_for_where_a_program_runs_where_its_user_keeps_them_and_in_the_image() -> None:
    assert settings_files({"HOME": "/h"}) == (Path("attest.toml"), Path("/h/.config/attest/attest.toml"), MACHINE_FILE)
    assert settings_files({"HOME": "/h", "XDG_CONFIG_HOME": "/x"})[1] == Path("/x/attest/attest.toml")
    assert settings_files({}) == (Path("attest.toml"), MACHINE_FILE)
    assert settings_files({"ATTEST_CONFIG": "/it", "HOME": "/h"}) == (Path("/it"),)


def test_a_file_that_is_named_has_to_be_there(tmp_path: Path) -> None:
    error = refused({}, environ={**NAMED, "ATTEST_CONFIG": "x"}, files=(tmp_path / "absent",))
    assert error.code == "file-unreadable"
    assert load_settings({}, environ=NAMED, files=(tmp_path / "absent",)).url == URL
    assert refused({}, environ=NAMED, files=(tmp_path,)).code == "file-unreadable"


def test_the_verifier_key_is_a_text_or_a_file_and_the_first_that_is_said_counts(tmp_path: Path) -> None:
    file = tmp_path / "kms.key"
    file.write_text(f"{OTHER.text}\n")
    by_file = {"ATTEST_KMS_URL": URL, "ATTEST_KMS_KEY_FILE": str(file)}
    assert load_settings({}, environ=by_file, files=()).service == OTHER
    assert load_settings({"key": SERVICE}, environ=by_file, files=()).service == SERVICE
    assert load_settings({"key_file": file}, environ=NAMED, files=()).service == OTHER
    file.write_text("no key\n")
    assert refused({}, environ=by_file).code == "verifier-key-invalid"
    assert refused({}, environ={**by_file, "ATTEST_KMS_KEY_FILE": "/no/such"}).code == "file-unreadable"


@pytest.mark.parametrize(("missing", "field"), [("ATTEST_KMS_URL", "url"), ("ATTEST_KMS_KEY", "key")])
def test_without_a_service_there_is_no_session_and_the_error_says_how_to_name_one(missing: str, field: str) -> None:
    error = refused({}, environ={name: value for name, value in NAMED.items() if name != missing})
    assert (error.code, error.field) == ("kms-not-configured", field)
    assert missing in f"{error.hint} {error.expected}"


@pytest.mark.parametrize(
    "text",
    [
        "kms.colour = 1",
        "other = 1",
        "kms = 1",
        "kms.url = 7",
        'kms.url = ""',
        'kms.url = "kms.example"',
        'kms.timeout_seconds = "5"',
        "kms.timeout_seconds = 0",
        "kms.timeout_seconds = 3601",
        "kms.timeout_seconds = true",
        "kms.offline = 1",
        'kms.endorsements = "a"',
        "kms.endorsements = [1]",
        'kms.configuration = "00"',
        'kms.configuration = "zz"',
        "kms.configuration = 5",
        "not TOML",
        'kms.unchecked_tls = " "',
    ],
)
def test_what_is_not_understood_is_refused(tmp_path: Path, text: str) -> None:
    error = refused({}, files=(written(tmp_path, text),))
    assert error.code == "session-settings-invalid"
    assert str(tmp_path / "attest.toml") in error.message


def test_a_file_that_is_too_long_or_no_text_is_refused(tmp_path: Path) -> None:
    assert refused({}, files=(written(tmp_path, "#" * (1 << 20) + "#"),)).code == "session-settings-invalid"
    (tmp_path / "attest.toml").write_bytes(b"\xff")
    assert refused({}, files=(tmp_path / "attest.toml",)).code == "session-settings-invalid"


def test_a_setting_that_does_not_exist_is_a_mistake_of_the_program() -> None:
    with pytest.raises(TypeError, match="colour"):
        load_settings({"colour": 1}, environ=NAMED, files=())


def test_every_setting_may_be_given(tmp_path: Path) -> None:
    found = load_settings(
        {
            "url": URL,
            "key": SERVICE.text,
            "configuration": bytes(32),
            "endorsements": [tmp_path, "b"],
            "gpus": False,
            "tcti": "device:/dev/tpm0",
            "allow_simulated": True,
            "offline": True,
            "anchors": "anchors.toml",
        },
        environ={},
        files=(),
    )
    assert (found.configuration, found.endorsements) == (bytes(32), (tmp_path, Path("b")))
    assert (found.gpus, found.tcti, found.offline) == (False, "device:/dev/tpm0", True)


def settings(**more: object) -> SessionSettings:
    return SessionSettings(url=URL, service=SERVICE, **more)  # type: ignore[arg-type]  # as their names say


def test_what_is_expected_of_the_service_needs_a_policy(tmp_path: Path) -> None:
    assert expectation_of(settings(), None) is None
    cases: tuple[dict[str, object], ...] = ({"configuration": bytes(32)}, {"unchecked_tls": "x"})
    for more in cases:
        with pytest.raises(ConfigurationError) as caught:
            expectation_of(settings(**more), None)
        assert caught.value.field == "policy"
    policy = load_policy(POLICIES["snp"])
    made = expectation_of(settings(offline=True, allow_simulated=True, unchecked_tls="x"), policy)
    assert made is not None
    assert (made.policy, made.fetch, made.unchecked_tls) == (policy, None, "x")
    assert expectation_of(settings(), made) is made
    anchors = tmp_path / "anchors.toml"
    anchors.write_text("colour = 1\n")
    with pytest.raises(ConfigurationError):
        expectation_of(settings(anchors=anchors), policy)
    cases = ({"policy": tmp_path / "absent"}, {"endorsements": (tmp_path / "absent",)})
    for more in cases:
        with pytest.raises(ConfigurationError) as caught:
            expectation_of(settings(**more), None if "policy" in more else policy)
        assert caught.value.code == "file-unreadable"


def test_who_vouches_for_tls_has_to_be_readable(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        open_http(settings(tls_ca=tmp_path / "absent"))
    assert caught.value.code == "tls-ca-unusable"


def test_settings_and_single_arguments_do_not_go_together() -> None:
    with pytest.raises(TypeError, match="settings contain everything"):
        attest.Session("https://other", settings=settings())
    with attest.Session(settings=settings()) as session:
        assert session.settings.url == URL


def test_a_session_is_configured_by_its_arguments_alone(tmp_path: Path) -> None:
    key = tmp_path / "kms.key"
    key.write_text(SERVICE.text)
    given: tuple[VerifierKey | str | Path, ...] = (SERVICE, SERVICE.text, key)
    for service in given:
        with attest.Session(URL, service=service, timeout=3, log_memory=tmp_path / "log") as session:
            assert (session.settings.service, session.settings.timeout_seconds) == (SERVICE, 3.0)
