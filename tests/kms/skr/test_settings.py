"""The file of the vaults: what it says, what is refused, and which files it names."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from attest.errors import ConfigurationError
from kms.api.skr.authorities import Authorities
from kms.auth.issuers import BearerIssuer
from kms.cli.config_check import check_settings
from kms.config.configuration import read_configuration
from kms.config.file_ownership import believed_files, require_guarded
from kms.config.skr import Authority, named_by_skr, read_skr_settings, signing_keys_of_skr
from kms.config.skr_signer import open_signer
from tests.kms.skr.face import creation, face_of
from tests.kms.skr.test_releases import RELEASED, inner
from tests.kms.skr.vault import ALL, MAA, Workload, public_jwk, rsa_key, write_certificates, write_vault
from tests.kms.support import AT, FakeClock, FakeRandom, Harness, settings_for
from tests.kms.test_cli import Shell, shell

__all__ = ["shell"]

HOST = 'host = "v1.localhost:8443"'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_vault(tmp_path, at=AT)


def changed(file: Path, before: str, after: str) -> str:
    """The refusal of a file with this change."""
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after, 1))
    with pytest.raises(ConfigurationError) as caught:
        read_skr_settings(file)
    assert caught.value.code in {"skr-file-invalid", "file-unreadable", "tenant-invalid"}
    assert caught.value.field in {"skr_file", None}
    return caught.value.message


def test_a_file_says_who_may_do_what(file: Path) -> None:
    found = read_skr_settings(file)
    (vault,), (authority,), (caller,) = found.vaults, found.authorities, found.callers
    assert (vault.host, vault.name, vault.tenant, vault.resource) == (
        "v1.localhost:8443",
        "v1.localhost",
        "default",
        "https://localhost:8443",
    )
    assert (authority.url, [one.kid for one in authority.keys]) == (MAA, ["maa-1"])
    assert [(one.role, one.appid, one.vaults) for one in caller.permissions] == [
        ("officer", None, None),
        ("reader", None, None),
        (None, "workload-1", None),
    ]
    assert caller.permissions[0].actions == frozenset(ALL)
    assert (found.max_token_age_seconds, found.refuse_sha1, found.single_use_tokens) == (28_800, False, False)
    names = {"skr.toml", "vault.yaml", "vault.crt", "maa.jwks.json", "login.jwks.json"}
    assert {one.name for one in named_by_skr(file)} == names - {"skr.toml"}
    assert [one.name for one in signing_keys_of_skr(file)] == ["vault.key"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (HOST, ""),
        (HOST, 'host = "V1.localhost"'),
        (HOST, 'host = "v1.localhost:0"'),
        (HOST, "host = 7"),
        (HOST, f"{HOST}\nmore = 1"),
        (HOST, f'{HOST}\ntenant = "A B"'),
        ('policy = "vault.yaml"', 'policy = "missing.yaml"'),
        ('resource = "https', 'resource = "http'),
        ('resource = "https://localhost:8443"', 'resource = "https://a,b"'),
        ('resource = "https://localhost:8443"', f'resource = "https://{"a" * 300}"'),
        ("signing_key =", "# signing_key ="),
        ("[[vaults]]", "[vaults]"),
        ("[[vaults]]", "more = 1\n[[vaults]]"),
        ("[[vaults]]", "max_token_age_seconds = 59\n[[vaults]]"),
        ("[[vaults]]", "max_token_age_seconds = true\n[[vaults]]"),
        ("[[vaults]]", "refuse_sha1 = 1\n[[vaults]]"),
        ("[[vaults]]", "single_use_tokens ="),
        ('keys = "maa.jwks.json"', ""),
        ('keys = "maa.jwks.json"', 'keys = "maa.jwks.json"\njwks_url = "https://a"'),
        ('keys = "maa.jwks.json"', 'keys = "maa.jwks.json"\nca = "ca.pem"'),
        ('keys = "maa.jwks.json"', 'jwks_url = "http://a"'),
        ('keys = "maa.jwks.json"', 'keys = "vault.yaml"'),
        ("[[authorities]]", f'[[authorities]]\nurl = "{MAA}/"\nkeys = "maa.jwks.json"\n[[authorities]]'),
        ('issuer = "https', 'issuers = "https'),
        ('keys = "login.jwks.json"', 'keys = "vault.yaml"'),
        ('role = "reader"', 'role = "reader"\nappid = "both"'),
        ('role = "reader"', ""),
        ('role = "reader"', 'role = "reader"\nvaults = []'),
        ('role = "reader"', 'role = "reader"\nvaults = ["v2.localhost:8443"]'),
        ('actions = ["get"]', 'actions = ["fly"]'),
        ('actions = ["get"]', "actions = []"),
        ('actions = ["get"]', 'actions = "get"'),
    ],
)
def test_another_file_is_refused(file: Path, before: str, after: str) -> None:
    assert changed(file, before, after)


def test_few_tables_of_callers_have_one_issuer_and_audience(file: Path) -> None:
    text = file.read_text()
    table = text[text.index("[[callers]]") :]
    file.write_text(text + 7 * table)
    assert len(read_skr_settings(file).callers) == 8
    assert "more than 8 tables" in changed(file, "[[callers]]", table + "[[callers]]")


def test_a_file_without_vaults_or_with_one_twice_is_refused(file: Path) -> None:
    text = file.read_text()
    start = text[text.index("[[vaults]]") : text.index("[[authorities]]")]
    assert "a host of its own" in changed(file, start, start + start.replace(HOST, 'host = "v1.localhost:8443"'))
    file.write_text("# nothing")
    with pytest.raises(ConfigurationError, match="at least one table"):
        read_skr_settings(file)
    file.write_bytes(b"#" * (64 * 1024 + 1))
    with pytest.raises(ConfigurationError, match="more than 65536 bytes"):
        read_skr_settings(file)


def test_every_file_that_is_named_is_guarded_and_the_public_ones_are_in_the_digest(file: Path, tmp_path: Path) -> None:
    settings = settings_for(tmp_path, skr_file=file, database=str(tmp_path / "no.db"))
    believed = {path.name for name, path in believed_files(settings, None) if name == "skr_file"}
    assert believed == {"skr.toml", "vault.yaml", "vault.crt", "vault.key", "maa.jwks.json", "login.jwks.json"}
    harness = Harness.make(tmp_path, skr_file=file)
    anchors = harness.services.anchors
    before = read_configuration(settings, anchors)
    digests = before.settings["skr_file"]
    assert isinstance(digests, list)
    assert len(digests) == 5
    (tmp_path / "vault.yaml").write_text("other")
    assert read_configuration(settings, anchors).digest != before.digest
    (tmp_path / "maa.jwks.json").chmod(0o620)
    with pytest.raises(ConfigurationError) as caught:
        require_guarded(settings, None)
    assert (caught.value.code, caught.value.field) == ("file-writable-by-others", "skr_file")
    harness.close()


def test_answers_are_signed_by_an_rsa_certificate_of_the_vault(file: Path, tmp_path: Path) -> None:
    (vault,) = read_skr_settings(file).vaults
    assert open_signer(vault, at=AT).header
    for names, good in (
        (("*.localhost",), True),
        (("localhost",), False),
        (("*.v1.localhost",), False),
        (("V1.LOCALHOST",), True),
    ):
        write_certificates(tmp_path, at=AT, names=names)
        if good:
            assert open_signer(vault, at=AT).header
            continue
        with pytest.raises(ConfigurationError) as caught:
            open_signer(vault, at=AT)
        assert caught.value.code == "skr-signer-invalid"
    with pytest.raises(ConfigurationError) as caught:
        open_signer(vault, at=datetime(2027, 1, 1, tzinfo=UTC))
    assert caught.value.code == "tls-certificate-expired"


def test_config_check_reads_the_vaults(file: Path, tmp_path: Path) -> None:
    harness = Harness.make(tmp_path, skr_file=file)

    def checked() -> list[tuple[str, str]]:
        found = check_settings(
            harness.settings, config=None, clock=harness.clock, random=FakeRandom("check"), warn_days=14
        )
        return [(one.outcome, one.text) for one in found if one.check == "skr"]

    assert checked() == [("ok", f"vaults: v1.localhost:8443; authorities: {MAA}")]
    (tmp_path / "vault.yaml").write_text("not: a policy")
    assert checked()[0][0] == "failed"
    harness.close()


# -- authorities


def test_a_key_set_at_an_address_is_read_before_it_counts_and_not_for_ever() -> None:
    clock = FakeClock()
    answers: list[bytes | OSError] = [json.dumps({"keys": [public_jwk(rsa_key("maa"), kid="maa-1")]}).encode()]
    asked: list[str | None] = []

    def fetch(issuer: BearerIssuer) -> bytes:
        asked.append(issuer.jwks_url)
        if isinstance(answers[-1], OSError):
            raise answers[-1]
        return answers[-1]

    authorities = Authorities(
        (Authority(url=MAA, jwks_url=f"{MAA}/certs"), Authority(url="https://pinned.example", keys=())),
        clock=clock,
        fetch=fetch,
    )
    assert set(authorities.trusted(at=clock())) == {"https://pinned.example"}
    authorities.start()
    found: Mapping[str, tuple[object, ...]] = authorities.trusted(at=clock())
    assert (set(found), len(found[MAA])) == ({MAA, "https://pinned.example"}, 1)
    assert asked == [f"{MAA}/certs"]
    clock.forward(days=2)
    assert MAA not in authorities.trusted(at=clock())


def test_a_token_causes_no_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with face_of(tmp_path) as face:
        face.create()
        connected: list[object] = []
        monkeypatch.setattr("socket.socket.connect", lambda _, address: connected.append(address))
        monkeypatch.setattr("socket.getaddrinfo", lambda *address, **_: connected.append(address))
        elsewhere = {"kid": "evil", "jku": "https://evil.example/certs"}
        at = face.harness.clock()
        for token in (
            Workload().token(at, header=elsewhere, key="another"),
            Workload().token(at, {"iss": "https://evil.example"}, header=elsewhere, key="another"),
        ):
            assert face.release(target=token).status_code == 403
        assert connected == []


def test_a_permission_can_be_for_one_vault(tmp_path: Path) -> None:
    path = write_vault(tmp_path, at=AT, names=("v1.localhost", "v2.localhost"))
    text = path.read_text().replace('role = "reader"', 'role = "reader"\nvaults = ["v2.localhost:8443"]')
    start = text[text.index("[[vaults]]") : text.index("[[authorities]]")]
    path.write_text(text + start.replace("v1", "v2"))
    with face_of(tmp_path, rules=path) as face:
        reader, second = face.bearer(role="reader"), {"Host": "v2.localhost:8443"}
        for headers in ({}, second):
            assert face.ask("POST", "/keys/k1/create", creation(), headers=headers).status_code == RELEASED
        assert inner(face.ask("GET", "/keys/k1", token=reader)) == "skr-permission-missing"
        assert face.ask("GET", "/keys/k1", token=reader, headers=second).status_code == RELEASED


def checked(file: Path, tmp_path: Path, *, warn_days: int = 14) -> list[tuple[str, str]]:
    folder = tmp_path / f"service-{len([*tmp_path.glob('service-*')])}"
    folder.mkdir()
    harness = Harness.make(folder, skr_file=file)
    found = check_settings(
        harness.settings, config=None, clock=harness.clock, random=FakeRandom("check"), warn_days=warn_days
    )
    harness.close()
    return [(one.outcome, one.text) for one in found if one.check == "skr"]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (HOST, f'{HOST}\ntenant = "nosuch"', "there is no tenant nosuch"),
        ('resource = "https://localhost:8443"', 'resource = "https://kms.example"', "clients refuse the challenge"),
        ('resource = "https://localhost:8443"', 'resource = "https://localhost"', "clients refuse the challenge"),
        (f'url = "{MAA}"', 'url = "https://elsewhere.example"', "names none of the authorities"),
    ],
)
def test_config_check_warns_of_a_vault_that_can_release_nothing(
    file: Path, tmp_path: Path, before: str, after: str, said: str
) -> None:
    assert [outcome for outcome, _ in checked(file, tmp_path)] == ["ok"]
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))
    warning, fine = checked(file, tmp_path)
    assert (warning[0], fine[0], said in warning[1]) == ("warning", "ok", True), warning


def test_config_check_warns_of_a_signing_certificate_that_expires(file: Path, tmp_path: Path) -> None:
    warning, _ = checked(file, tmp_path, warn_days=3650)
    assert (warning[0], "vault.crt expires on" in warning[1]) == ("warning", True)


def test_a_refusal_names_the_member_and_the_file(file: Path, tmp_path: Path) -> None:
    (tmp_path / "vault.yaml").rename(tmp_path / "other.yaml")
    with pytest.raises(ConfigurationError, match=r"vault\.yaml cannot be read") as caught:
        read_skr_settings(file)
    assert "skr.toml names it as vaults.policy" in str(caught.value.hint)
    (tmp_path / "other.yaml").rename(tmp_path / "vault.yaml")
    (tmp_path / "maa.jwks.json").write_text("-")
    with pytest.raises(ConfigurationError, match=r"authorities\.keys: .*maa\.jwks\.json: expected a key set"):
        read_skr_settings(file)


def test_a_permission_for_a_vault_that_is_not_served_is_refused(file: Path) -> None:
    assert "no table [[vaults]] has the host 'other'" in changed(file, "actions = [", 'vaults = ["other"]\nactions = [')


def test_a_policy_that_is_none_is_refused_with_its_file(file: Path, tmp_path: Path) -> None:
    (tmp_path / "vault.yaml").write_text("not: a policy")
    ((outcome, text),) = checked(file, tmp_path)
    assert (outcome, text.startswith(f"{tmp_path / 'vault.yaml'}:1:1: ")) == ("failed", True), text


# -- addresses of keys


def test_an_alias_at_a_vault_that_is_not_served_gets_a_warning(shell: Shell, tmp_path: Path) -> None:
    shell.init()
    shell.add_key()

    def added(address: str) -> str:
        out, err = shell.with_config("alias", "add", address, "model")
        assert "leads to model" in out
        return err

    assert "warning: this service serves no vault: the setting skr_file" in added("https://v0.localhost/keys/a")
    assert "warning: this service serves no guests: the setting kbs_file" in added("kbs:///a/b/c")
    config = shell.config.read_text()
    shell.config.write_text(f'skr_file = "{write_vault(tmp_path, at=AT)}"\n{config}')
    assert "serves no vault of this name; it serves v1.localhost:8443" in added("https://v1.localhost/keys/a")
    assert "warning" not in added("https://v1.localhost:8443/keys/a")
    found = json.loads(shell.with_config("alias", "add", "https://v2.localhost/keys/a", "model", "--json")[0])
    assert "serves no vault of this name" in found["details"]["note"]
