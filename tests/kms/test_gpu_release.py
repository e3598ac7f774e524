"""Keys for a simulated CVM with GPUs: one decision over the CPU and every GPU, under one challenge."""

from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

import pytest

from attest import Binding
from attest.errors import AttestError, BindingError, EndorsementError, EvidenceError, VerificationError
from attest.evidence.envelope import MEDIA_BINDING, MEDIA_SNP_EXTENDED, Evidence, EvidenceItem
from attest.release.receipts import read_receipt
from attest_simulator.nvidia import SimulatedBoard
from kms.domain.errors import ReleaseDeniedError
from tests.kms.support import AT, MATERIAL, Harness, Workload, open_release, policy_text

GPU_POLICY = """
gpu:
  architectures: [hopper]
  driver_versions: {{at_least: "570.86"}}
  vbios_versions: {{at_least: "96.00.5E.00.01", below: "97"}}
{gpu_more}
devices:
  gpus: {gpus}
{devices_more}
"""


def gpu_policy(gpus: int, *, switches: int = 0, gpu_more: str = "", devices_more: str = "") -> bytes:
    more = GPU_POLICY.format(gpus=gpus, gpu_more=gpu_more, devices_more=devices_more)
    if switches:
        demands = "nvswitch:\n  vbios_versions: {at_least: '96.10'}\n"
        more = more.replace("devices:\n", f"{demands}devices:\n  switches: {switches}\n")
    return policy_text(name="unit-gpu", more=more)


@dataclass(frozen=True)
class GpuWorkload(Workload):
    """A simulated guest with GPUs that wants keys; what is wrong with its devices is a field."""

    board: SimulatedBoard = field(default_factory=lambda: SimulatedBoard.of("unit", gpus=1, switches=0))
    bound: SimulatedBoard | None = None
    """The board that the binding lists, when it is another one than the evidence shows."""
    device_nonce: bytes | None = None

    def attest(self, binding: Binding) -> Evidence:
        nonce = binding.gpu_nonce() if self.device_nonce is None else self.device_nonce
        shown = self.board.items(nonce)
        listed = shown if self.bound is None else self.bound.items(nonce)
        digests = tuple(item.digest for item in sorted(listed, key=lambda item: item.name))
        return self.with_devices(replace(binding, devices=digests), shown)

    def with_devices(self, binding: Binding, items: tuple[EvidenceItem, ...]) -> Evidence:
        report = self.guest.extended_report(binding.report_data())
        return Evidence(
            items=(
                EvidenceItem(name="cpu", media_type=MEDIA_SNP_EXTENDED, value=report),
                *items,
                EvidenceItem(name="binding", media_type=MEDIA_BINDING, value=binding.to_bytes()),
            )
        )


def write_gpu_endorsements(folder: Path, board: SimulatedBoard, *, at: datetime = AT) -> None:
    """Put the RIMs and the revocation answers for a board among the service's endorsements, as operators do."""
    found = board.endorsements(at=at)
    for number, rim in enumerate(found.rims):
        (folder / "endorsements" / f"rim{number}.xml").write_bytes(rim.xml)
    for number, answer in enumerate(found.ocsp):
        (folder / "endorsements" / f"status{number}.der").write_bytes(answer.der)


def prepared(harness: Harness, board: SimulatedBoard, policy: bytes) -> Harness:
    write_gpu_endorsements(harness.folder, board)
    harness.services.endorsements.reload(at=AT)
    harness.add_key("model", policy=policy)
    return harness


ONE = SimulatedBoard.of("unit", gpus=1, switches=0)
EIGHT = SimulatedBoard.of("unit", gpus=8, switches=0)
OTHER = SimulatedBoard.of("another machine", gpus=8, switches=0)


@pytest.fixture
def service(harness: Harness) -> Harness:
    return prepared(harness, EIGHT, gpu_policy(8))


def refused(service: Harness, workload: Workload) -> AttestError:
    with pytest.raises(AttestError) as caught:
        service.releases.release(workload.request(service.releases.challenge(), "model"))
    assert not isinstance(caught.value, EndorsementError)
    assert service.decisions()[-1]["outcome"] == "deny"
    return caught.value


def failed(error: AttestError) -> list[str]:
    assert isinstance(error, ReleaseDeniedError)
    return list(dict.fromkeys(check.id for check in error.checks))


@pytest.mark.parametrize(
    ("gpus", "switches"), [(1, 0), (8, 0), (8, 4)], ids=["one GPU", "eight GPUs", "eight GPUs and four switches"]
)
def test_a_conforming_machine_gets_its_key_and_a_receipt(harness: Harness, gpus: int, switches: int) -> None:
    board = SimulatedBoard.of("unit", gpus=gpus, switches=switches)
    mode = "  modes: [protected-pcie]" if switches else ""
    service = prepared(harness, board, gpu_policy(gpus, switches=switches, gpu_more=mode))
    workload = GpuWorkload(board=board)
    challenge = service.releases.challenge()
    request = workload.request(challenge, "model")
    release = service.releases.release(request)
    assert open_release(workload, challenge, request, release, service) == {"model": MATERIAL}
    assert read_receipt(service.services.identity.public.verify(release.receipt))["simulated"] is True
    assert service.decisions()[-1]["outcome"] == "allow"


def without(board: SimulatedBoard, index: int) -> SimulatedBoard:
    return replace(board, gpus=(*board.gpus[:index], *board.gpus[index + 1 :]))


def with_gpu(board: SimulatedBoard, index: int, other: SimulatedBoard, of: int) -> SimulatedBoard:
    return replace(board, gpus=(*board.gpus[:index], other.gpus[of], *board.gpus[index + 1 :]))


@pytest.mark.parametrize("index", range(8))
def test_any_one_gpu_missing_is_refused(service: Harness, index: int) -> None:
    # Left out behind the CPU's back, the binding tells; left out by the workload itself, the policy's count does.
    hidden = GpuWorkload(board=without(EIGHT, index), bound=EIGHT)
    error = refused(service, hidden)
    assert error.code == "binding-devices-mismatch"
    assert failed(refused(service, GpuWorkload(board=without(EIGHT, index)))) == ["policy.devices.gpus"]


@pytest.mark.parametrize("index", [0, 7])
def test_any_one_gpu_exchanged_is_refused(service: Harness, index: int) -> None:
    exchanged = with_gpu(EIGHT, index, OTHER, index)
    assert refused(service, GpuWorkload(board=exchanged, bound=EIGHT)).code == "binding-devices-mismatch"


@pytest.mark.parametrize("index", [0, 6])
def test_one_gpu_twice_is_refused_even_when_the_cpu_commits_to_it(service: Harness, index: int) -> None:
    twice = with_gpu(EIGHT, 7, EIGHT, index)
    error = refused(service, GpuWorkload(board=twice))
    assert isinstance(error, BindingError)
    assert error.check == "device.unique"
    # And with the two in each other's place in the binding.
    swapped = replace(EIGHT, gpus=(EIGHT.gpus[1], EIGHT.gpus[0], *EIGHT.gpus[2:]))
    assert refused(service, GpuWorkload(board=swapped, bound=EIGHT)).code == "binding-devices-mismatch"


def test_gpus_of_another_challenge_are_refused(service: Harness) -> None:
    earlier = service.releases.challenge()
    stale = GpuWorkload().binding(earlier).gpu_nonce()
    for nonce in (stale, earlier.nonce, bytes(32)):
        error = refused(service, GpuWorkload(board=EIGHT, device_nonce=nonce))
        assert error.code == "device-nonce-mismatch"


def test_one_gpu_of_another_challenge_among_fresh_ones_is_refused(service: Harness) -> None:
    workload = GpuWorkload(board=EIGHT)
    challenge = service.releases.challenge()
    binding = workload.binding(challenge)
    old = EIGHT.items(workload.binding(service.releases.challenge()).gpu_nonce())
    items = (*EIGHT.items(binding.gpu_nonce())[:7], old[7])
    evidence = workload.with_devices(replace(binding, devices=tuple(item.digest for item in items)), items)
    request = replace(workload.request(challenge, "model"), evidence=evidence)
    with pytest.raises(BindingError) as caught:
        service.releases.release(request)
    assert caught.value.code == "device-nonce-mismatch"


def test_a_cpu_report_that_commits_to_no_devices_is_refused(service: Harness) -> None:
    none = replace(EIGHT, gpus=())
    assert refused(service, GpuWorkload(board=EIGHT, bound=none)).code == "binding-devices-mismatch"
    assert "policy.devices.gpus" in failed(refused(service, Workload()))


def test_a_policy_without_gpus_does_not_release_to_a_machine_that_shows_some(harness: Harness) -> None:
    service = prepared(harness, ONE, policy_text())
    assert failed(refused(service, GpuWorkload(board=ONE))) == ["policy.kind"]


@pytest.mark.parametrize("at", [0, 4, 40, 60, 1000, -97, -1])
def test_every_part_of_a_gpu_report_counts(service: Harness, at: int) -> None:
    workload = GpuWorkload(board=EIGHT)
    challenge = service.releases.challenge()
    binding = workload.binding(challenge)
    gpu, items = EIGHT.gpus[0], EIGHT.items(binding.gpu_nonce())
    report = bytearray(gpu.report(binding.gpu_nonce()))
    report[at] ^= 1
    changed = (replace(items[0], value=gpu.device_item(binding.gpu_nonce(), report=bytes(report))), *items[1:])
    digests = tuple(item.digest for item in changed)
    evidence = workload.with_devices(replace(binding, devices=digests), changed)
    with pytest.raises((EvidenceError, VerificationError)):
        service.releases.release(replace(workload.request(challenge, "model"), evidence=evidence))
    assert service.decisions()[-1]["outcome"] == "deny"


def test_missing_manifests_are_no_decision(harness: Harness) -> None:
    harness.add_key("model", policy=gpu_policy(1))
    with pytest.raises(EndorsementError) as caught:
        harness.releases.release(GpuWorkload(board=ONE).request(harness.releases.challenge(), "model"))
    assert caught.value.exit_code == 5


def test_an_old_driver_is_refused_by_the_policy(harness: Harness) -> None:
    board = SimulatedBoard.of("unit", gpus=1, switches=0, driver="550.90.07")
    service = prepared(harness, board, gpu_policy(1))
    assert failed(refused(service, GpuWorkload(board=board))) == ["policy.gpu.driver_versions"]
