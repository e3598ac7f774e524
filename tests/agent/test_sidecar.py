"""The sidecar in `deploy/`: what it names is there, and what it relaxes is made up for."""

import tomllib
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from ruamel.yaml import YAML

from attest.agent.config import AgentConfig, parse_config
from attest.cli.agent import agent as command
from attest.collect.tsm import CONFIGFS, IN_CONTAINER, REPORTS
from attest.session.settings import SessionSettings
from tests.sealed.made import OWNER, public_pem

Parsed: TypeAlias = Any  # whatever the file holds
MANIFEST = Path(__file__).resolve().parents[2] / "deploy" / "kubernetes-sidecar" / "pod.yaml"


def documents() -> dict[str, Parsed]:
    found = YAML(typ="safe", pure=True).load_all(MANIFEST.read_text(encoding="utf-8"))
    return {one["kind"]: one for one in found}


@pytest.fixture(scope="module")
def pod() -> Parsed:
    return documents()["Pod"]["spec"]


@pytest.fixture(scope="module")
def rules() -> AgentConfig:
    text = documents()["ConfigMap"]["data"]["agent.toml"].encode()
    return parse_config(text, read=lambda _: public_pem(OWNER), folder=Path("/etc/attest"))


def test_manifests_follow_kubernetes_own_schema() -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    for one in documents().values():
        kubernetes_validate.validate(one, kubernetes_validate.latest_version(), strict=True)


def test_the_agent_is_a_native_sidecar_that_runs_a_command_that_there_is(pod: Parsed, rules: AgentConfig) -> None:
    (sidecar,) = pod["initContainers"]
    assert sidecar["restartPolicy"] == "Always"
    known = {option for parameter in command.params for option in parameter.opts}
    for words in (
        sidecar["args"],
        sidecar["startupProbe"]["exec"]["command"][1:],
        sidecar["livenessProbe"]["exec"]["command"][1:],
    ):
        assert words[0] == "agent"
        assert {one for one in words if one.startswith("-")} <= known
        assert "/run/attest/agent.sock" in words
    assert pod["terminationGracePeriodSeconds"] > rules.limits.drain_seconds
    settings = tomllib.loads(documents()["ConfigMap"]["data"]["attest.toml"])["kms"]
    assert settings.keys() <= {"key", *SessionSettings.__dataclass_fields__}


def test_the_directory_that_nobody_checks_is_written_by_the_agent_alone(pod: Parsed, rules: AgentConfig) -> None:
    assert rules.socket.unchecked_directory is not None
    (sidecar,) = pod["initContainers"]
    for one in (sidecar, *pod["containers"]):
        (mount,) = [each for each in one["volumeMounts"] if each["name"] == "socket"]
        assert mount.get("readOnly", False) is (one is not sidecar)
    (volume,) = [one for one in pod["volumes"] if one["name"] == "socket"]
    assert volume["emptyDir"]["medium"] == "Memory"


def test_the_rules_mean_the_containers_of_the_pod_and_not_the_agent(pod: Parsed, rules: AgentConfig) -> None:
    users = {one["securityContext"]["runAsUser"] for one in pod["containers"]}
    assert {rule.uid for rule in rules.peers} == users
    (sidecar,) = pod["initContainers"]
    assert sidecar["securityContext"]["runAsUser"] not in users
    assert [str(one.reference) for one in rules.keys] == ["llama-70b"]


def test_the_agent_owns_what_it_asks_for_reports_and_has_no_capability_beside_that(pod: Parsed) -> None:
    (sidecar,) = pod["initContainers"]
    place = f"/{IN_CONTAINER / REPORTS}"
    (mount,) = [one for one in sidecar["volumeMounts"] if one["mountPath"] == place]
    assert mount.get("readOnly", False) is False
    assert not any(one["mountPath"].startswith("/sys") for one in sidecar["volumeMounts"]), "AppArmor denies that"
    assert sidecar["securityContext"]["runAsUser"] == 0, "configfs is root's"
    assert all(one["securityContext"].get("runAsUser") for one in pod["containers"])
    assert not any(mount["name"] == "tsm" for one in pod["containers"] for mount in one["volumeMounts"])
    (volume,) = [one for one in pod["volumes"] if one["name"] == "tsm"]
    assert volume["hostPath"]["path"] == f"/{CONFIGFS / REPORTS}"


def test_mc_33_the_pod_may_do_little_and_holds_no_secret_in_its_environment(pod: Parsed) -> None:
    assert (pod["automountServiceAccountToken"], pod["securityContext"]["runAsNonRoot"]) == (False, True)
    for one in (*pod["initContainers"], *pod["containers"]):
        assert not {"env", "envFrom"} & one.keys()
        assert one["securityContext"]["allowPrivilegeEscalation"] is False
        assert one["securityContext"]["readOnlyRootFilesystem"] is True
        assert one["securityContext"]["capabilities"] == {"drop": ["ALL"]}
