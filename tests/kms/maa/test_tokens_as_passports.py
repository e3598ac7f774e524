"""The way round: a token that the service signs for a machine opens a key for that machine, here or elsewhere."""

import json
from hashlib import sha256
from pathlib import Path

import pytest

from attest.errors import AttestError
from attest.release.passports import PassportKey, PassportRequest
from attest.results import read_jwks, verify_service_token
from kms.domain.errors import ReleaseDeniedError
from tests.kms.maa.maa_face import ISSUER, MaaFace, b64, claims_of, maa_face_of, snp_body
from tests.kms.skr.vault import SNP
from tests.kms.support import AT, GUEST, MATERIAL, Harness, Workload, open_sealed

KEY = PassportKey.generate()


def policy(*, simulated: bool = True) -> bytes:
    document = {
        "schema": "attest.policy/1",
        "name": "by-our-token",
        "version": 1,
        "verifiers": [{"issuer": ISSUER}],
        "reference_values": {"image": {"values": [GUEST.measurement.hex()], "origin": "a test"}},
        "snp": {**SNP, "minimum_tcb": {"Genoa": {"bootloader": 9, "tee": 0, "snp": 26, "microcode": 80}}},
    }
    tolerance = {"simulated": {"unchecked": "a test on the simulator"}} if simulated else {}
    return json.dumps(document | tolerance).encode()


def trusting(face: MaaFace, **changes: object) -> Harness:
    """The same service, which now trusts its own tokens, as another service would."""
    folder = face.harness.folder
    (folder / "maa.jwks").write_bytes(face.http.get("/certs").content)
    path = folder / "verifiers.toml"
    path.write_text(f'[[verifier]]\nissuer = "{ISSUER}"\nkeys = "maa.jwks"\n')
    return face.harness.reopened(verifiers_file=path, **changes)


def asking(service: Harness, token: str, *, key: PassportKey = KEY) -> PassportRequest:
    challenge = service.releases.challenge()
    passport = key.passport(token.encode(), audience=service.audience, nonce=challenge.nonce, key_ids=("model",))
    return PassportRequest(challenge=challenge.token, passport=passport, key_ids=("model",))


IN_JSON = json.dumps({"attest_passport_key": b64(sha256(KEY.bound).digest()), "keys": []}).encode()


@pytest.mark.parametrize(("runtime", "kind"), [(KEY.bound, "Binary"), (IN_JSON, "JSON")], ids=["Binary", "JSON"])
def test_a_token_opens_a_key_for_the_machine_that_committed_to_its_keys(
    tmp_path: Path, runtime: bytes, kind: str
) -> None:
    with maa_face_of(tmp_path) as face:
        face.harness.add_key("model", policy=policy())
        token = face.token(snp_body(runtime, kind=kind))
        service = trusting(face)
        request = asking(service, token)
        release = service.releases.release(request)
        opened = open_sealed(Workload(key=KEY.recipient), request, release, service.services.identity.public)  # type: ignore[arg-type]  # its digest counts
        assert opened == {"model": MATERIAL}
        with pytest.raises(AttestError) as caught:
            service.releases.release(asking(service, token, key=PassportKey.generate()))
        assert caught.value.code == "token-key-mismatch"
        service.close()


def test_a_token_about_simulated_evidence_needs_a_policy_and_a_service_that_allow_it(tmp_path: Path) -> None:
    with maa_face_of(tmp_path) as face:
        face.harness.add_key("model", policy=policy(simulated=False))
        token = face.token(snp_body(KEY.bound, kind="Binary"))
        assert claims_of(token)["simulated"] is True
        for service, code in ((trusting(face), "policy-not-met"), (trusting(face, allow_simulated=False), "simulated")):
            with pytest.raises(ReleaseDeniedError) as caught:
                service.releases.release(asking(service, token))
            assert code == caught.value.code
            service.close()


def test_settings_in_runtime_data_of_a_guest_are_not_taken_for_those_of_a_paravisor(tmp_path: Path) -> None:
    runtime = {"vm-configuration": {"secure-boot": True, "vmUniqueId": "x"}, "keys": []}
    with maa_face_of(tmp_path) as face:
        text = face.token(snp_body(json.dumps(runtime).encode()))
        keys = read_jwks(face.http.get("/certs").content)
    (facts,) = verify_service_token(text.encode(), trusted={ISSUER: keys}, at=AT).facts
    assert claims_of(text)["x-ms-runtime"] == runtime
    assert [name for name in facts.statements if name.startswith("vm_configuration")] == []
