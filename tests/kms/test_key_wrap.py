"""`kms key wrap`: the owner seals a key to a service that proved its machine first, where that is demanded."""

from pathlib import Path

import pytest

from attest.clock import system_clock
from attest.evidence.snp.tcb import SnpProduct
from attest.files import write_file
from attest_simulator import simulated_crl
from tests.kms.proving import POLICIES
from tests.kms.support import TD, policy_text
from tests.kms.test_cli import Shell, shell
from tests.kms.test_mutual_tls import Served, served

__all__ = ["served", "shell"]
pytestmark = pytest.mark.loopback


@pytest.fixture
def owner(shell: Shell, served: Served) -> tuple[str, ...]:
    """The owner's files, and the command up to its demands."""
    folder = shell.folder
    (folder / "import.txt").write_text(shell.run("key", "import-key", "--config", str(shell.config))[0])
    (folder / "machine.yaml").write_bytes(POLICIES[served.tee])
    (folder / "vendor").mkdir()
    (folder / "vendor" / "crl.der").write_bytes(simulated_crl(SnpProduct.GENOA, at=system_clock()))
    (folder / "vendor" / "intel.json").write_bytes(TD.platform.collateral("tdx", at=system_clock()).to_json())
    return (
        *("key", "wrap", "owned", "--to", str(folder / "import.txt"), "--service", served.process.identity),
        *("--from", str(shell.key), "--policy", str(shell.policy), "--out", str(folder / "owned.wrapped")),
    )


def demands(shell: Shell, served: Served, policy: str = "machine.yaml") -> tuple[str, ...]:
    return (
        *("--kms", f"https://127.0.0.1:{served.process.port}", "--tls-ca", str(served.ca / "ca.pem")),
        *("--expect-policy", str(shell.folder / policy), "--endorsements", str(shell.folder / "vendor")),
        *("--allow-simulated", "--offline"),
    )


def test_mc_30_a_key_is_sealed_to_a_service_that_proved_its_machine(
    shell: Shell, served: Served, owner: tuple[str, ...]
) -> None:
    _, err = shell.run(*owner, *demands(shell, served))
    assert "SIMULATED" in err
    assert "is not checked" not in err
    taken = ("--wrapped", str(shell.folder / "owned.wrapped"), "--policy", str(shell.policy))
    shell.run("key", "import", "owned", *taken, "--config", str(shell.config))


def test_mc_30_a_key_is_not_even_read_for_a_service_that_does_not_prove_what_is_demanded(
    shell: Shell, served: Served, owner: tuple[str, ...]
) -> None:
    (shell.folder / "other.yaml").write_bytes(policy_text(measurement=bytes(48)))
    shell.key.unlink()
    good = demands(shell, served)
    for wrong, code in (
        (demands(shell, served, "other.yaml"), "service-policy-not-met"),
        ((*good, "--expect-configuration", "00" * 32), "service-configuration-mismatch"),
        (tuple(one for one in good if one != "--allow-simulated"), ""),
    ):
        ended, _, err = shell.tried(*owner, *wrong)
        assert (ended in {1, 2}, f"[{code}" in err, "file-unreadable" in err) == (True, True, False), err
    assert "[file-unreadable]" in shell.run(*owner, *good, code=2)[1], "with the proof, the key is read"
    assert not (shell.folder / "owned.wrapped").exists()


@pytest.mark.parametrize(
    "half", [("--kms", "https://x"), ("--expect-policy", "p"), ("--offline",), ("--expect-configuration", "00")]
)
def test_half_a_demand_is_wrong_usage_and_none_is_said(shell: Shell, half: tuple[str, ...], tmp_path: Path) -> None:
    write_file(tmp_path / "import.txt", "x")
    wrap = ("key", "wrap", "owned", "--to", str(tmp_path / "import.txt"), "--service", "kms.test/cli+00000000+AA==")
    more = ("--from", str(shell.key), "--policy", str(shell.policy), "--out", str(tmp_path / "out"))
    assert "--kms and --expect-policy" in shell.run(*wrap, *more, *half, code=2)[1]
