"""NVIDIA's collector and ours ask the same driver library and take the same."""

from pathlib import Path

import pytest

from attest.collect import collect_gpus
from attest.encoding import json_value
from attest.errors import CollectionError
from attest.evidence.gpu.evidence import parse_nvidia_device
from attest.evidence.gpu.forms import split_nvidia_json
from attest.nvsdk import NvsdkEnvironment, collect_with_sdk
from tests.collect.conftest import Machine, library, machine  # noqa: F401  fixtures

pytestmark = pytest.mark.nvsdk
pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed (extra gpu)")

NONCE = bytes.fromhex("4cff7f5380ead8fad8ec2c531c110aca4302a88f603792801a8ca29ee151af2e")


def test_both_collectors_take_the_same(
    real_sdk: NvsdkEnvironment,
    machine: Machine,  # noqa: F811
    vectors_dir: Path,
) -> None:
    import json

    folder = vectors_dir / "nvidia/gh100-545.00"
    report, chain = bytes.fromhex((folder / "report.hex").read_text()), (folder / "chain.pem").read_bytes()
    machine.has(0, report=report, chain=chain)
    theirs = collect_with_sdk(NONCE, environment=real_sdk)
    ((_, item),) = split_nvidia_json(json_value(json.dumps(theirs).encode(), what="file"))
    (ours,) = collect_gpus(NONCE, timeout=20)
    mine, parsed = parse_nvidia_device(ours.item()), parse_nvidia_device(item)
    assert parsed.report == mine.report
    assert parsed.chain == mine.chain  # theirs has the root of its own, which is the same certificate
    assert parsed.arch == mine.arch


def test_with_confidential_computing_off_neither_collects(
    real_sdk: NvsdkEnvironment,
    machine: Machine,  # noqa: F811
) -> None:
    machine.says(feature=0)
    with pytest.raises(CollectionError, match="confidential compute mode or PPCIE") as theirs:
        collect_with_sdk(NONCE, environment=real_sdk)
    with pytest.raises(CollectionError) as ours:
        collect_gpus(NONCE, timeout=20)
    assert (theirs.value.code, ours.value.code) == ("nvsdk-collection-failed", "gpu-cc-off")
