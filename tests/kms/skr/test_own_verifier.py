"""A vault that accepts the tokens of the service's own verifier: one service attests a machine and releases to it."""

import json
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from attest.errors import ConfigurationError
from kms.api.app import create_app
from kms.cli.config_check import check_settings
from kms.config.skr import read_skr_settings
from tests.kms.maa.maa_face import ISSUER, MaaFace, snp_body, write_rules
from tests.kms.skr.face import HOST, Face, creation, release_policy
from tests.kms.skr.test_releases import RELEASED, inner
from tests.kms.skr.vault import POLICY, SNP, Document, Workload, write_vault
from tests.kms.support import AT, GUEST, FakeRandom, Harness

OWN_POLICY: Document = {
    **POLICY,
    "verifiers": [{"issuer": ISSUER, "maximum_age": 28_800}],
    "reference_values": {"image": {"values": [GUEST.measurement.hex()], "origin": "a test"}},
    "snp": {**SNP, "minimum_tcb": {"Genoa": {"bootloader": 9, "tee": 0, "snp": 26, "microcode": 80}}},
    "simulated": {"unchecked": "a test on the simulator"},
}
RELEASE_POLICY = {
    "version": "1.0.0",
    "anyOf": [{"authority": ISSUER, "allOf": [{"claim": "x-ms-attestation-type", "equals": "sevsnpvm"}]}],
}


def own(file: Path, text: str = "own = true") -> Path:
    """Replace the authority of a file."""
    before = file.read_text()
    begin, end = before.index("[[authorities]]"), before.index("[[callers]]")
    file.write_text(f"{before[:begin]}[[authorities]]\n{text}\n{before[end:]}")
    return file


def test_a_machine_that_the_service_attested_gets_a_key_of_its_vault(tmp_path: Path) -> None:
    vault, verifier = own(write_vault(tmp_path, at=AT, policy=OWN_POLICY)), write_rules(tmp_path)
    harness = Harness.make(tmp_path, skr_file=vault, maa_file=verifier)
    app = create_app(harness.settings, harness.services)
    with TestClient(app, raise_server_exceptions=False, base_url=f"https://{HOST}") as http:
        face, workload = Face(harness, http), Workload()
        made = face.ask("POST", "/keys/k1/create", creation(release_policy=release_policy(RELEASE_POLICY)))
        assert made.status_code == RELEASED, made.text
        runtime = json.dumps({"keys": [workload.jwk()]}).encode()
        token = MaaFace(harness, http).token(snp_body(runtime))
        answer = face.release(target=token)
        assert answer.status_code == RELEASED, answer.text
        workload.open(answer.json()["value"], enc="CKM_RSA_AES_KEY_WRAP")
        forged = workload.token(AT, {"iss": ISSUER}, key="another", header={"kid": "maa-1"})
        assert inner(face.release(target=forged)) == "token-key-unknown"
    checked = check_settings(
        harness.settings, config=None, clock=harness.clock, random=FakeRandom("check"), warn_days=14
    )
    harness.close()
    assert [one.outcome for one in checked if one.check == "skr"] == ["ok"]


@pytest.mark.parametrize(
    ("authority", "with_verifier"),
    [
        ("own = true", False),
        (f'own = true\nurl = "{ISSUER}"', True),
        ('own = true\nkeys = "maa.jwks.json"', True),
        ("own = 1", True),
        ("own = false", True),
        (f'own = true\n[[authorities]]\nurl = "{ISSUER}"\nkeys = "maa.jwks.json"', True),
    ],
)
def test_another_table_of_the_own_verifier_is_refused(tmp_path: Path, authority: str, *, with_verifier: bool) -> None:
    file, verifier = own(write_vault(tmp_path, at=AT), authority), write_rules(tmp_path)
    with pytest.raises(ConfigurationError) as caught:
        read_skr_settings(file, maa_file=verifier if with_verifier else None)
    assert (caught.value.code, caught.value.field) == ("skr-file-invalid", "skr_file")


def test_the_key_of_the_own_verifier_is_that_of_its_file(tmp_path: Path) -> None:
    file, verifier = own(write_vault(tmp_path, at=AT)), write_rules(tmp_path)
    (authority,) = read_skr_settings(file, maa_file=verifier).authorities
    assert (authority.url, len(authority.keys), authority.jwks_url) == (ISSUER, 1, None)
    assert set(authority.keys[0].jwk) == {"kty", "n", "e"}
