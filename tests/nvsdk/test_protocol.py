"""Questions to NVIDIA's Python SDK, answered by a stand-in for its interpreter."""

import ast
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from attest.errors import CollectionError, ConfigurationError
from attest.nvsdk import SdkDevice, collect_with_sdk, examine, sdk_versions, time_sdk
from attest.nvsdk import worker as worker_module
from tests.nvsdk.conftest import Fake

AT = datetime(2026, 6, 1, tzinfo=UTC)
NONCE = bytes(range(32))
DEVICE = SdkDevice(
    kind="nvidia-gpu", architecture="hopper", report=b"\x11\xe0", chain_pem="PEM", rims={"driver": b"<a/>"}
)


def test_the_request_holds_what_their_functions_need(fake_sdk: Fake) -> None:
    answer = examine(DEVICE, at=AT, nonce=NONCE, environment=fake_sdk("tell(ok=request)"))
    assert answer.versions["nv-local-gpu-verifier"] == "2.7.3"
    assert answer.found == {
        "mode": "verify",
        "kind": "nvidia-gpu",
        "architecture": "hopper",
        "report": "11e0",
        "chain": "PEM",
        "rims": {"driver": b"<a/>".hex()},
        "at": "2026-06-01T00:00:00Z",
        "nonce": NONCE.hex(),
    }


def test_without_a_nonce_none_is_sent(fake_sdk: Fake) -> None:
    answer = examine(DEVICE, at=AT, nonce=None, environment=fake_sdk("tell(ok=request)"))
    assert answer.found["nonce"] is None


def test_a_measurement_asks_for_its_rounds(fake_sdk: Fake) -> None:
    answer = time_sdk(DEVICE, at=AT, nonce=NONCE, rounds=7, environment=fake_sdk("tell(ok=request)"))
    assert (answer.found["mode"], answer.found["rounds"]) == ("bench", 7)


def test_it_runs_in_a_folder_that_is_gone_afterwards_and_inherits_nothing(
    fake_sdk: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/nonexistent")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/driver")
    body = "open('verifier.log', 'w').write('x')\ntell(ok={'folder': os.getcwd(), 'environment': dict(os.environ)})"
    found = examine(DEVICE, at=AT, nonce=NONCE, environment=fake_sdk(body)).found
    folder = Path(str(found["folder"]))
    assert folder != Path.cwd()
    assert not folder.exists()
    assert found["environment"] == {"LC_ALL": "C.UTF-8", "HOME": str(folder), "LD_LIBRARY_PATH": "/opt/driver"}


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        (
            "tell(error={'outcome': 'raised', 'raised': 'ImportError', 'detail': 'no lxml'})",
            "nvsdk-unusable",
            "no lxml",
        ),
        ("print('noise')", "nvsdk-unusable", "no answer"),
        ("print('[]')", "nvsdk-unusable", "without versions"),
        ("print('{}')", "nvsdk-unusable", "without versions"),
        ("tell(ok=[1])", "nvsdk-unusable", "without versions"),
        ("sys.exit('broken')", "nvsdk-unusable", "broken"),
        ("os.kill(os.getpid(), 11)", "nvsdk-unusable", "exit -11"),
        ("print('x' * 2_000_000)", "nvsdk-unusable", "no answer"),
        ("time.sleep(60)", "nvsdk-timeout", "within 1"),
    ],
)
def test_an_sdk_that_does_not_answer_is_the_operators_to_mend(fake_sdk: Fake, body: str, code: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as caught:
        examine(DEVICE, at=AT, nonce=NONCE, environment=fake_sdk(body), seconds=1.5 if code == "nvsdk-timeout" else 60)
    assert caught.value.code == code
    assert caught.value.hint


def test_an_interpreter_that_cannot_be_started_is_said(fake_sdk: Fake) -> None:
    environment = fake_sdk("tell(ok={})")
    environment.python.chmod(0o644)
    environment.python.write_text("no program")
    with pytest.raises(ConfigurationError, match="cannot be started") as caught:
        sdk_versions(environment)
    assert caught.value.code == "nvsdk-unusable"


def test_what_the_collector_takes_gets_its_nonce(fake_sdk: Fake) -> None:
    body = "tell(ok={'devices': [{'arch': 'HOPPER', 'evidence': 'AA==', 'certificate': 'AA=='}]})"
    (device,) = collect_with_sdk(NONCE, environment=fake_sdk(body))
    assert device == {"arch": "HOPPER", "evidence": "AA==", "certificate": "AA==", "nonce": NONCE.hex()}


@pytest.mark.parametrize("body", ["tell(ok={'devices': []})", "tell(ok={})", "sys.exit(1)"])
def test_no_evidence_is_a_failure_of_collection(fake_sdk: Fake, body: str) -> None:
    with pytest.raises(CollectionError) as caught:
        collect_with_sdk(NONCE, environment=fake_sdk(body))
    assert (caught.value.code, caught.value.exit_code) == ("nvsdk-collection-failed", 6)


# -- the worker itself, as far as it goes without NVIDIA's packages


def test_the_worker_imports_the_standard_library_and_nvidias_packages_only() -> None:
    tree = ast.parse(Path(worker_module.__file__).read_text())
    named = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    named |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    tops = {name.partition(".")[0] for name in named}
    assert tops - set(sys.stdlib_module_names) == {"OpenSSL", "verifier", "nv_attestation_sdk"}


def test_whatever_their_functions_raise_is_their_finding() -> None:
    def leave() -> None:
        sys.exit(1)

    def fail() -> None:
        raise ValueError("the\n\tstory") from OSError("the cause")

    assert worker_module.step(leave)[0] == {"outcome": "raised", "raised": "SystemExit", "detail": "1"}
    assert worker_module.step(fail)[0] == {
        "outcome": "raised",
        "raised": "ValueError",
        "detail": "the story: the cause",
    }
    assert worker_module.judged(lambda: None) == {"outcome": "fail"}
    assert worker_module.judged(lambda: True) == {"outcome": "pass"}
    assert worker_module.chain_step(lambda: False) == {"outcome": "fail"}
    assert worker_module.chain_step(lambda: (True, False, "9999")) == {
        "outcome": "pass",
        "expired": False,
        "not_after": "9999",
    }


def test_an_interrupt_is_no_finding() -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        worker_module.step(interrupt)
