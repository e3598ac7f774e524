"""The pod in `deploy/` that runs KServe's loader: its parts fit together, and the key stays in the pod."""

from pathlib import Path
from typing import Any, TypeAlias

import pytest
from ruamel.yaml import YAML

from attest.agent.cdh_config import DEFAULT_PORT
from attest.agent.config import AgentConfig, parse_config
from attest.cli.agent import agent as command
from attest.collect.tsm import CONFIGFS, REPORTS

Parsed: TypeAlias = Any  # whatever the file holds
MANIFEST = Path(__file__).resolve().parents[2] / "deploy" / "kubernetes-sidecar" / "kserve.yaml"
DOCUMENTS = {one["kind"]: one for one in YAML(typ="safe", pure=True).load_all(MANIFEST.read_text(encoding="utf-8"))}
POD: Parsed = DOCUMENTS["Pod"]["spec"]


@pytest.fixture
def rules() -> AgentConfig:
    text = DOCUMENTS["ConfigMap"]["data"]["agent.toml"].encode()
    return parse_config(text, read=lambda _: b"", folder=Path("/etc/attest"))


def test_manifests_follow_kubernetes_own_schema() -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    for one in DOCUMENTS.values():
        kubernetes_validate.validate(one, kubernetes_validate.latest_version(), strict=True)


def test_the_agent_runs_before_the_loader_and_keeps_running() -> None:
    sidecar, *others = POD["initContainers"]
    assert (sidecar["name"], sidecar["restartPolicy"]) == ("agent", "Always")
    assert not any("restartPolicy" in one for one in others)
    known = {option for parameter in command.params for option in parameter.opts}
    for words in (sidecar["args"], sidecar["startupProbe"]["exec"]["command"][1:]):
        assert words[0] == "agent"
        assert {one for one in words if one.startswith("-")} <= known


def test_the_loader_asks_for_what_the_rules_name(rules: AgentConfig) -> None:
    (loader,) = [one for one in POD["initContainers"] if one.get("command") == ["kserve-decrypt"]]
    resource = loader["args"][loader["args"].index("--resource-id") + 1]
    assert rules.cdh is not None
    assert {f"kbs:///{name}" for name in rules.cdh.resources} == {resource}
    assert rules.cdh.port == DEFAULT_PORT
    assert "CDH_ADDR" not in {one["name"] for one in loader.get("env", ())}
    assert POD.get("hostNetwork", False) is False  # the loopback is the pod's own


def test_only_the_agent_reaches_its_socket_and_the_hardware() -> None:
    for name in ("socket", "tsm", "settings"):
        users = [one["name"] for one in (*POD["initContainers"], *POD["containers"])
                 if name in {mount["name"] for mount in one["volumeMounts"]}]  # fmt: skip
        assert users == ["agent"], name
    (tsm,) = [one for one in POD["volumes"] if one["name"] == "tsm"]
    assert tsm["hostPath"]["path"] == f"/{CONFIGFS / REPORTS}"


def test_mc_33_the_pod_may_do_little_and_keeps_the_plaintext_in_memory() -> None:
    assert (POD["automountServiceAccountToken"], POD["securityContext"]["runAsNonRoot"]) == (False, True)
    for one in (*POD["initContainers"], *POD["containers"]):
        assert one["securityContext"]["allowPrivilegeEscalation"] is False
        assert one["securityContext"]["readOnlyRootFilesystem"] is True
        assert one["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    for volume in POD["volumes"]:
        assert volume.get("emptyDir", {}).get("medium", "Memory") == "Memory"
