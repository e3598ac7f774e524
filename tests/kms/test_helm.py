"""Charts in `deploy/helm`: what they render is what the manifests say, and Kubernetes' own schemas accept it."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from attest.agent.config import parse_config
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
IDENTITY = "kms.example/prod+7dd6dcbb+AZJHlJ3l"


def rendered(chart: str, *settings: str, name: str = "kms") -> list[Parsed]:
    done = _helm(
        "template",
        "--kube-version",
        "1.33.0",
        name,
        str(CHARTS / chart),
        *[word for one in settings for word in ("--set-string", one)],
    )
    assert done.returncode == 0, done.stderr
    return [one for one in YAML(typ="safe", pure=True).load_all(done.stdout) if one]


def _helm(*words: str) -> subprocess.CompletedProcess[str]:
    assert HELM is not None, "ATTEST_REQUIRE_HELM=1, and there is no helm"
    return subprocess.run([HELM, *words], capture_output=True, text=True, timeout=120, check=False)


def one(found: list[Parsed], kind: str) -> Parsed:
    return next(each for each in found if each["kind"] == kind)


@needs_helm
@pytest.mark.parametrize("chart", ["kms", "attest-agent"])
def test_a_chart_is_without_fault_for_helm_itself(chart: str) -> None:
    more = ("--set", f"kms.identity={IDENTITY}") if chart == "attest-agent" else ()
    done = _helm("lint", "--strict", "--kube-version", "1.33.0", str(CHARTS / chart), *more)
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
def test_the_agent_of_a_node_has_rules_that_are_understood() -> None:
    found = rendered("attest-agent", f"kms.identity={IDENTITY}", name="agent")
    parse_config(one(found, "ConfigMap")["data"]["agent.toml"].encode(), read=lambda _: b"", folder=Path("/etc/attest"))
    (container,) = one(found, "DaemonSet")["spec"]["template"]["spec"]["containers"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert not {"env", "envFrom"} & container.keys()


@needs_helm
@pytest.mark.parametrize(
    ("chart", "setting"),
    [
        ("kms", "origin=no origin"),
        ("kms", "kek.backend=vault"),
        ("kms", "database.url=postgresql://kms:password@host/kms"),
        ("kms", "replica=3"),
        ("kms", "kek.transit.url=http://bao.example"),
        ("attest-agent", "kms.identity="),
        ("attest-agent", "kms.url=http://kms.example"),
    ],
)
def test_values_that_cannot_be_are_refused_before_anything_is_installed(chart: str, setting: str) -> None:
    more = ("--set", f"kms.identity={IDENTITY}") if chart == "attest-agent" else ()
    done = _helm("template", "--kube-version", "1.33.0", "x", str(CHARTS / chart), *more, "--set", setting)
    assert done.returncode != 0
    assert "values don't meet the specifications of the schema" in done.stderr
