"""Charts in `deploy/helm`: what they render is what the manifests say, and Kubernetes' own schemas accept it."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from attest.agent.config import parse_config
from attest.collect.boot_log import CCEL, CCEL_IN_CONTAINER
from attest.collect.tsm import CONFIGFS, IN_CONTAINER, REPORTS
from kms.config.insecure_switches import require_strict
from kms.config.settings import load_settings
from tests.kms.test_deploy import MANIFESTS, documents

CHARTS = Path(__file__).resolve().parents[2] / "deploy" / "helm"
HELM = os.environ.get("ATTEST_HELM") or shutil.which("helm")
needs_helm = pytest.mark.skipif(
    HELM is None and os.environ.get("ATTEST_REQUIRE_HELM") != "1",
    reason="there is no helm here (go install helm.sh/helm/v3/cmd/helm@v3.17.3), and ATTEST_HELM names none",
)
Parsed = Any  # whatever a template renders
IMAGE = "registry.example/kms@sha256:" + 64 * "0"
IDENTITY = "kms.example/prod+7dd6dcbb+AZJHlJ3l"


def rendered(chart: str, *settings: str, name: str = "kms", values: Path | None = None) -> list[Parsed]:
    done = _helm(
        "template",
        "--kube-version",
        "1.33.0",
        name,
        str(CHARTS / chart),
        *(("--values", str(values)) if values else ()),
        *[word for one in (f"image={IMAGE}", *settings) for word in ("--set", one)],
    )
    assert done.returncode == 0, done.stderr
    return [one for one in YAML(typ="safe", pure=True).load_all(done.stdout) if one]


def _helm(*words: str) -> subprocess.CompletedProcess[str]:
    assert HELM is not None, "ATTEST_REQUIRE_HELM=1, and there is no helm"
    return subprocess.run([HELM, *words], capture_output=True, text=True, timeout=120, check=False)


def required(chart: str) -> list[str]:
    """Return the values that have no default."""
    given = [f"image={IMAGE}", *([f"kms.identity={IDENTITY}"] if chart == "attest-agent" else [])]
    return [word for one in given for word in ("--set", one)]


def one(found: list[Parsed], kind: str) -> Parsed:
    return next(each for each in found if each["kind"] == kind)


@needs_helm
@pytest.mark.parametrize("chart", ["kms", "attest-agent"])
def test_a_chart_is_without_fault_for_helm_itself(chart: str) -> None:
    done = _helm("lint", "--strict", "--kube-version", "1.33.0", str(CHARTS / chart), *required(chart))
    assert done.returncode == 0, done.stdout


@needs_helm
@pytest.mark.parametrize(
    ("chart", "settings"),
    [
        ("kms", ()),
        ("kms", ("kek.backend=transit", "kek.transit.namespace=team")),
        ("kms", ("kek.backend=pkcs11",)),
        ("attest-agent", (f"kms.identity={IDENTITY}",)),
    ],
)
def test_what_a_chart_renders_follows_kubernetes_own_schema(chart: str, settings: tuple[str, ...]) -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    found = rendered(chart, *settings)
    assert found
    for each in found:
        kubernetes_validate.validate(each, kubernetes_validate.latest_version(), strict=True)


@needs_helm
def test_the_chart_renders_the_pods_and_the_policy_of_the_manifests() -> None:
    found = rendered("kms")
    manifests = [document for path in MANIFESTS for document in documents(path)]
    assert one(found, "ConfigMap")["data"] == one(manifests, "ConfigMap")["data"]
    assert one(found, "NetworkPolicy")["spec"] == one(manifests, "NetworkPolicy")["spec"]
    assert one(found, "PodDisruptionBudget")["spec"] == one(manifests, "PodDisruptionBudget")["spec"]
    pods = [one(each, "Deployment")["spec"]["template"]["spec"] for each in (found, manifests)]
    for key in ("securityContext", "topologySpreadConstraints", "automountServiceAccountToken", "enableServiceLinks"):
        assert pods[0][key] == pods[1][key]
    served = [pod["containers"][0] for pod in pods]
    for key in ("args", "ports", "lifecycle", "startupProbe", "livenessProbe", "readinessProbe", "securityContext"):
        assert served[0][key] == served[1][key]


@needs_helm
@pytest.mark.parametrize(("chart", "given"), [("kms", ()), ("attest-agent", ("--set", f"kms.identity={IDENTITY}"))])
def test_no_image_is_taken_from_a_registry_of_others_by_default(chart: str, given: tuple[str, ...]) -> None:
    done = _helm("template", "--kube-version", "1.33.0", "x", str(CHARTS / chart), *given)
    assert "- image: " in done.stderr


@needs_helm
@pytest.mark.parametrize("backend", ["file", "pkcs11", "transit"])
def test_the_settings_of_each_back_end_are_strict_ones_of_this_version(backend: str, tmp_path: Path) -> None:
    found = rendered("kms", f"kek.backend={backend}")
    path = tmp_path / "kms.toml"
    path.write_text(one(found, "ConfigMap")["data"]["kms.toml"], encoding="utf-8")
    settings = load_settings(flags={}, environ={}, config=path).settings
    require_strict(settings)
    assert settings.is_production
    copied = one(found, "Deployment")["spec"]["template"]["spec"]["initContainers"][0]["command"][-1]
    secret = {"file": "kek", "pkcs11": "pin", "transit": "token"}[backend]
    assert f"/run/secrets/kek/{secret} " in copied


@needs_helm
def test_the_unauthenticated_metrics_are_no_part_of_the_service_that_a_load_balancer_publishes() -> None:
    found = rendered("kms", "service.type=LoadBalancer", "serviceMonitor.enabled=true")
    services = {each["metadata"]["name"]: each for each in found if each["kind"] == "Service"}
    assert [port["name"] for port in services["kms"]["spec"]["ports"]] == ["https"]
    metrics = services["kms-metrics"]
    assert metrics["spec"]["clusterIP"] == "None"
    assert [port["name"] for port in metrics["spec"]["ports"]] == ["metrics"]
    wanted = one(found, "ServiceMonitor")["spec"]["selector"]["matchLabels"].items()
    assert [name for name, each in services.items() if wanted <= each["metadata"]["labels"].items()] == ["kms-metrics"]


@needs_helm
def test_the_network_policy_permits_the_port_of_the_database() -> None:
    found = rendered("kms", "database.url=postgresql://kms@db.example:6432/kms?sslmode=verify-full")
    assert one(found, "NetworkPolicy")["spec"]["egress"][0]["ports"] == [{"protocol": "TCP", "port": 6432}]


@needs_helm
@pytest.mark.parametrize("chart", ["kms", "attest-agent"])
def test_every_object_carries_the_labels_that_kubernetes_recommends(chart: str) -> None:
    for each in rendered(chart, *([f"kms.identity={IDENTITY}"] if chart == "attest-agent" else [])):
        labels = each["metadata"]["labels"]
        assert labels["app.kubernetes.io/instance"] == "kms"
        assert labels["app.kubernetes.io/managed-by"] == "Helm"
        assert labels["helm.sh/chart"] == f"{chart}-0.1.0"


@needs_helm
def test_the_pods_go_to_the_nodes_that_the_values_name_with_the_volumes_that_they_add(tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(
        """
nodeSelector: {confidential: "true"}
tolerations: [{key: confidential, operator: Exists}]
priorityClassName: critical
annotations: {reloader.stakater.com/auto: "true"}
podAnnotations: {example.com/owner: keys}
volumes: [{name: hsm, configMap: {name: hsm}}]
volumeMounts: [{name: hsm, mountPath: /etc/hsm, readOnly: true}]
""",
        encoding="utf-8",
    )
    deployment = one(rendered("kms", values=values), "Deployment")
    pod = deployment["spec"]["template"]
    assert deployment["metadata"]["annotations"] == {"reloader.stakater.com/auto": "true"}
    assert pod["metadata"]["annotations"]["example.com/owner"] == "keys"
    assert pod["spec"]["nodeSelector"] == {"confidential": "true"}
    assert pod["spec"]["tolerations"] == [{"key": "confidential", "operator": "Exists"}]
    assert pod["spec"]["priorityClassName"] == "critical"
    assert pod["spec"]["volumes"][-1] == {"name": "hsm", "configMap": {"name": "hsm"}}
    assert pod["spec"]["containers"][0]["volumeMounts"][-1]["mountPath"] == "/etc/hsm"


@needs_helm
def test_the_agent_of_a_node_has_rules_that_are_understood() -> None:
    found = rendered("attest-agent", f"kms.identity={IDENTITY}", name="agent")
    parse_config(one(found, "ConfigMap")["data"]["agent.toml"].encode(), read=lambda _: b"", folder=Path("/etc/attest"))
    (container,) = one(found, "DaemonSet")["spec"]["template"]["spec"]["containers"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert not {"env", "envFrom"} & container.keys()


@needs_helm
def test_the_agent_in_a_pod_is_a_native_sidecar_that_asks_for_reports_through_a_claim(tmp_path: Path) -> None:
    chart = tmp_path / "inference"
    shutil.copytree(CHARTS, tmp_path, dirs_exist_ok=True)
    assert _helm("dependency", "build", str(chart)).returncode == 0
    given = [f"attest-agent.{each}" for each in (f"image={IMAGE}", f"kms.identity={IDENTITY}")]
    found = rendered(str(chart), *given)
    parse_config(one(found, "ConfigMap")["data"]["agent.toml"].encode(), read=lambda _: b"", folder=Path("/etc/attest"))
    pod = one(found, "Deployment")["spec"]["template"]["spec"]
    (agent,) = pod["initContainers"]
    assert agent["restartPolicy"] == "Always"
    assert f"/{IN_CONTAINER / REPORTS}" in {mount["mountPath"] for mount in agent["volumeMounts"]}
    assert not any("hostPath" in volume for volume in pod["volumes"])
    claims = [each["persistentVolumeClaim"]["claimName"] for each in pod["volumes"] if "persistentVolumeClaim" in each]
    assert claims == [one(found, "PersistentVolumeClaim")["metadata"]["name"]]
    assert one(found, "PersistentVolume")["spec"]["hostPath"]["path"] == f"/{CONFIGFS / REPORTS}"
    logged = rendered(str(chart), *given, "attest-agent.eventLog=true")
    (agent,) = one(logged, "Deployment")["spec"]["template"]["spec"]["initContainers"]
    assert f"/{CCEL_IN_CONTAINER.parent}" in {mount["mountPath"] for mount in agent["volumeMounts"]}
    folders = [each["spec"]["hostPath"]["path"] for each in logged if each["kind"] == "PersistentVolume"]
    assert sorted(folders) == sorted([f"/{CONFIGFS / REPORTS}", f"/{CCEL.parent}"])
    (container,) = pod["containers"]
    (socket,) = [mount for mount in container["volumeMounts"] if mount["name"] == "agent-socket"]
    assert socket["readOnly"] is True


@needs_helm
@pytest.mark.parametrize(
    ("chart", "setting"),
    [
        ("kms", "image="),
        ("kms", "image=https://registry.example/kms"),
        ("kms", "image=registry.example/kms@sha256:0"),
        ("kms", "imagePullSecrets[0].name=No_Secret"),
        ("kms", "kek.secret=No_Secret"),
        ("kms", "database.passwordSecret=No_Secret"),
        ("kms", "database.caConfigMap=No_Map"),
        ("kms", "tls.secret=No_Secret"),
        ("kms", "guard.claim=No_Claim"),
        ("kms", "disruptionBudget.maxUnavailable=most"),
        ("kms", "origin=no origin"),
        ("kms", "kek.backend=vault"),
        ("kms", "database.url=postgresql://kms:password@host/kms"),
        ("kms", "replica=3"),
        ("kms", "kek.transit.url=http://bao.example"),
        ("attest-agent", "image="),
        ("attest-agent", "image=Kms"),
        ("attest-agent", "imagePullSecrets[0].name=No_Secret"),
        ("attest-agent", "mode=both"),
        ("attest-agent", "kms.caConfigMap=No_Map"),
        ("attest-agent", "reportsClaim=No_Claim"),
        ("attest-agent", "kms.identity="),
        ("attest-agent", "kms.url=http://kms.example"),
    ],
)
def test_values_that_cannot_be_are_refused_before_anything_is_installed(chart: str, setting: str) -> None:
    words = ("template", "--kube-version", "1.33.0", "x", str(CHARTS / chart))
    done = _helm(*words, *required(chart), "--set", setting)
    assert done.returncode != 0
    assert "values don't meet the specifications of the schema" in done.stderr
