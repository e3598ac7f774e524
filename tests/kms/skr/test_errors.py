"""Errors of the service in the form of the vault's protocol."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from attest.errors import (
    AttestError,
    ConfigurationError,
    EndorsementError,
    EvidenceError,
    VerificationError,
)
from kms.api.skr.errors import refusal_of
from kms.api.skr.kek import find_kek
from kms.api.skr.opening import skr_face
from kms.config.skr import read_skr_settings
from kms.config.skr_signer import open_signer
from kms.domain.errors import (
    IntegrityError,
    KeyConflictError,
    KeyUnknownError,
    RateLimitedError,
    ReleaseDeniedError,
    UnavailableError,
)
from kms.domain.vault_keys import VaultKeySettings
from kms.keys.rotation import Rotator, rotate_key
from tests.kms.skr.face import face_of, release_policy
from tests.kms.skr.test_releases import KID, RELEASED, inner
from tests.kms.skr.vault import MAA, Workload, write_vault
from tests.kms.support import ACTOR, AT


@pytest.mark.parametrize(
    ("error", "status", "code", "retry"),
    [
        (RateLimitedError("a text", retry_seconds=7), 429, "Throttled", "7"),
        (UnavailableError("a text", code="store-busy"), 503, "ServiceUnavailable", "1"),
        (KeyUnknownError("a text", code="key-unknown"), 404, "KeyNotFound", None),
        (KeyConflictError("a text", code="key-exists"), 409, "Conflict", None),
        (ReleaseDeniedError("a text", code="policy-not-met"), 403, "Forbidden", None),
        (EndorsementError("a text", code="token-key-unknown"), 403, "Forbidden", None),
        (VerificationError("a text", code="token-expired"), 403, "Forbidden", None),
        (ConfigurationError("a text", code="policy-invalid"), 400, "BadParameter", None),
        (EvidenceError("a text", code="json-invalid"), 400, "BadParameter", None),
        (IntegrityError("a text", code="state-forged"), 500, "InternalServerError", None),
        (AttestError("a text", code="unheard-of"), 500, "InternalServerError", None),
    ],
)
def test_each_error_has_a_status_and_a_name(error: AttestError, status: int, code: str, retry: str | None) -> None:
    answer = refusal_of(error).response()
    document = json.loads(bytes(answer.body))["error"]
    assert (answer.status_code, document["code"], answer.headers.get("retry-after")) == (status, code, retry)
    assert document["message"].endswith(f"[{error.code}]")
    assert ("a text" in document["message"]) is (status != 500)


def test_a_refusal_before_the_protocol_has_its_form(tmp_path: Path) -> None:
    refuse: Any = skr_face(tmp_path / "skr.toml").refuse
    document = json.loads(refuse(414, "too long [url-too-long]", {}).body)["error"]
    assert document == {
        "code": "BadParameter",
        "message": "too long [url-too-long]",
        "innererror": {"code": "url-too-long"},
    }


def test_a_key_that_rotates_during_a_release_is_shown_as_it_was_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with face_of(tmp_path) as face:
        before = face.create()
        services = face.harness.services
        with services.store.reading() as tx:
            (record,) = tx.keys.all()

        def find(claims: Any) -> Any:  # noqa: ANN401  as the function that it replaces
            monkeypatch.undo()
            rotator = Rotator(store=services.store, kek=services.kek, random=face.harness.random)
            rotate_key(rotator, record.name, overlap=timedelta(days=1), actor=ACTOR, at=face.harness.clock())
            return find_kek(claims)

        monkeypatch.setattr("kms.api.skr.releases.find_kek", find)
        answer = face.release()
        assert answer.status_code == RELEASED
        payload, _ = Workload().open(answer.json()["value"], enc="CKM_RSA_AES_KEY_WRAP")
        shown = payload["response"]["key"]["key"]
        assert shown["kid"] != before["key"]["kid"]
        assert shown["n"] == face.ask("GET", "/keys/k1").json()["key"]["n"] != before["key"]["n"]


def test_a_release_policy_that_changes_during_a_release_stops_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stricter = {
        "version": "1.0.0",
        "anyOf": [{"authority": MAA, "allOf": [{"claim": "x-ms-attestation-type", "equals": "tdxvm"}]}],
    }
    with face_of(tmp_path) as face:
        face.create()

        def find(claims: Any) -> Any:  # noqa: ANN401  as the function that it replaces
            monkeypatch.undo()
            changed = face.ask("PATCH", "/keys/k1", {"release_policy": release_policy(stricter)})
            assert changed.status_code == RELEASED
            return find_kek(claims)

        monkeypatch.setattr("kms.api.skr.releases.find_kek", find)
        answer = face.release()
        assert (answer.status_code, inner(answer)) == (503, "keys-changing")
        assert face.harness.decisions() == []
        assert inner(face.release()) == "release-policy"


def test_settings_that_another_program_wrote_are_refused(tmp_path: Path) -> None:
    with face_of(tmp_path) as face:
        face.create("k2")
        face.harness.unprotect("vault_keys")
        face.harness.alter("UPDATE vault_keys SET content = '{}'")
        answer = face.ask("GET", "/keys/k2")
        assert (answer.status_code, inner(answer)) == (500, "state-forged")


@pytest.mark.parametrize("change", [{"operations": 1}, {"expires": "x"}, {"expires": True}])
def test_altered_settings_of_a_key_are_not_read(change: dict[str, object]) -> None:
    good = VaultKeySettings(policy=b"a policy", address=KID, tags={"a": "b"}, operations=("sign",), expires=7)
    assert VaultKeySettings.of_bytes(good.to_bytes()) == good
    with pytest.raises((ValueError, EvidenceError)):
        VaultKeySettings.of_bytes(json.dumps({**json.loads(good.to_bytes()), **change}).encode())


def test_answers_are_not_signed_with_another_kind_of_key(tmp_path: Path) -> None:
    (vault,) = read_skr_settings(write_vault(tmp_path, at=AT)).vaults
    other = ec.generate_private_key(ec.SECP256R1())
    pem = other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    vault.key.write_bytes(pem)
    with pytest.raises(ConfigurationError) as caught:
        open_signer(vault, at=AT)
    assert caught.value.code == "tls-key-mismatch"
