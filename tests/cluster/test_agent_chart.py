"""The chart of the agent, on each node and in each pod, applied to an API server."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster.charts import CHARTS, Namespace, pods_of, set_words, stated
from tests.cluster.control_plane import Object, RefusedError

pytestmark = [pytest.mark.cluster, pytest.mark.loopback]
Make = Callable[[str], Namespace]
IMAGE = "registry.example/kms@sha256:" + 64 * "0"
IDENTITY = "kms.example/prod+7dd6dcbb+AZJHlJ3l"
NODE = (f"image={IMAGE}", f"kms.identity={IDENTITY}")
SIDECAR = (f"image={IMAGE}", *(f"attest-agent.{one}" for one in NODE))
VARIANTS = {
    "as it is": (),
    "chosen nodes": (
        'nodeSelector={"confidential":"true"}',
        'tolerations=[{"key":"confidential","operator":"Exists"}]',
        "priorityClassName=system-node-critical",
    ),
    "an event log": ("eventLog=true",),
    "SELinux": ('seLinuxOptions={"type":"spc_t"}',),
    "sealed models": (
        'volumes=[{"name":"models","persistentVolumeClaim":{"claimName":"models","readOnly":true}}]',
        'volumeMounts=[{"name":"models","mountPath":"/models","readOnly":true}]',
    ),
    "a private registry": ('imagePullSecrets=[{"name":"registry"}]',),
}
variants = pytest.mark.parametrize("settings", VARIANTS.values(), ids=VARIANTS.keys())


@pytest.fixture(scope="session")
def application(programs: object, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example of an application with the agent's chart as a subchart."""
    folder = tmp_path_factory.mktemp("charts")
    shutil.copytree(CHARTS, folder, dirs_exist_ok=True)
    return folder / "inference"


def client_pod(claim: str) -> Object:
    """Return a pod that uses the socket of its node, and is as restricted as can be."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "client"},
        "spec": {
            "automountServiceAccountToken": False,
            "securityContext": {"runAsNonRoot": True, "runAsUser": 10001, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [
                {
                    "name": "client",
                    "image": "client",
                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                    "volumeMounts": [{"name": "socket", "mountPath": "/run/attest", "readOnly": True}],
                }
            ],
            "volumes": [{"name": "socket", "persistentVolumeClaim": {"claimName": claim, "readOnly": True}}],
        },
    }


def require_admitted(namespace: Namespace, objects: list[Object]) -> None:
    """Apply objects twice, which changes nothing the second time, and have their pods admitted, without a warning."""
    before = len(namespace.cluster.warnings)
    first, second = ([namespace.cluster.apply(one, namespace.name) for one in objects] for _ in range(2))
    assert stated(first) == stated(second)
    (pod,) = pods_of(objects)
    namespace.cluster.create(pod, namespace.name, dry_run=True)
    assert namespace.cluster.warnings[before:] == []


def require_life(namespace: Namespace, chart: Path, first: tuple[str, ...], second: str) -> None:
    """Install, upgrade, roll back and uninstall a release, which leaves nothing."""
    before, words = namespace.objects(), tuple(set_words(first))
    namespace.run_helm("install", "agent", str(chart), *words)
    installed = stated(namespace.installed("agent"))
    namespace.run_helm("upgrade", "agent", str(chart), *words, *set_words((second,)))
    upgraded = stated(namespace.installed("agent"))
    pods = [next(pods_of(each)) for each in (installed, upgraded)]
    assert pods[0]["metadata"]["annotations"] != pods[1]["metadata"]["annotations"]
    namespace.run_helm("rollback", "agent", "1")
    assert stated(namespace.installed("agent")) == installed
    namespace.run_helm("uninstall", "agent")
    namespace.release_volumes()
    assert namespace.objects() == before


@variants
def test_the_agent_of_each_node_is_admitted_in_a_namespace_of_its_own(
    namespace: Make, settings: tuple[str, ...]
) -> None:
    made = namespace("privileged")
    require_admitted(made, made.rendered("attest-agent", *NODE, *settings))


def test_the_agent_of_each_node_needs_a_privileged_namespace_for_its_host_folders_alone(namespace: Make) -> None:
    made = namespace("baseline")
    (pod,) = pods_of(made.rendered("attest-agent", *NODE))
    with pytest.raises(
        RefusedError, match='violates PodSecurity \\\\"baseline:latest\\\\": hostPath volumes'
    ) as caught:
        made.cluster.create(pod, made.name, dry_run=True)
    assert caught.value.status == 403
    pod["spec"]["volumes"] = [one for one in pod["spec"]["volumes"] if "hostPath" not in one]
    mounted = {one["name"] for one in pod["spec"]["volumes"]}
    (container,) = pod["spec"]["containers"]
    container["volumeMounts"] = [one for one in container["volumeMounts"] if one["name"] in mounted]
    made.cluster.create(pod, made.name, dry_run=True)


def test_restricted_pods_of_other_namespaces_use_the_socket_of_their_node(namespace: Make) -> None:
    made, clients = namespace("privileged"), namespace("restricted")
    before = clients.objects()
    clients_value = f'clientNamespaces=["{clients.name}"]'
    made.run_helm("install", "agent", str(CHARTS / "attest-agent"), *set_words((*NODE, clients_value)))
    clients.cluster.create(client_pod("agent-socket"), clients.name, dry_run=True)
    path = f"/api/v1/namespaces/{clients.name}/persistentvolumeclaims/agent-socket"
    claim = clients.cluster.request("GET", path)["spec"]
    volume = clients.cluster.request("GET", f"/api/v1/persistentvolumes/{claim['volumeName']}")["spec"]
    assert volume["hostPath"] == {"path": "/run/attest", "type": "Directory"}
    assert (volume["claimRef"]["namespace"], volume["claimRef"]["name"]) == (clients.name, "agent-socket")
    made.run_helm("uninstall", "agent")
    clients.release_volumes()
    assert clients.objects() == before


@variants
def test_the_agent_of_each_node_is_installed_upgraded_rolled_back_and_leaves_nothing(
    namespace: Make, settings: tuple[str, ...]
) -> None:
    require_life(namespace("privileged"), CHARTS / "attest-agent", (*NODE, *settings), "kms.url=https://kms.other:8750")


@pytest.mark.parametrize(
    "settings",
    [
        (),
        ("attest-agent.eventLog=true",),
        ("attest-agent.eventLog=true", "attest-agent.reportsClaim=reports", "attest-agent.eventLogClaim=log"),
    ],
    ids=["a claim of its own", "two claims of its own", "claims that are there"],
)
def test_an_application_with_the_agent_in_its_pods_is_admitted_as_baseline(
    namespace: Make, application: Path, settings: tuple[str, ...]
) -> None:
    made = namespace("baseline")
    made.run_helm("dependency", "build", str(application))
    objects = made.rendered(str(application), *SIDECAR, *settings)
    claimed = len(settings) + 1 if len(settings) < 2 else 0
    assert [one["kind"] for one in objects].count("PersistentVolume") == claimed
    require_admitted(made, objects)
    made.remove_volumes()


def test_an_application_with_the_agent_in_its_pods_is_installed_upgraded_rolled_back_and_leaves_nothing(
    namespace: Make, application: Path
) -> None:
    made = namespace("baseline")
    made.run_helm("dependency", "build", str(application))
    require_life(made, application, SIDECAR, "attest-agent.kms.url=https://kms.other:8750")


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ('nodeSelector={"confidential":"not a value"}', "must be a valid label|a valid label must"),
        ('tolerations=[{"operator":"Exists","key":"no key"}]', "name part must consist"),
        ('resources={"requests":{"memory":"2Gi"},"limits":{"memory":"1Gi"}}', "less than or equal to memory limit"),
        ('volumeMounts=[{"name":"models","mountPath":"/models"}]', "volumeMounts"),
    ],
)
def test_values_that_the_schema_cannot_judge_are_refused_by_the_api_server(
    namespace: Make, setting: str, named: str
) -> None:
    made = namespace("privileged")
    objects = made.rendered("attest-agent", *NODE, setting)
    (pod,) = pods_of(objects)
    with pytest.raises(RefusedError, match=named):
        made.cluster.create(pod, made.name, dry_run=True)
