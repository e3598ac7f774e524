"""The manifests of `deploy/`, applied to an API server."""

from collections.abc import Callable
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.cluster.charts import Namespace, pods_of
from tests.cluster.control_plane import Object

pytestmark = [pytest.mark.cluster, pytest.mark.loopback]
DEPLOY = Path(__file__).resolve().parents[2] / "deploy"


def documents(folder: str) -> list[Object]:
    paths = sorted((DEPLOY / folder).glob("*.yaml"))
    return [one for path in paths for one in YAML(typ="safe", pure=True).load_all(path.read_text("utf-8")) if one]


@pytest.mark.parametrize(("folder", "level"), [("kubernetes", "restricted"), ("kubernetes-sidecar", "privileged")])
def test_the_manifests_and_their_pods_are_admitted(
    namespace: Callable[[str], Namespace], folder: str, level: str
) -> None:
    made, found = namespace(level), documents(folder)
    before = len(made.cluster.warnings)
    for one in found:
        made.cluster.apply(one, made.name)
    for pod in pods_of(found):
        made.cluster.create(pod, made.name, dry_run=True)
    assert made.cluster.warnings[before:] == []
    assert {(one["kind"], one["metadata"]["name"]) for one in found} <= made.objects()
