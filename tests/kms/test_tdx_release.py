"""Keys for a simulated trust domain: the same service, the same protocol, another vendor."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from attest import Binding
from attest.errors import AttestError, BindingError, EndorsementError
from attest.evidence.envelope import Evidence
from attest.release.client import KeyReleaseClient
from attest.release.receipts import read_receipt
from attest_simulator.intel import SimulatedPlatform, SimulatedTd, typical_boot
from kms.domain.errors import ChallengeUsedError, ReleaseDeniedError
from tests.kms.support import (
    AT,
    MATERIAL,
    TD,
    Harness,
    TdWorkload,
    Workload,
    open_release,
    policy_text,
    tdx_policy_text,
    write_intel_collateral,
)
from tests.kms.test_api import client_of
from tests.samples_intel import old_platform


@pytest.fixture
def service(harness: Harness) -> Harness:
    """A service with Intel's collateral among its files, and a key for the ordinary TD."""
    write_intel_collateral(harness.folder)
    harness.services.endorsements.reload(at=AT)
    harness.add_key("model", policy=tdx_policy_text())
    return harness


def refused(service: Harness, workload: Workload, *key_ids: str) -> AttestError:
    """Ask, be refused, and find the refusal in the log."""
    with pytest.raises(AttestError) as caught:
        service.releases.release(workload.request(service.releases.challenge(), *key_ids))
    assert service.decisions()[-1]["outcome"] == "deny"
    return caught.value


def failed(error: AttestError) -> list[str]:
    assert isinstance(error, ReleaseDeniedError)
    assert error.code == "policy-not-met"
    return [check.id for check in error.checks]


@pytest.mark.parametrize("with_log", [False, True])
def test_a_conforming_td_gets_its_key_and_a_receipt(service: Harness, with_log: bool) -> None:
    workload = TdWorkload(with_log=with_log)
    challenge = service.releases.challenge()
    request = workload.request(challenge, "model")
    release = service.releases.release(request)
    assert open_release(workload, challenge, request, release, service) == {"model": MATERIAL}
    receipt = read_receipt(service.services.identity.public.verify(release.receipt))
    assert receipt["simulated"] is True
    (decision,) = service.decisions()
    assert decision["outcome"] == "allow"


def test_another_build_is_refused(service: Harness) -> None:
    assert failed(refused(service, TdWorkload(td=replace(TD, mr_td=b"\x01" * 48)), "model")) == ["policy.tdx.mr_td"]


def test_a_td_that_the_host_may_debug_is_refused(service: Harness) -> None:
    debugged = replace(TD, td_attributes=TD.td_attributes | 1)
    assert "policy.tdx.td_attributes.debug" in failed(refused(service, TdWorkload(td=debugged), "model"))


def test_a_platform_that_intel_calls_out_of_date_is_refused(service: Harness) -> None:
    old = SimulatedTd(platform=old_platform())
    assert failed(refused(service, TdWorkload(td=old), "model")) == [
        "policy.tdx.tcb_status",
        "policy.tdx.accepted_advisories",
    ]


def test_a_policy_can_tolerate_it_by_name(service: Harness) -> None:
    tolerant = """
  tcb_status: [UpToDate, OutOfDate]
  accepted_advisories:
    INTEL-SA-01036: {reason: "mitigated in the workload", expires: "2027-01-01T00:00:00Z"}
    INTEL-SA-01079: {reason: "mitigated in the workload", expires: "2027-01-01T00:00:00Z"}
"""
    service.add_key("tolerant", policy=tdx_policy_text(name="tolerant", more=tolerant))
    workload = TdWorkload(td=SimulatedTd(platform=old_platform()))
    challenge = service.releases.challenge()
    request = workload.request(challenge, "tolerant")
    release = service.releases.release(request)
    assert open_release(workload, challenge, request, release, service) == {"tolerant": MATERIAL}


def test_a_policy_for_one_vendor_is_none_for_the_other(service: Harness) -> None:
    service.add_key("amd", policy=policy_text())
    assert isinstance(refused(service, TdWorkload(), "amd"), ReleaseDeniedError)
    assert isinstance(refused(service, Workload(), "model"), ReleaseDeniedError)


def test_one_key_for_both_machines(service: Harness) -> None:
    """Each Attester is judged by the section of its kind."""
    section = tdx_policy_text().decode().partition("tdx:")[2]
    both = (
        policy_text(name="both")
        .decode()
        .replace(
            "reference_values:\n", f'reference_values:\n  td: {{values: ["{TD.mr_td.hex()}"], origin: the simulator}}\n'
        )
    )
    service.add_key("both", policy=(both + "tdx:" + section.replace("[good]", "[td]")).encode())
    for workload in (Workload(), TdWorkload()):
        challenge = service.releases.challenge()
        request = workload.request(challenge, "both")
        release = service.releases.release(request)
        assert open_release(workload, challenge, request, release, service) == {"both": MATERIAL}


def test_mc_1_a_challenge_counts_once(service: Harness) -> None:
    request = TdWorkload().request(service.releases.challenge(), "model")
    service.releases.release(request)
    with pytest.raises(ChallengeUsedError):
        service.releases.release(request)
    assert [decision["outcome"] for decision in service.decisions()] == ["allow"]


def test_mc_2_evidence_for_another_challenge_is_refused(service: Harness) -> None:
    error = refused(service, TdWorkload(nonce=b"\x07" * 32), "model")
    assert isinstance(error, BindingError)
    assert error.code == "nonce-mismatch"


def test_a_log_of_another_boot_is_refused_and_logged(service: Harness) -> None:
    class Forgetful(TdWorkload):
        def attest(self, binding: Binding) -> Evidence:
            honest = super().attest(binding)
            other = replace(self.td, log=typical_boot(secure_boot=False)).event_log()
            return replace(honest, items=(*honest.items[:2], replace(honest.items[2], value=other)))

    assert refused(service, Forgetful(with_log=True), "model").code == "eventlog-register-mismatch"


# -- what the service needs to have at hand


def test_without_collateral_nothing_is_decided_and_the_challenge_is_not_used_up(harness: Harness) -> None:
    harness.add_key("model", policy=tdx_policy_text())
    challenge = harness.releases.challenge()
    request = TdWorkload().request(challenge, "model")
    with pytest.raises(EndorsementError):
        harness.releases.release(request)
    assert harness.decisions() == []
    write_intel_collateral(harness.folder)
    harness.services.endorsements.reload(at=AT)
    release = harness.releases.release(request)
    assert open_release(TdWorkload(), challenge, request, release, harness) == {"model": MATERIAL}


def test_collateral_ends(service: Harness) -> None:
    service.clock.at = AT + timedelta(days=60)
    with pytest.raises(EndorsementError):
        service.releases.release(TdWorkload().request(service.releases.challenge(), "model"))


def test_raw_answers_of_the_pcs_serve_as_well(harness: Harness, tmp_path: Path) -> None:
    for name, data in TD.platform.collateral("tdx", at=AT).files().items():
        (tmp_path / "endorsements" / name).write_bytes(data)
    harness.services.endorsements.reload(at=AT)
    harness.add_key("model", policy=tdx_policy_text())
    challenge = harness.releases.challenge()
    request = TdWorkload().request(challenge, "model")
    release = harness.releases.release(request)
    assert open_release(TdWorkload(), challenge, request, release, harness) == {"model": MATERIAL}


def test_collateral_of_another_kind_of_machine_does_not_count(harness: Harness) -> None:
    write_intel_collateral(harness.folder, SimulatedPlatform.of(fmspc=b"OTHER\0"))
    harness.services.endorsements.reload(at=AT)
    harness.add_key("model", policy=tdx_policy_text())
    with pytest.raises(EndorsementError) as caught:
        harness.releases.release(TdWorkload().request(harness.releases.challenge(), "model"))
    assert caught.value.check == "tdx.tcb_info"


# -- over HTTP


def test_a_td_obtains_its_key_over_http_and_a_replay_is_409(service: Harness) -> None:
    with client_of(service) as http:
        client = KeyReleaseClient(http, service=service.services.identity.public)  # type: ignore[arg-type]  # a client all the same
        (key,) = client.release(("model",), attester=TdWorkload(with_log=True).attest)
        assert key.material == MATERIAL
        challenge = service.releases.challenge()
        request = TdWorkload().request(challenge, "model").to_json()
        answers = [http.post("/v1/releases", json=request) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 409]
    assert answers[1].json()["code"] == "challenge-used"
