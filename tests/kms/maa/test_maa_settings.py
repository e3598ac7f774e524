"""The file of the verifier with MAA's claims: what it names is usable, or the service does not start."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from attest.errors import ConfigurationError
from kms.cli.config_check import check_settings
from kms.config.maa import named_by_maa, read_maa_settings
from tests.kms.maa.maa_face import ISSUER, chain_of, write_rules
from tests.kms.support import FakeRandom, Harness
from tests.results.services import rsa_key


def pem(key: Any) -> bytes:  # noqa: ANN401  any private key
    content: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return content


def refused(path: Path, code: str = "maa-file-invalid") -> str:
    with pytest.raises(ConfigurationError) as caught:
        read_maa_settings(path)
    assert caught.value.code == code
    return caught.value.message


def test_a_file_names_issuer_key_certificates_and_policy(tmp_path: Path) -> None:
    path = write_rules(tmp_path)
    found = read_maa_settings(path)
    assert (found.issuer, found.token_seconds, found.policy.name) == (ISSUER, 8 * 3600, "unit")
    assert found.chain == chain_of()
    assert named_by_maa(path) == (tmp_path / "token-chain.pem", tmp_path / "machines.yaml")
    assert "PrivateKey" not in repr(found)


@pytest.mark.parametrize("seconds", ["29", "28801", "true", '"60"', "60.0"])
def test_a_lifetime_is_of_thirty_seconds_to_eight_hours(tmp_path: Path, seconds: str) -> None:
    assert "token_seconds" in refused(write_rules(tmp_path, more=f"token_seconds = {seconds}"))


@pytest.mark.parametrize(
    "issuer",
    [
        *("", "verifier.example", "http://verifier.example", "https://", "https://a/b", "https://a?b", "https://a b"),
        *("https://a@b", "https://" + "a" * 256),
    ],
)
def test_an_issuer_is_the_address_of_a_host(tmp_path: Path, issuer: str) -> None:
    assert "issuer" in refused(write_rules(tmp_path, issuer=issuer))


@pytest.mark.parametrize(
    "key",
    [b"", b"text", pem(ec.generate_private_key(ec.SECP256R1())), pem(rsa_key(8, 1024))],
    ids=["empty", "text", "elliptic", "short"],
)
def test_a_key_is_an_rsa_key_of_a_usable_length(tmp_path: Path, key: bytes) -> None:
    assert "key" in refused(write_rules(tmp_path, key=key))


def test_a_key_that_other_users_can_read_is_refused(tmp_path: Path) -> None:
    path = write_rules(tmp_path)
    (tmp_path / "token-key.pem").chmod(0o640)
    refused(path, "maa-key-exposed")
    (tmp_path / "token-key.pem").unlink()
    refused(path, "maa-key-unusable")


def test_certificates_are_a_chain_that_begins_with_that_of_the_key(tmp_path: Path) -> None:
    leaf, root = chain_of()
    for wrong in ((), (root,), (root, leaf), (leaf, leaf), (leaf, chain_of(9)[1])):
        assert "certificates" in refused(write_rules(tmp_path, chain=wrong))
    assert read_maa_settings(write_rules(tmp_path, chain=(leaf,))).chain == (leaf,)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("not toml", ""),
        ("#" * 70_000, "more than"),
        ('extra = "x"', "extra"),
        ('issuer = "https://a"', "key"),
        ('issuer = "https://a"\nkey = 1', "key"),
    ],
)
def test_a_file_of_another_form_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    path = write_rules(tmp_path)
    path.write_text(text)
    assert problem in refused(path)


def test_a_policy_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    path = write_rules(tmp_path, policy=b"name: x")
    with pytest.raises(ConfigurationError):
        read_maa_settings(path)
    (tmp_path / "machines.yaml").unlink()
    refused(path, "file-unreadable")


def test_config_check_warns_of_a_certificate_that_expires_or_has_expired(tmp_path: Path) -> None:
    harness = Harness.make(tmp_path, maa_file=write_rules(tmp_path))

    def checked(at: datetime, warn_days: int) -> list[str]:
        found = check_settings(
            harness.settings, config=None, clock=lambda: at, random=FakeRandom("check"), warn_days=warn_days
        )
        return [f"{one.outcome}: {one.text}" for one in found if one.check == "maa"]

    ends = read_maa_settings(tmp_path / "maa.toml").chain[0].not_valid_after_utc
    (fine,) = checked(ends - timedelta(days=2), 1)
    assert fine.startswith("ok: ")
    assert "certificates until" in fine
    assert "certificate of tokens expires on" in checked(ends - timedelta(days=2), 3)[0]
    assert "certificate of tokens expired on" in checked(ends + timedelta(days=1), 1)[0]
    harness.close()


def test_a_refusal_names_the_member_and_the_file(tmp_path: Path) -> None:
    path = write_rules(tmp_path, policy=b"name: x")
    with pytest.raises(ConfigurationError, match=r"machines\.yaml:1:1: "):
        read_maa_settings(path)
    (tmp_path / "machines.yaml").unlink()
    with pytest.raises(ConfigurationError) as caught:
        read_maa_settings(path)
    assert "maa.toml names it as policy" in str(caught.value.hint)
