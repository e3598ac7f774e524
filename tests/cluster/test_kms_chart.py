"""The chart of the key-release service, applied to an API server in every documented variant."""

from collections.abc import Callable

import pytest

from tests.cluster.charts import CHARTS, Namespace, pods_of, set_words, stated
from tests.cluster.control_plane import Object, RefusedError
from tests.documentation.blocks import blocks_run_by
from tests.documentation.shell import run_script

pytestmark = [pytest.mark.cluster, pytest.mark.loopback, pytest.mark.usefixtures("service_monitors")]
Make = Callable[[str], Namespace]
IMAGE = "image=registry.example/kms@sha256:" + 64 * "0"
VARIANTS = {
    "as it is": (),
    "one replica": ("replicas=1",),
    "many replicas": ("replicas=5", 'disruptionBudget.maxUnavailable="20%"'),
    "a token": ("kek.backend=pkcs11", "kek.pkcs11.module=/opt/vendor/module.so"),
    "a transit engine": ("kek.backend=transit", "kek.transit.url=https://bao.example:8200", "kek.transit.ca=true"),
    "a transit engine with namespaces": ("kek.backend=transit", "kek.transit.namespace=team"),
    "another database": ("database.url=postgresql://kms@db.example:6432/kms?sslmode=verify-full",),
    "TLS 1.2": ('tls.minimum="1.2"',),
    "no network policy": ("networkPolicy.enabled=false",),
    "no fetching": ("fetch=false",),
    "a monitor": ("serviceMonitor.enabled=true", 'serviceMonitor.labels={"release":"prometheus"}'),
    "a load balancer": ("service.type=LoadBalancer",),
    "a port of each node": ("service.type=NodePort", "service.port=8443"),
    "a private registry": ('imagePullSecrets=[{"name":"registry"}]',),
    "further settings": ('extraSettings="client_requests_per_second = 0\\n"',),
}
variants = pytest.mark.parametrize("settings", VARIANTS.values(), ids=VARIANTS.keys())


@pytest.fixture
def restricted(namespace: Make) -> Namespace:
    """A namespace with the strictest standard."""
    return namespace("restricted")


def applied(namespace: Namespace, objects: list[Object]) -> list[Object]:
    return [namespace.cluster.apply(one, namespace.name) for one in objects]


def admitted(namespace: Namespace, objects: list[Object]) -> None:
    applied(namespace, objects)
    for pod in pods_of(objects):
        namespace.cluster.create(pod, namespace.name, dry_run=True)


def test_the_command_of_the_page_installs_the_chart_and_upgrades_it(restricted: Namespace) -> None:
    ((_, block),) = blocks_run_by("tests/cluster/test_kms_chart.py")
    text = block.text.replace("--namespace kms", f"--namespace {restricted.name}").replace(
        "sha256:…", "sha256:" + 64 * "0"
    )
    helm = f'helm() {{ "{restricted.helm}" --kubeconfig "{restricted.cluster.kubeconfig}" "$@"; }}'
    for revision in (1, 2):
        assert f"REVISION: {revision}" in run_script(f"{helm}\n{text}", folder=CHARTS.parents[1])
    assert "Deployment" in {one["kind"] for one in restricted.installed("kms")}


@variants
def test_every_object_is_applied_without_a_warning_and_applied_again_without_a_change(
    restricted: Namespace, settings: tuple[str, ...]
) -> None:
    objects = restricted.rendered("kms", IMAGE, *settings)
    before = len(restricted.cluster.warnings)
    first, second = applied(restricted, objects), applied(restricted, objects)
    assert [one["kind"] for one in first] == [one["kind"] for one in objects]
    assert [one["metadata"]["resourceVersion"] for one in first] == [
        one["metadata"]["resourceVersion"] for one in second
    ]
    assert restricted.cluster.warnings[before:] == []


@variants
def test_the_pods_are_admitted_where_the_restricted_standard_is_enforced(
    restricted: Namespace, settings: tuple[str, ...]
) -> None:
    pods = list(pods_of(restricted.rendered("kms", IMAGE, *settings)))
    assert len(pods) == 1
    before = len(restricted.cluster.warnings)
    for pod in pods:
        restricted.cluster.create(pod, restricted.name, dry_run=True)
    assert restricted.cluster.warnings[before:] == []


def test_a_pod_of_the_chart_with_a_right_more_would_not_be_admitted(restricted: Namespace) -> None:
    (pod,) = pods_of(restricted.rendered("kms", IMAGE))
    del pod["spec"]["containers"][0]["securityContext"]["capabilities"]
    with pytest.raises(RefusedError, match="unrestricted capabilities"):
        restricted.cluster.create(pod, restricted.name, dry_run=True)


@variants
def test_a_release_is_installed_upgraded_rolled_back_and_leaves_nothing(
    restricted: Namespace, settings: tuple[str, ...]
) -> None:
    before = restricted.objects()
    chart, words = str(CHARTS / "kms"), tuple(set_words((IMAGE, *settings)))
    restricted.run_helm("install", "kms", chart, *words)
    installed = stated(restricted.installed("kms"))
    restricted.run_helm("upgrade", "kms", chart, *words)
    assert stated(restricted.installed("kms")) == installed
    restricted.run_helm("upgrade", "kms", chart, *words, "--set", "origin=kms.example/other,drainSeconds=30")
    upgraded = stated(restricted.installed("kms"))
    assert sorted(one["kind"] for one in differing(installed, upgraded)) == ["ConfigMap", "Deployment"]
    restricted.run_helm("rollback", "kms", "1")
    assert stated(restricted.installed("kms")) == installed
    restricted.run_helm("uninstall", "kms")
    assert restricted.objects() == before


def differing(first: list[Object], second: list[Object]) -> list[Object]:
    return [one for one in first if one not in second]


def test_other_settings_start_other_pods(restricted: Namespace) -> None:
    pods = [next(pods_of(restricted.rendered("kms", IMAGE, f"workers={workers}"))) for workers in (2, 3)]
    assert pods[0] != pods[1]


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ('resources={"limits":{"memory":"1 GB"}}', "quantities must match"),
        ('networkPolicy.clusterRanges=["10.0.0.0/33"]', "not a valid CIDR|must be a valid"),
        ('serviceMonitor={"enabled":true,"interval":"soon","labels":{}}', "spec.endpoints\\[0\\].interval"),
        ('volumeMounts=[{"name":"nowhere","mountPath":"/etc/more"}]', "volumeMounts"),
        ('nodeSelector={"confidential":"not a value"}', "valid label"),
        ('networkPolicy.egress=[{"to":[{"ipBlock":{"cidr":"10.1.2.3"}}]}]', "CIDR"),
        ("priorityClassName=none-such", "no PriorityClass"),
    ],
)
def test_values_that_the_schema_cannot_judge_are_refused_by_the_api_server(
    restricted: Namespace, setting: str, named: str
) -> None:
    objects = restricted.rendered("kms", IMAGE, setting)
    with pytest.raises(RefusedError, match=named):
        admitted(restricted, objects)


@pytest.mark.parametrize(
    "setting",
    ["replicas=0", "replica=3", "kek.backend=vault", "origin=no origin", "database.url=postgresql://a:b@host/kms"],
)
def test_values_of_the_wrong_kind_are_refused_before_the_api_server_gets_anything(
    restricted: Namespace, setting: str
) -> None:
    before = restricted.objects()
    done = restricted.try_helm("install", "kms", str(CHARTS / "kms"), *set_words((IMAGE, setting)))
    assert done.returncode != 0
    assert "values don't meet the specifications of the schema" in done.stderr
    assert restricted.objects() == before


def secret(name: str, *keys: str, value: str = "b25l") -> Object:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": dict.fromkeys(keys, value)}


def test_an_upgrade_starts_other_pods_after_a_change_of_a_secret_and_only_then(restricted: Namespace) -> None:
    chart, words = str(CHARTS / "kms"), tuple(set_words((IMAGE,)))
    for given in (secret("kms", "kek", "database-password"), secret("kms-tls", "tls.crt", "tls.key")):
        restricted.cluster.apply(given, restricted.name)

    def template_after(command: str) -> Object:
        restricted.run_helm(command, "kms", chart, *words)
        (pod,) = pods_of(restricted.installed("kms"))
        return pod

    first = template_after("install")
    assert template_after("upgrade") == first
    restricted.cluster.apply(secret("kms-tls", "tls.crt", "tls.key", value="dHdv"), restricted.name)
    renewed = template_after("upgrade")
    assert renewed["spec"] == first["spec"]
    differing_annotations = first["metadata"]["annotations"].items() ^ renewed["metadata"]["annotations"].items()
    assert {name for name, _ in differing_annotations} == {"checksum/secrets"}
    assert template_after("upgrade") == renewed


def test_an_upgrade_changes_no_selector_and_keeps_the_addresses_of_the_services(restricted: Namespace) -> None:
    chart, words = str(CHARTS / "kms"), tuple(set_words((IMAGE,)))
    restricted.run_helm("install", "kms", chart, *words)
    before = {one["metadata"]["name"]: one["spec"] for one in restricted.installed("kms") if one["kind"] == "Service"}
    restricted.run_helm("upgrade", "kms", chart, *words, "--set", "replicas=5,service.type=LoadBalancer")
    after = {one["metadata"]["name"]: one["spec"] for one in restricted.installed("kms") if one["kind"] == "Service"}
    assert [one["clusterIP"] for one in before.values()] == [one["clusterIP"] for one in after.values()]
    assert after["kms"]["type"] == "LoadBalancer"
