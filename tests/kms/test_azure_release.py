"""Azure VMs before the key-release service: what they bind to is checked as of any machine, in both places."""

import json
from dataclasses import dataclass, field, replace

import pytest

from attest import Binding, EvidenceItem
from attest.errors import AttestError
from attest.evidence.envelope import MEDIA_AZURE_CVM, Evidence
from attest_simulator.azure import SimulatedAzureVm, SimulatedTdxHost
from attest_simulator.nvidia import SimulatedBoard, bound_evidence
from kms.domain.errors import ReleaseDeniedError
from tests.kms.support import (
    AT,
    MATERIAL,
    TD,
    Harness,
    Workload,
    open_release,
    policy_text,
    tdx_policy_text,
    write_intel_collateral,
)

SNP = SimulatedAzureVm.of()
TDX = SimulatedAzureVm.of(SimulatedTdxHost.of(TD.platform), name="VM 1")
VMS = pytest.mark.parametrize("vm", [SNP, TDX], ids=["snp", "tdx"])
ONE_GPU = SimulatedBoard.of("unit", gpus=1, switches=0)


@dataclass(frozen=True)
class AzureWorkload(Workload):
    """A VM that wants keys; what is wrong with its binding is a field."""

    vm: SimulatedAzureVm = field(default=SNP)
    board: SimulatedBoard | None = None
    extra_data: bytes | None = None
    user_data: bytes | None = None

    def attest(self, binding: Binding) -> Evidence:
        if self.board is not None:
            return bound_evidence(binding, self.board.devices, self.vm.items)
        honest = self.vm.evidence(binding)
        data = binding.report_data() if self.user_data is None else self.user_data
        extra = binding.extra_data() if self.extra_data is None else self.extra_data
        cpu = EvidenceItem(name="cpu", media_type=MEDIA_AZURE_CVM, value=self.vm.attest(extra, user_data=data).json())
        return replace(honest, items=(cpu, *honest.items[1:]))


@pytest.fixture
def service(harness: Harness) -> Harness:
    """A service that knows what AMD and Intel say of the hosts, with a key for either kind of bare machine."""
    write_intel_collateral(harness.folder)
    _, *issuers = SNP.host.endorsements(at=AT).certificates
    for number, certificate in enumerate(issuers):
        (harness.folder / "endorsements" / f"issuer{number}.der").write_bytes(certificate.der)
    for number, answer in enumerate(ONE_GPU.endorsements(at=AT).ocsp):
        (harness.folder / "endorsements" / f"status{number}.der").write_bytes(answer.der)
    for number, rim in enumerate(ONE_GPU.endorsements(at=AT).rims):
        (harness.folder / "endorsements" / f"rim{number}.xml").write_bytes(rim.xml)
    harness.services.endorsements.reload(at=AT)
    harness.add_key("model", policy=policy_text())
    harness.add_key("td-model", policy=tdx_policy_text())
    return harness


def refused(service: Harness, workload: AzureWorkload) -> AttestError:
    with pytest.raises(AttestError) as caught:
        service.releases.release(workload.request(service.releases.challenge(), "model"))
    assert service.decisions()[-1]["outcome"] == "deny"
    return caught.value


@VMS
@pytest.mark.parametrize("key", ["model", "td-model"])
def test_a_policy_for_bare_machines_is_none_for_a_vm_below_a_paravisor(
    service: Harness, vm: SimulatedAzureVm, key: str
) -> None:
    """Its measurement is of the paravisor: whoever allows it has allowed every system that runs on top."""
    with pytest.raises(ReleaseDeniedError) as caught:
        service.releases.release(AzureWorkload(vm=vm).request(service.releases.challenge(), key))
    failed = {check.id for check in caught.value.checks}
    assert failed
    assert all(check.startswith("policy.") for check in failed), failed


def test_so_it_is_with_a_gpu_beside_it(service: Harness) -> None:
    error = refused(service, AzureWorkload(board=ONE_GPU))
    assert isinstance(error, ReleaseDeniedError)
    assert all(check.id.startswith("policy.") for check in error.checks)


@VMS
@pytest.mark.parametrize("extra", [b"", bytes(48), bytes(32)], ids=["none", "zeros", "short"])
def test_a_tpm_that_was_asked_for_something_else_is_refused(
    service: Harness, vm: SimulatedAzureVm, extra: bytes
) -> None:
    """The user data alone is no freshness: the CPU's report may be of any time since the VM was started."""
    assert refused(service, AzureWorkload(vm=vm, extra_data=extra)).code == "binding-extra-data-mismatch"


@VMS
def test_user_data_that_commit_to_something_else_are_refused(service: Harness, vm: SimulatedAzureVm) -> None:
    assert refused(service, AzureWorkload(vm=vm, user_data=bytes(64))).code == "binding-report-data-mismatch"


@VMS
def test_mc_2_evidence_for_another_challenge_is_refused(service: Harness, vm: SimulatedAzureVm) -> None:
    assert refused(service, AzureWorkload(vm=vm, nonce=b"\x07" * 32)).code == "nonce-mismatch"


# -- a policy for such VMs


def azure_policy(vm: SimulatedAzureVm, *, gpus: bool = False) -> bytes:
    """A policy that a VM meets: the boot loader of its system, the paravisor, and perhaps one GPU."""
    tdx = isinstance(vm.host, SimulatedTdxHost)
    paravisor = vm.host.td.mr_td if isinstance(vm.host, SimulatedTdxHost) else vm.host.guest.measurement
    least = {"bootloader": 9, "tee": 0, "snp": 26, "microcode": 80}
    snp = {"products": ["Genoa"], "measurement": ["paravisor"], "minimum_tcb": {"Genoa": least}}
    document = {
        "schema": "attest.policy/1",
        "name": "unit-azure",
        "version": 1,
        "simulated": {"unchecked": "a test on the simulator"},
        "reference_values": {
            "paravisor": {"values": [paravisor.hex()], "origin": "the simulator"},
            "boot-loader": {"values": [vm.tpm.pcrs[4].hex()], "origin": "the simulator"},
        },
        "azure": {"pcr4": ["boot-loader"], "vm_configuration": {"console_enabled": {"unchecked": "a test"}}},
        "tdx" if tdx else "snp": {"mr_td": ["paravisor"]} if tdx else snp,
    }
    gpu = {
        "architectures": ["hopper"],
        "driver_versions": {"at_least": "570.86"},
        "vbios_versions": {"at_least": "96.00.5E.00.01"},
    }
    return json.dumps(document | ({"gpu": gpu} if gpus else {})).encode()


@VMS
def test_a_vm_that_meets_a_policy_for_it_gets_its_key(service: Harness, vm: SimulatedAzureVm) -> None:
    service.add_key("azure-model", policy=azure_policy(vm))
    workload, challenge = AzureWorkload(vm=vm), service.releases.challenge()
    request = workload.request(challenge, "azure-model")
    release = service.releases.release(request)
    assert open_release(workload, challenge, request, release, service) == {"azure-model": MATERIAL}
    assert service.decisions()[-1]["outcome"] == "allow"


@VMS
def test_a_vm_that_booted_something_else_gets_none(service: Harness, vm: SimulatedAzureVm) -> None:
    service.add_key("azure-model", policy=azure_policy(vm))
    other = replace(vm, tpm=vm.tpm.extend(4, b"\x01" * 32))
    with pytest.raises(ReleaseDeniedError) as caught:
        service.releases.release(AzureWorkload(vm=other).request(service.releases.challenge(), "azure-model"))
    assert {check.id for check in caught.value.checks} == {"policy.azure.pcr4"}


def test_a_vm_gets_its_key_with_its_gpu_and_not_without(service: Harness) -> None:
    service.add_key("gpu-model", policy=azure_policy(SNP, gpus=True))
    workload, challenge = AzureWorkload(board=ONE_GPU), service.releases.challenge()
    request = workload.request(challenge, "gpu-model")
    release = service.releases.release(request)
    assert open_release(workload, challenge, request, release, service) == {"gpu-model": MATERIAL}
    with pytest.raises(ReleaseDeniedError):
        service.releases.release(AzureWorkload().request(service.releases.challenge(), "gpu-model"))
