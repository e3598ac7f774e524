"""GPUs of this machine through a driver library made for the test: what is taken, and each way in which it fails."""

import time
from pathlib import Path

import pytest

from attest.collect import CollectedGpu, collect_gpus, gpu_state, set_gpus_ready
from attest.collect.nvml_errors import nvml_refused, nvml_unusable
from attest.errors import CollectionError
from tests.collect.conftest import CHAIN, Built, Machine, made_report, with_library

pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed (extra gpu)")

NONCE = bytes(range(32))
INIT = "nvmlInitWithFlags"
REPORT = "nvmlDeviceGetConfComputeGpuAttestationReport"
CERTIFICATE = "nvmlDeviceGetConfComputeGpuCertificate"
SETTINGS = "nvmlSystemGetConfComputeSettings"
READY = "nvmlSystemGetConfComputeGpusReadyState"


def refused(timeout: float = 20) -> CollectionError:
    with pytest.raises(CollectionError) as caught:
        collect_gpus(NONCE, timeout=timeout)
    assert caught.value.exit_code == 6
    assert caught.value.hint
    return caught.value


# -- what is taken


def test_report_and_chain_of_every_gpu_are_taken_under_the_nonce(machine: Machine) -> None:
    machine.says(count=3)
    found = collect_gpus(NONCE, timeout=20)
    assert [one.index for one in found] == [0, 1, 2]
    assert [one.uuid for one in found] == ["GPU-00000000", "GPU-00000001", "GPU-00000002"]
    for index, one in enumerate(found):
        assert isinstance(one, CollectedGpu)
        assert one.report == made_report(index)[:4] + NONCE + made_report(index)[36:]
        assert one.chain_pem == CHAIN
        assert (one.architecture, one.driver_version, one.vbios_version) == ("HOPPER", "575.57.08", "96.00.5E.00.01")
        assert one.settings.environment == "production"
        assert (one.settings.cc_mode, one.settings.dev_tools_mode, one.settings.ready) == (True, False, False)


def test_a_blackwell_gpu_in_protected_pcie_with_developer_tools(machine: Machine) -> None:
    machine.says(architecture=10, feature=0, multi=1, tools=1)
    (one,) = collect_gpus(NONCE, timeout=20)
    assert one.architecture == "BLACKWELL"
    assert (one.settings.cc_mode, one.settings.multi_gpu_mode, one.settings.dev_tools_mode) == (
        False,
        "protected-pcie",
        True,
    )


def test_a_terminator_that_the_driver_counts_is_no_part_of_the_chain(machine: Machine) -> None:
    machine.has(0, report=made_report(), chain=CHAIN + b"\0")
    assert collect_gpus(NONCE, timeout=20)[0].chain_pem == CHAIN


def test_an_older_driver_is_asked_by_the_older_call(
    library: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_library(library(SETTINGS, READY), tmp_path, monkeypatch)
    settings = collect_gpus(NONCE, timeout=20)[0].settings
    assert (settings.cc_mode, settings.multi_gpu_mode, settings.ready) == (True, "none", None)


@pytest.mark.parametrize("value", [3, 25])
def test_a_driver_that_does_not_support_the_newer_call_is_asked_by_the_older_one(machine: Machine, value: int) -> None:
    machine.says(**{SETTINGS: value, READY: 3})
    settings = gpu_state(timeout=20).settings
    assert (settings.cc_mode, settings.multi_gpu_mode, settings.ready) == (True, "none", None)


def test_a_nonce_of_another_length_is_wrong_use() -> None:
    for nonce in (b"", bytes(31), bytes(33)):
        with pytest.raises(ValueError, match="32 bytes"):
            collect_gpus(nonce)


def test_the_state_can_be_seen_without_any_report(machine: Machine) -> None:
    machine.says(count=2, feature=0, **{REPORT: "crash"})
    state = gpu_state(timeout=20)
    assert not state.attests
    assert [one.uuid for one in state.gpus] == ["GPU-00000000", "GPU-00000001"]


def test_a_gpu_that_cannot_attest_is_still_shown(machine: Machine) -> None:
    machine.says(architecture=8, feature=0)
    assert gpu_state(timeout=20).gpus[0].architecture == "NVML architecture 8"


def test_ready_is_set_only_when_asked(machine: Machine) -> None:
    collect_gpus(NONCE, timeout=20)
    assert gpu_state(timeout=20).settings.ready is False
    assert set_gpus_ready(timeout=20) is True
    assert gpu_state(timeout=20).settings.ready is True


def test_a_driver_that_forgets_the_ready_state_is_told(machine: Machine) -> None:
    machine.says(ready_is_forgotten=1)
    with pytest.raises(CollectionError) as caught:
        set_gpus_ready(timeout=20)
    assert caught.value.code == "gpu-not-ready"


def test_ready_is_unknown_where_it_can_be_set_and_not_read(machine: Machine) -> None:
    machine.says(**{READY: 3})
    assert set_gpus_ready(timeout=20) is None


# -- each way in which it fails


@pytest.mark.parametrize(
    ("says", "code"),
    [
        ({INIT: 9}, "nvml-driver-missing"),
        ({INIT: 4}, "nvml-permission-denied"),
        ({INIT: 18}, "nvml-library-mismatch"),
        ({INIT: 999}, "nvml-failed"),
        ({INIT: 12345}, "nvml-failed"),
        ({INIT: "crash"}, "nvml-crashed"),
        ({"count": 0}, "gpu-missing"),
        ({"feature": 0}, "gpu-cc-off"),
        ({"environment": 1}, "gpu-cc-simulated"),
        ({"environment": 0, "feature": 0}, "gpu-cc-off"),
        ({"architecture": 8}, "gpu-unsupported"),
        ({"architecture": 0xFFFFFFFF}, "gpu-unsupported"),
        ({SETTINGS: 4}, "nvml-permission-denied"),
        ({SETTINGS: 3, "nvmlSystemGetConfComputeState": 3}, "gpu-unsupported"),
        ({READY: 4}, "nvml-permission-denied"),
        ({CERTIFICATE: 3}, "gpu-unsupported"),
        ({CERTIFICATE: "crash"}, "nvml-crashed"),
        ({REPORT: 3}, "gpu-unsupported"),
        ({REPORT: 10}, "nvml-timeout"),
        ({REPORT: 15}, "gpu-lost"),
        ({REPORT: 16}, "gpu-lost"),
        ({REPORT: 27}, "gpu-not-ready"),
        ({REPORT: "crash"}, "nvml-crashed"),
        ({"nvmlShutdown": 999}, "nvml-failed"),
        ({"nonce_is_ignored": 1}, "gpu-nonce-ignored"),
        ({"new_uuid_each_time": 1}, "gpu-changed"),
        ({"report_size": 0}, "nvml-answer-invalid"),
        ({"report_size": 8193}, "nvml-answer-invalid"),
        ({"report_size": 4294967295}, "nvml-answer-invalid"),
        ({"report_size": 20}, "gpu-nonce-ignored"),
        ({"chain_size": 0}, "nvml-answer-invalid"),
        ({"chain_size": 5121}, "nvml-answer-invalid"),
        ({"environment": 3}, "nvml-answer-invalid"),
        ({"feature": 2}, "nvml-answer-invalid"),
        ({"tools": 7}, "nvml-answer-invalid"),
        ({"multi": 3}, "nvml-answer-invalid"),
        ({"driver_is_latin1": 1}, "nvml-answer-invalid"),
        ({"driver": "\x1b[2J"}, "nvml-answer-invalid"),
        ({"vbios": ""}, "nvml-answer-invalid"),
        ({"count": 33}, "nvml-answer-invalid"),
    ],
    ids=str,
)
def test_each_failure_has_its_name(machine: Machine, says: dict[str, object], code: str) -> None:
    machine.says(**says)
    assert refused().code == code


@pytest.mark.parametrize("step", [INIT, CERTIFICATE, REPORT])
def test_a_driver_that_never_answers_is_given_up_on(machine: Machine, step: str) -> None:
    machine.says(**{step: "hang"})
    started = time.monotonic()
    error = refused(timeout=1.5)
    assert error.code == "nvml-timeout"
    assert error.retryable
    assert time.monotonic() - started < 60


def test_a_failure_names_the_gpu_and_the_step(machine: Machine) -> None:
    machine.says(**{REPORT: 15})
    error = refused()
    assert error.field == "gpu[0]"
    assert REPORT in error.message


def test_a_driver_without_the_calls_of_attestation_is_too_old(
    library: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_library(library(REPORT), tmp_path, monkeypatch)
    assert refused().code == "nvml-function-missing"


def test_a_driver_without_any_call_about_confidential_computing_is_too_old(
    library: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_library(library(SETTINGS, "nvmlSystemGetConfComputeState"), tmp_path, monkeypatch)
    assert refused().code == "nvml-function-missing"


def test_without_a_driver_library_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_text("no library at all")  # the loader stops at it
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    assert refused().code == "nvml-library-missing"


def test_without_nvidia_ml_py_that_is_said(machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import sys

    monkeypatch.setattr(sys, "path", [path for path in sys.path if "site-packages" not in path])
    error = refused()
    assert error.code == "nvml-binding-missing"
    assert "attest-kms[gpu]" in (error.hint or "")


def test_another_nvidia_ml_py_without_the_names_is_too_old(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "pynvml.py").write_text("class NVMLError(Exception): ...\ndef nvmlInit(): ...\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert refused().code == "nvml-function-missing"


def test_a_broken_nvidia_ml_py_is_an_answer_that_cannot_be_read(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "pynvml.py").write_text("raise RuntimeError('broken')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    error = refused()
    assert error.code == "nvml-answer-invalid"
    assert "broken" in error.message


def test_no_child_process_is_a_failure_of_collection(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setattr(sys, "executable", str(machine.folder / "no-such-interpreter"))
    assert refused().code == "nvml-failed"


def test_the_child_inherits_nothing_that_changes_what_python_does(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PYTHONSTARTUP", "/nonexistent")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "json.py").write_text("raise RuntimeError('taken from PYTHONPATH')\n")
    assert collect_gpus(NONCE, timeout=20)


@pytest.mark.parametrize("value", [None, "9"])
def test_a_return_code_that_is_no_number_is_an_answer_that_cannot_be_read(value: str | None) -> None:
    error = nvml_refused({"step": "s", "value": value, "text": "t"}, None)
    assert error.code == "nvml-answer-invalid"


def test_the_last_words_of_the_library_are_told() -> None:
    assert nvml_unusable("nvml-crashed", "signal 11", "gpu[1]", "NVRM: Xid 79").message == (
        "gpu[1]: NVIDIA's driver library crashed (signal 11): NVRM: Xid 79"
    )
