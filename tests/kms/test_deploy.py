"""What lies in `deploy/`: it names flags, settings, files, ports and metrics that there are, and nothing else."""

import configparser
import json
import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from kms.api.app import describe
from kms.cli.main import cli
from kms.config.insecure_switches import relaxed_switches, require_strict
from kms.config.settings import Settings, load_settings
from kms.operations.guards.opening import guard_places
from kms.running.workers import KILL_MARGIN_SECONDS
from tests.kms.support import documented_metrics
from tests.pages import page_text

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
UNIT = DEPLOY / "systemd" / "kms.service"
DOCKERFILE = DEPLOY / "docker" / "Dockerfile"
USER = 65532
COPIED = {"--from=build", "/opt/kms"}


def documents(path: Path) -> list[Any]:  # whatever the file holds
    return [one for one in YAML(typ="safe", pure=True).load_all(path.read_text(encoding="utf-8")) if one]


def manifest(kind: str) -> Any:  # noqa: ANN401  as above
    return next(one for path in MANIFESTS for one in documents(path) if one["kind"] == kind)


def require_command(arguments: list[str]) -> None:
    """Demand that `kms` has this command with these flags, and needs no more."""
    command: Any = cli
    while arguments and not arguments[0].startswith("-"):
        command = command.commands[arguments.pop(0)]
    flags = {flag for parameter in command.params for flag in parameter.opts}
    assert {one for one in arguments if one.startswith("-")} <= flags


def require_production(text: str, folder: Path) -> Settings:
    path = folder / "kms.toml"
    path.write_text(text, encoding="utf-8")
    settings = load_settings(flags={}, environ={}, config=path).settings
    require_strict(settings)
    assert settings.is_production
    assert relaxed_switches(settings) == {}
    return settings


def guarded_in(settings: Settings) -> set[str]:
    """The folders that the rollback guard lies in."""
    (guard,) = guard_places(settings)
    return {str(folder) for folder in Path(guard.place).parents} - {"/"}


# -- systemd


def unit() -> configparser.SectionProxy:
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment, method-assign]  # names keep their case, as systemd has them
    parser.read_string(UNIT.read_text(encoding="utf-8"))
    return parser["Service"]


def test_the_unit_runs_commands_that_there_are_and_gives_them_time_to_end() -> None:
    service = unit()
    for key in ("ExecStart", "ExecStartPre"):
        words = service[key].split()
        assert words[0] == "/opt/kms/bin/kms"
        require_command(words[1:])
    assert int(service["TimeoutStopSec"]) > Settings.model_fields["drain_seconds"].default + KILL_MARGIN_SECONDS
    assert service["KillMode"] == "mixed"
    assert service["RestartPreventExitStatus"] == "2"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NoNewPrivileges", "yes"),
        ("ProtectSystem", "strict"),
        ("ProtectHome", "yes"),
        ("LimitCORE", "0"),
        ("CapabilityBoundingSet", ""),
        ("UMask", "0077"),
        ("MemorySwapMax", "0"),
        ("PrivateTmp", "yes"),
    ],
)
def test_mc_33_the_unit_keeps_the_service_to_itself(name: str, value: str) -> None:
    assert unit()[name] == value


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze here (Debian: systemd)"
)
def test_systemd_understands_the_unit_and_finds_little_exposed(tmp_path: Path) -> None:
    text = UNIT.read_text(encoding="utf-8").replace("/opt/kms/bin/kms", "/bin/true")
    text = text.replace("User=kms", "User=daemon").replace("Group=kms", "Group=daemon")
    (tmp_path / "kms.service").write_text(text, encoding="utf-8")
    path = str(tmp_path / "kms.service")
    understood = subprocess.run(
        ["systemd-analyze", "verify", path], capture_output=True, text=True, timeout=60, check=False
    )
    assert (understood.returncode, [line for line in understood.stderr.splitlines() if "kms.service" in line]) == (
        0,
        [],
    )
    exposed = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=20", path],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert exposed.returncode == 0, exposed.stdout[-200:]


# -- image and Compose


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"\\\n\s*", "", DOCKERFILE.read_text(encoding="utf-8"))
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in lines]


def test_the_image_is_made_of_pinned_packages_and_runs_as_nobody() -> None:
    found = instructions()
    copied = [words.split()[:-1] for name, words in found if name == "COPY" and not words.startswith("--from")]
    for source in (one for words in copied for one in words):
        assert (ROOT / source).exists(), source
    runs = [part for name, words in found if name == "RUN" for part in words.split("&&") if " -m pip " in part]
    assert len(runs) == 3
    assert all("--require-hashes" in one or "--no-deps --no-index" in one for one in runs)
    assert [words for name, words in found if name == "USER"] == [f"{USER}:{USER}"]
    assert found[-2:] == [
        ("ENTRYPOINT", '["/opt/kms/bin/kms"]'),
        ("CMD", '["serve", "--config", "/etc/kms/kms.toml"]'),
    ]
    require_command(json.loads(found[-1][1]))
    assert sum(name == "FROM" for name, _ in found) == 2


def test_every_variant_of_the_image_has_a_lock_file_and_a_check() -> None:
    (variants,) = re.findall(r"^# Any of: (.*)\.$", DOCKERFILE.read_text(encoding="utf-8"), re.MULTILINE)
    names = re.findall(r"(\w+) \(", variants)
    check = (DEPLOY / "image" / "check").read_text(encoding="utf-8")
    assert names == ["models", "s3", "tpm"]
    for name in names:
        assert (ROOT / "requirements" / f"{name}.txt").is_file()
        assert re.search(rf"^ +{name}\) modules=", check, re.MULTILINE)


@pytest.mark.parametrize("name", ["base", "build", "check"])
def test_the_scripts_of_the_image_are_programs_that_bash_can_read(name: str) -> None:
    script = DEPLOY / "image" / name
    assert os.access(script, os.X_OK)
    subprocess.run(["bash", "-n", str(script)], check=True)


def test_mc_33_no_secret_reaches_the_builder() -> None:
    for name, words in instructions():
        assert not (name in {"ENV", "ARG"} and re.search(r"password|secret|token|key", words, re.IGNORECASE))
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    kept = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    assert "*" in ignored
    assert kept == {word for name, words in instructions() if name == "COPY" for word in words.split()[:-1]} - COPIED


def test_compose_names_what_there_is(tmp_path: Path) -> None:
    (compose,) = documents(DEPLOY / "compose.yaml")
    service = compose["services"]["kms"]
    require_command(list(service["command"]))
    assert (ROOT / "deploy" / service["build"]["context"] / service["build"]["dockerfile"]).samefile(DOCKERFILE)
    settings = require_production((DEPLOY / "docker" / "kms.toml").read_text(encoding="utf-8"), tmp_path)
    assert service["ports"] == [f"127.0.0.1:{settings.port}:{settings.port}"]
    mounted = {volume.split(":")[1] for volume in service["volumes"]}
    assert str(settings.cache_directory) in mounted
    assert settings.kek_file is not None
    assert str(settings.kek_file.parent) in mounted
    assert guarded_in(settings) & mounted
    secrets = {f"/run/secrets/{name}" for name in service["secrets"]}
    files = {settings.tls_certificate_file, settings.tls_key_file, settings.database_password_file}
    assert {str(path) for path in files} == secrets
    assert set(service["secrets"]) <= set(compose["secrets"])
    assert all(set(one) == {"file"} for one in compose["secrets"].values())
    for one in compose["services"].values():
        assert {volume.split(":")[0] for volume in one["volumes"] if not volume.startswith(".")} <= set(
            compose["volumes"]
        )
        assert set(one["networks"]) <= set(compose["networks"])
    assert service["user"] == f"{USER}:{USER}"
    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    assert "POSTGRES_PASSWORD" not in compose["services"]["database"]["environment"]


# -- Kubernetes


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_manifests_follow_kubernetes_own_schema(path: Path) -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    for one in documents(path):
        kubernetes_validate.validate(one, kubernetes_validate.latest_version(), strict=True)


def containers() -> Iterator[Any]:
    pod = manifest("Deployment")["spec"]["template"]["spec"]
    yield from (*pod["initContainers"], *pod["containers"])


def test_the_pods_run_commands_settings_and_probes_that_there_are(tmp_path: Path) -> None:
    deployment, settings_map = manifest("Deployment"), manifest("ConfigMap")
    pod = deployment["spec"]["template"]["spec"]
    settings = require_production(settings_map["data"]["kms.toml"], tmp_path)
    (served,) = pod["containers"]
    require_command(list(served["args"]))
    assert {port["name"]: port["containerPort"] for port in served["ports"]} == {
        "https": settings.port,
        "metrics": settings.metrics_port,
    }
    paths = set(describe().openapi()["paths"])
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = served[probe]["httpGet"]
        assert asked["path"] in paths
        assert (asked["port"], asked["scheme"]) == ("https", "HTTPS")
    assert served["readinessProbe"]["httpGet"]["path"] == "/readyz"
    pause = float(served["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pod["terminationGracePeriodSeconds"] > pause + settings.drain_seconds + KILL_MARGIN_SECONDS
    mounts = {mount["mountPath"] for mount in served["volumeMounts"]}
    files = (
        settings.kek_file,
        settings.tls_certificate_file,
        settings.tls_key_file,
        settings.database_password_file,
    )
    for file in files:
        assert str(file.parent if file else None) in mounts
    assert guarded_in(settings) & mounts
    assert {"/tmp", str(settings.cache_directory)} <= mounts  # noqa: S108  a folder of the container
    assert {mount["name"] for one in containers() for mount in one["volumeMounts"]} == {
        volume["name"] for volume in pod["volumes"]
    }
    copied = pod["initContainers"][0]["command"][-1]
    # A renewed certificate appears in a mounted Secret by itself, and would stand beside the key of the old one.
    secret = (settings.kek_file, settings.database_password_file)
    for file in (*secret, settings.tls_certificate_file, settings.tls_key_file):
        assert file is not None
        assert f"/{file.name} " in copied
        assert str(file.parent) in copied


def test_mc_33_the_pods_may_do_little_and_hold_no_secret_in_their_environment() -> None:
    pod = manifest("Deployment")["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == USER
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for one in containers():
        assert one["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert "env" not in one
        assert "envFrom" not in one
        assert "memory" in one["resources"]["limits"]
    assert not any(document["kind"] == "Secret" for path in MANIFESTS for document in documents(path))


def test_service_budget_and_network_policy_mean_these_pods_and_their_ports(tmp_path: Path) -> None:
    labels = manifest("Deployment")["spec"]["template"]["metadata"]["labels"]
    settings = require_production(manifest("ConfigMap")["data"]["kms.toml"], tmp_path)
    policy = manifest("NetworkPolicy")["spec"]
    for selector in (
        manifest("Service")["spec"]["selector"],
        manifest("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        manifest("Deployment")["spec"]["selector"]["matchLabels"],
        policy["podSelector"]["matchLabels"],
    ):
        assert selector.items() <= labels.items()
    # A minimum that equals the number of replicas would block the drain of a node for ever.
    assert manifest("PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    assert manifest("Deployment")["spec"]["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert [rule["ports"][0]["port"] for rule in policy["ingress"]] == [settings.port, settings.metrics_port]
    assert all(rule["from"] for rule in policy["ingress"])
    assert manifest("Service")["spec"]["ports"][0]["targetPort"] == "https"
    template = manifest("Deployment")["spec"]["template"]["metadata"]["annotations"]
    assert template["prometheus.io/port"] == str(settings.metrics_port)


def test_image_names_agree() -> None:
    (compose,) = documents(DEPLOY / "compose.yaml")
    assert {one["image"] for one in containers()} == {compose["services"]["kms"]["image"]}


# -- Prometheus and Grafana


METRIC = re.compile(r"\bkms_[a-z_]+")
NAMES = documented_metrics()
SERIES = {name for base in NAMES for name in (base, f"{base}_bucket", f"{base}_sum", f"{base}_count")}


def rules() -> list[Any]:
    (found,) = documents(DEPLOY / "prometheus" / "kms.rules.yaml")
    return [rule for group in found["groups"] for rule in group["rules"]]


def test_alerts_use_metrics_that_there_are_and_say_what_is_wrong() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(names) == len(set(names)) > 5
    for rule in rules():
        used = set(METRIC.findall(rule["expr"]))
        assert used
        assert used <= SERIES, rule["alert"]
        assert rule["annotations"]["summary"]
        assert rule["labels"]["severity"] in {"warning", "critical"}
    assert any("kms_relaxed" in rule["expr"] for rule in rules())


@pytest.mark.skipif(shutil.which("promtool") is None, reason="there is no promtool here (Debian: prometheus)")
def test_prometheus_understands_the_alerts() -> None:
    path = str(DEPLOY / "prometheus" / "kms.rules.yaml")
    done = subprocess.run(["promtool", "check", "rules", path], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_dashboard_shows_metrics_that_there_are_and_leaves_none_out() -> None:
    dashboard = json.loads((DEPLOY / "grafana" / "kms.json").read_text(encoding="utf-8"))
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    used = {name for one in expressions for name in METRIC.findall(one)}
    assert used <= SERIES
    bare = {re.sub(r"_(bucket|sum|count)$", "", name) for name in used}
    assert NAMES - bare == {"kms_build_info"}
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in dashboard["panels"]]
    assert len(set(places)) == len(places)
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(places)
    variables = {variable["name"] for variable in dashboard["templating"]["list"]}
    assert all(panel["datasource"]["uid"] == "${datasource}" for panel in dashboard["panels"])
    assert variables == {"datasource"}


def test_the_documentation_names_every_setting() -> None:
    operations = page_text("operations")
    assert {name for name in Settings.model_fields if f"`{name}`" not in operations} == set()
    toml = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8"), re.DOTALL)
    for block in toml:
        assert set(tomllib.loads(block)) - {"store", "kek"} <= set(Settings.model_fields)
