"""One control plane for all tests, and a namespace for each."""

import itertools
from collections.abc import Callable, Iterator

import pytest

from tests.cluster.charts import Namespace
from tests.cluster.control_plane import ControlPlane, running_control_plane
from tests.cluster.programs import Programs, built_programs

SERVICE_MONITORS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "servicemonitors.monitoring.coreos.com"},
    "spec": {
        "group": "monitoring.coreos.com",
        "scope": "Namespaced",
        "names": {"kind": "ServiceMonitor", "plural": "servicemonitors", "singular": "servicemonitor"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "required": ["spec"],
                        "properties": {
                            "spec": {
                                "type": "object",
                                "required": ["selector", "endpoints"],
                                "properties": {
                                    "selector": {
                                        "type": "object",
                                        "properties": {
                                            "matchLabels": {
                                                "type": "object",
                                                "additionalProperties": {"type": "string"},
                                            }
                                        },
                                    },
                                    "endpoints": {
                                        "type": "array",
                                        "items": {
                                            "type": "object",
                                            "properties": {
                                                "port": {"type": "string"},
                                                "interval": {"type": "string", "pattern": "^[0-9]+(ms|s|m|h)$"},
                                            },
                                        },
                                    },
                                },
                            }
                        },
                    }
                },
            }
        ],
    },
}
"""The part of the Prometheus Operator's resource that the chart uses."""


@pytest.fixture(scope="session")
def programs() -> Programs:
    """The control plane's programs and Helm."""
    return built_programs()


@pytest.fixture(scope="session")
def cluster(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A running API server."""
    with running_control_plane(programs, tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.fixture(scope="session")
def service_monitors(cluster: ControlPlane) -> None:
    """Definition of ServiceMonitors, which a cluster has from the Prometheus Operator."""
    made = cluster.create(SERVICE_MONITORS)
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{made['metadata']['name']}"

    def established() -> bool:
        conditions = cluster.request("GET", path)["status"].get("conditions") or []
        return any((one["type"], one["status"]) == ("Established", "True") for one in conditions)

    cluster.wait(established)


@pytest.fixture(scope="session")
def numbers() -> Iterator[int]:
    """Numbers that make names unique."""
    return itertools.count()


@pytest.fixture
def namespace(cluster: ControlPlane, programs: Programs, numbers: Iterator[int]) -> Callable[[str], Namespace]:
    """Make a namespace that enforces a Pod Security Standard."""

    def make(level: str) -> Namespace:
        made = Namespace(cluster=cluster, helm=programs.helm, name=f"tests-{next(numbers)}", level=level)
        made.make()
        return made

    return make
