"""Tokens with MAA's claims: made of verified evidence alone, and read by this project's verifier and by another."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.hashes import SHA256

from attest import load_policy
from attest.errors import AttestError, BindingError
from attest.results import appraise_service_token, read_jwks, verify_service_token
from kms.api.maa.app import MAX_BODY_BYTES
from kms.api.maa.attestation import Attestation
from kms.api.maa.claims import claims_about
from kms.api.maa.messages import parse_request
from kms.api.maa.signing import TokenSigner
from kms.config.maa import read_maa_settings
from kms.controls.admin import freeze
from kms.domain.freezes import target
from kms.release.attestation_records import AttestationRecord
from kms.release.attestations import REFUSALS_PER_MINUTE, Attestations
from tests.kms.maa.maa_face import (
    INIT_TIME,
    ISSUER,
    RUNTIME,
    Document,
    MaaFace,
    b64,
    claims_of,
    maa_face_of,
    refusal,
    report_data,
    snp_body,
    write_rules,
)
from tests.kms.support import ACTOR, AT, GUEST, TD, policy_text, tdx_policy_text, write_intel_collateral
from tests.kms.test_floors import CVE, put

INIT_DIGEST = sha256(INIT_TIME).digest()


@pytest.fixture
def face(tmp_path: Path) -> Iterator[MaaFace]:
    with maa_face_of(tmp_path) as made:
        yield made


@pytest.fixture
def td_face(tmp_path: Path) -> Iterator[MaaFace]:
    write_intel_collateral(tmp_path)
    with maa_face_of(tmp_path, rules=write_rules(tmp_path, policy=tdx_policy_text())) as made:
        yield made


def td_body(runtime: bytes = RUNTIME, **more: object) -> Document:
    quote = TD.quote(report_data(runtime))
    return {"quote": b64(quote), "runtimeData": {"data": b64(runtime), "dataType": "JSON"}, **more}


# -- readers of tokens


def test_a_token_verifies_with_this_projects_own_reader_of_maas_tokens(face: MaaFace) -> None:
    text = face.token(snp_body(nonce="a nonce"))
    keys = read_jwks(face.http.get("/certs").content)
    token = verify_service_token(text.encode(), trusted={ISSUER: keys}, at=AT, nonce=b"a nonce")
    (facts,) = token.facts
    assert (facts.kind, facts.claims["measurement"], facts.claims["product"]) == ("sev-snp", GUEST.measurement, "Genoa")
    assert facts.claims["report_data"] == report_data(RUNTIME)
    assert facts.claims["policy.debug"] is False
    assert token.simulated is True
    assert [check.id for check in appraise_service_token(token, simulated="a test") if check.outcome == "fail"] == []
    assert facts.statements["compliance_status"] == "azure-compliant-uvm"
    assert "vm_configuration.secure_boot" not in facts.statements


def test_an_independent_reader_accepts_a_token_by_the_published_documents(face: MaaFace) -> None:
    text = face.token(snp_body())
    found = face.http.get("/.well-known/openid-configuration").json()
    assert (found["issuer"], found["jwks_uri"]) == (ISSUER, f"{ISSUER}/certs")
    header = jwt.get_unverified_header(text)
    assert header == {"alg": "RS256", "typ": "JWT", "kid": header["kid"], "jku": found["jwks_uri"]}
    keys = jwt.PyJWKSet.from_dict(face.http.get("/certs").json())
    options: Any = {"verify_exp": False, "verify_nbf": False, "verify_iat": False}
    claims = jwt.decode(text, keys[header["kid"]].key, algorithms=["RS256"], issuer=ISSUER, options=options)
    assert (claims["iat"], claims["nbf"], claims["exp"]) == (AT.timestamp(), AT.timestamp(), AT.timestamp() + 8 * 3600)


def test_the_first_certificate_of_the_key_set_signed_and_the_next_one_issued_it(face: MaaFace) -> None:
    text = face.token(snp_body())
    (key,) = face.http.get("/certs").json()["keys"]
    leaf, root = (x509.load_der_x509_certificate(jwt.utils.base64url_decode(_url(one))) for one in key["x5c"])
    message, _, signature = text.rpartition(".")
    public: Any = leaf.public_key()
    public.verify(jwt.utils.base64url_decode(signature), message.encode(), padding.PKCS1v15(), SHA256())
    leaf.verify_directly_issued_by(root)


def _url(text: str) -> str:
    return text.replace("+", "-").replace("/", "_")


# -- claims, each by its type


def hexadecimal(digits: int) -> re.Pattern[str]:
    return re.compile(f"[0-9a-f]{{{digits}}}")


TEXT, URL_HASH = re.compile(".+"), re.compile("[A-Za-z0-9_-]{43}")
COMMON = {
    "iss": re.compile(re.escape(ISSUER)),
    "iat": int,
    "nbf": int,
    "exp": int,
    "jti": hexadecimal(64),
    "x-ms-ver": re.compile(r"1\.0"),
    "x-ms-policy-hash": URL_HASH,
    "x-ms-compliance-status": re.compile("azure-compliant-uvm"),
    "nonce": TEXT,
    "x-ms-runtime": dict,
    "simulated": bool,
}
_SNP_TYPES = {
    **dict.fromkeys(("authorkeydigest", "idkeydigest", "launchmeasurement"), hexadecimal(96)),
    **dict.fromkeys(("hostdata", "reportid"), hexadecimal(64)),
    **dict.fromkeys(("reportdata", "chipid"), hexadecimal(128)),
    **dict.fromkeys(("familyId", "imageId"), hexadecimal(32)),
    **dict.fromkeys(("bootloader-svn", "tee-svn", "snpfw-svn", "microcode-svn", "guestsvn", "vmpl"), int),
    **dict.fromkeys(("is-debuggable", "migration-allowed", "smt-allowed"), bool),
    "chip-family": TEXT,
}
SNP_TYPES = COMMON | {"x-ms-attestation-type": re.compile("sevsnpvm")}
SNP_TYPES |= {f"x-ms-sevsnpvm-{name}": kind for name, kind in _SNP_TYPES.items()}
_REGISTERS = "mrtd mrseam mrsignerseam mrconfigid mrowner mrownerconfig rtmr0 rtmr1 rtmr2 rtmr3"
_BITS = "debug key_locker perfmon protection_keys septve_disable"
TDX_TYPES = {
    **COMMON,
    **{f"tdx_{name}": hexadecimal(96) for name in _REGISTERS.split()},
    **{f"tdx_td_attributes_{name}": bool for name in _BITS.split()},
    **dict.fromkeys(("tdx_td_attributes", "tdx_xfam", "tdx_seam_attributes"), hexadecimal(16)),
    "tdx_report_data": hexadecimal(128),
    "tdx_tee_tcb_svn": hexadecimal(32),
    "tdx_seamsvn": int,
    "attester_tcb_status": re.compile("UpToDate"),
    "dbgstat": re.compile("disabled"),
    "intuse": re.compile("generic"),
    "eat_profile": re.compile("https://aka.ms/maa-eat-profile-tdxvm"),
    "x-ms-attestation-type": re.compile("tdxvm"),
}


def require_types(claims: Document, types: dict[str, Any]) -> None:
    assert set(claims) == set(types)
    for name, kind in types.items():
        value = claims[name]
        if isinstance(kind, re.Pattern):
            assert isinstance(value, str), name
            assert kind.fullmatch(value), name
        else:
            assert type(value) is kind, name


def test_every_claim_about_an_snp_guest_has_its_name_and_type(face: MaaFace) -> None:
    claims = claims_of(face.token(snp_body(nonce=2**64 - 1)))
    require_types(claims, SNP_TYPES)
    assert claims["nonce"] == "18446744073709551615"
    assert claims["x-ms-runtime"] == json.loads(RUNTIME)
    digest = sha256(b64(policy_text()).encode()).digest()
    assert claims["x-ms-policy-hash"] == b64(digest)


def test_every_claim_about_a_td_has_its_name_and_type(td_face: MaaFace) -> None:
    text = td_face.token(td_body(nonce="x" * 40), "TdxVm")
    require_types(claims_of(text), TDX_TYPES)
    keys = read_jwks(td_face.http.get("/certs").content)
    (facts,) = verify_service_token(text.encode(), trusted={ISSUER: keys}, at=AT).facts
    assert (facts.kind, facts.claims["mr_td"], facts.claims["tcb_status"]) == ("tdx", TD.mr_td, "UpToDate")


def test_two_tokens_have_two_ids(face: MaaFace) -> None:
    assert claims_of(face.token(snp_body()))["jti"] != claims_of(face.token(snp_body()))["jti"]


def test_the_lifetime_is_that_of_the_file(tmp_path: Path) -> None:
    with maa_face_of(tmp_path, rules=write_rules(tmp_path, more="token_seconds = 60")) as face:
        claims = claims_of(face.token(snp_body()))
    assert claims["exp"] - claims["iat"] == 60


# -- requests as clients write them


@pytest.mark.parametrize("tee", ["SevSnpVm", "SevSnpVM", "sevsnpvm"])
@pytest.mark.parametrize("version", ["2020-10-01", "2022-08-01", "2025-06-01"])
def test_an_address_counts_in_any_case_and_version(face: MaaFace, tee: str, version: str) -> None:
    assert face.post(snp_body(), tee, version=version).status_code == 200


def test_the_name_of_the_version_may_be_percent_encoded(face: MaaFace) -> None:
    answer = face.http.post("/attest/SevSnpVm?api%2Dversion=2022-08-01", content=json.dumps(snp_body()).encode())
    assert answer.status_code == 200


def test_the_request_of_the_container_sidecar_is_accepted(face: MaaFace) -> None:
    """Padded base64url, empty initialisation data without a type, and a number as nonce."""
    body = snp_body(padded=True, initTimeData={"data": "", "dataType": ""}, nonce=7)
    assert claims_of(face.token(body, "SevSnpVM"))["nonce"] == "7"


def test_initialisation_data_have_to_hash_to_host_data(face: MaaFace) -> None:
    data = {"data": b64(INIT_TIME), "dataType": "Binary"}
    committed = snp_body(override={"host_data": INIT_DIGEST}, initTimeData=data)
    claims = claims_of(face.token(committed))
    assert claims["x-ms-sevsnpvm-hostdata"] == INIT_DIGEST.hex()
    assert "x-ms-inittime" not in claims
    face.refused(snp_body(initTimeData=data), 403, "committed-data-mismatch")


def test_initialisation_data_in_json_appear_in_the_token(face: MaaFace) -> None:
    text = b'{"image": "x"}'
    data = {"data": b64(text), "dataType": "JSON"}
    body = snp_body(override={"host_data": sha256(text).digest()}, initTimeData=data)
    assert claims_of(face.token(body))["x-ms-inittime"] == {"image": "x"}


def test_initialisation_data_of_a_td_are_refused(td_face: MaaFace) -> None:
    body = td_body(initTimeData={"data": b64(INIT_TIME), "dataType": "Binary"})
    refusal(td_face.post(body, "TdxVm"), 400, "evidence-unsupported")


def test_binary_runtime_data_do_not_appear_in_the_token(face: MaaFace) -> None:
    claims = claims_of(face.token(snp_body(b"a key", kind="Binary")))
    assert "x-ms-runtime" not in claims
    assert claims["x-ms-sevsnpvm-reportdata"] == report_data(b"a key").hex()


# -- evidence that gets no token


@pytest.mark.parametrize(
    "committed",
    [
        sha256(RUNTIME).digest() + bytes(31) + b"\1",
        bytes(32) + sha256(RUNTIME).digest(),
        report_data(b"other data"),
        bytes(64),
    ],
    ids=["a rest", "the second half", "other data", "nothing"],
)
def test_a_report_over_other_runtime_data_gets_no_token(face: MaaFace, committed: bytes) -> None:
    answer = face.post(snp_body(committed=committed))
    assert answer.status_code == 403
    (entry,) = face.attested
    assert (entry["outcome"], entry["reasons"][0]["code"]) == ("deny", answer.json()["error"]["innererror"]["code"])


def test_simulated_evidence_gets_no_token_of_a_service_that_does_not_allow_it(tmp_path: Path) -> None:
    with maa_face_of(tmp_path, allow_simulated=False) as face:
        answer = face.post(snp_body())
        assert answer.status_code in {403, 503}
        assert "token" not in answer.json()
        refusal(answer, 403, "simulated-root-refused")


def test_a_machine_that_does_not_meet_the_policy_gets_no_token(face: MaaFace) -> None:
    other = replace(GUEST, measurement=b"\x01" * 48)
    error = face.refused(snp_body(guest=other), 403, "not-affirmed")["error"]
    assert "policy.snp.measurement" in error["message"]
    assert error["code"] == "AttestationFailed"
    assert face.attested[-1]["outcome"] == "deny"


def test_a_debuggable_guest_gets_no_token(face: MaaFace) -> None:
    policy = int.from_bytes(b"\x0b\x00\x00", "big")
    error = face.refused(snp_body(override={"policy": policy}), 403, "not-affirmed")["error"]
    assert "policy.snp.guest_policy.debug" in error["message"]


def test_evidence_of_another_tee_than_the_address_gets_no_token(face: MaaFace) -> None:
    for body, tee in ((td_body(), "SevSnpVm"), (td_body() | {"report": "e30"}, "SevSnpVm"), (snp_body(), "TdxVm")):
        refusal(face.post(body, tee), 400, "maa-request-malformed")
    moved = {**td_body(), "quote": td_body()["quote"][:6] + "A" + td_body()["quote"][7:]}
    assert face.post(moved, "TdxVm").status_code == 400


@pytest.mark.parametrize(("scope", "name"), [("all", None), ("product", "genoa"), ("product", "sev-snp")])
def test_a_freeze_stops_tokens_too(face: MaaFace, scope: str, name: str | None) -> None:
    face.token(snp_body())
    freeze(face.harness.services.store, target(scope, name), reason="x", actor=ACTOR, at=face.harness.clock())
    face.refused(snp_body(), 403, "service-frozen" if scope == "all" else "product-frozen")
    assert face.attested[-1]["outcome"] == "deny"


def test_a_freeze_of_another_product_stops_nothing(face: MaaFace) -> None:
    freeze(face.harness.services.store, target("product", "tdx"), reason="x", actor=ACTOR, at=face.harness.clock())
    face.token(snp_body())


def test_a_machine_below_the_floor_of_the_service_gets_no_token(face: MaaFace) -> None:
    face.token(snp_body())
    put(face.harness, "Genoa:snp=255")
    error = face.refused(snp_body(), 403, "below-floor")["error"]
    assert f"floor of the service, version 1 ({CVE})" in error["message"]
    entry = face.attested[-1]
    assert (entry["outcome"], entry["reasons"][0]["code"], entry["simulated"]) == ("deny", "below-floor", True)


def test_a_floor_of_a_tenant_or_of_another_product_stops_no_token(face: MaaFace) -> None:
    put(face.harness, "Genoa:snp=255", scope="default")
    put(face.harness, "Milan:snp=255")
    put(face.harness, "Genoa:snp=255", since=AT + timedelta(days=1))
    face.token(snp_body())


def test_strangers_make_the_log_grow_at_a_limited_rate(tmp_path: Path) -> None:
    """The evidence is not genuine, so no machine has a rate; the next entry counts the refusals without one."""
    now = [0.0]
    with maa_face_of(tmp_path) as face:
        attest = _attest_of(face, lambda *given: Attestations(*given, monotonic=lambda: now[0]))
        stranger = json.dumps(snp_body(committed=bytes(64))).encode()

        def be_refused(times: int) -> int:
            before = len(face.attested)
            for _ in range(times):
                with pytest.raises(AttestError):
                    attest(stranger)
            return len(face.attested) - before

        assert be_refused(REFUSALS_PER_MINUTE) == REFUSALS_PER_MINUTE
        assert be_refused(5) == 0
        now[0] += 60 / REFUSALS_PER_MINUTE
        assert be_refused(2) == 1
        assert face.attested[-1]["left_out"] == 5
        attest(json.dumps(snp_body()).encode())
        assert face.attested[-1]["outcome"] == "allow"


def test_a_machine_that_attests_too_often_has_to_wait(tmp_path: Path) -> None:
    with maa_face_of(tmp_path, chip_releases_per_minute=1) as face:
        answers = [face.post(snp_body()) for _ in range(4)]
        last = answers[-1]
        assert last.status_code == 429
        assert int(last.headers["Retry-After"]) > 0
        assert set(last.json()) == {"error"}


# -- the log


def test_the_log_has_an_entry_of_each_attestation_and_no_evidence(face: MaaFace) -> None:
    text = face.token(snp_body(nonce="a word of the guest"))
    (entry,) = face.attested
    assert (entry["outcome"], entry["tee"], entry["simulated"]) == ("allow", "sevsnpvm", True)
    assert entry["runtime_sha256"] == sha256(RUNTIME).hexdigest()
    written = str(face.harness.entries())
    assert text not in written
    assert "a word of the guest" not in written


def test_a_request_that_cannot_be_read_leaves_no_entry(face: MaaFace) -> None:
    face.refused(b"{", 400, "json-invalid")
    face.refused({}, 400, "maa-request-malformed")
    assert face.attested == []


# -- every byte


SLICES = 8


@pytest.mark.parametrize("part", range(SLICES))
def test_every_byte_of_an_snp_body_counts_or_changes_nothing(tmp_path: Path, part: int) -> None:
    """A flipped byte is refused; if it is one that nothing signs, the token states the same."""
    with maa_face_of(tmp_path) as face:
        body = json.dumps(snp_body(), separators=(",", ":")).encode()
        attest = _attest_of(face)
        good = _stated(attest(body))
        same = 0
        for index in range(part, len(body), SLICES):
            flipped = bytes((*body[:index], body[index] ^ 1, *body[index + 1 :]))
            try:
                text = attest(flipped)
            except AttestError:
                continue
            assert _stated(text) == good
            same += 1
        assert same < len(body) / SLICES / 2


class _Unlogged(Attestations):
    """Attestations without entries in the log, each of which waits for the disk."""

    def record(self, record: AttestationRecord, *, at: datetime) -> None:
        del record, at

    record_stranger = record


def _attest_of(face: MaaFace, port_of: Callable[..., Attestations] = _Unlogged) -> Callable[[bytes], str]:
    harness, settings = face.harness, read_maa_settings(face.harness.folder / "maa.toml")
    port = port_of(harness.services, harness.releases)
    signer = TokenSigner(settings, random=harness.random)
    attestation = Attestation(port, settings, signer, clock=harness.clock)
    return lambda body: attestation.attest(body, "sevsnpvm")


def _stated(text: str) -> Document:
    return {name: value for name, value in claims_of(text).items() if name != "jti"}


def test_the_longest_request_is_within_the_limit_of_the_body(face: MaaFace) -> None:
    body = json.dumps(snp_body()).encode()
    assert face.post(body.ljust(MAX_BODY_BYTES)).status_code == 200
    assert face.post(body.ljust(MAX_BODY_BYTES + 1)).status_code == 413


def test_claims_are_not_written_about_another_tee(face: MaaFace) -> None:
    request = parse_request(json.dumps(snp_body()).encode(), "sevsnpvm")
    port = Attestations(face.harness.services, face.harness.releases)
    verified = port.verified(
        request.evidence,
        runtime_digest=sha256(RUNTIME).digest(),
        policy=load_policy(policy_text()),
        at=face.harness.clock(),
    )
    with pytest.raises(BindingError) as caught:
        claims_about(verified, "tdxvm")
    assert caught.value.code == "maa-tee-mismatch"
