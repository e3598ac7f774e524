"""The charts of `deploy/helm`, as Helm installs them in a cluster."""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tests.cluster.control_plane import ControlPlane, Object

CHARTS = Path(__file__).resolve().parents[2] / "deploy" / "helm"
POD_SECURITY = "pod-security.kubernetes.io"
WORKLOADS = {"Deployment", "DaemonSet"}
HELM_SECONDS = 300


@dataclass(frozen=True)
class Namespace:
    """A namespace with what a controller manager would have made in it.

    Attributes:
        level: Pod Security Standard that is enforced.
    """

    cluster: ControlPlane
    helm: Path
    name: str
    level: str

    def make(self) -> None:
        labels = {f"{POD_SECURITY}/{mode}": self.level for mode in ("enforce", "warn")}
        metadata = {"name": self.name, "labels": labels}
        self.cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        self.cluster.create(account, self.name)

    def run_helm(self, *words: str) -> str:
        """Run Helm in this namespace, and return its output."""
        done = self.try_helm(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def try_helm(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.helm), "--kubeconfig", str(self.cluster.kubeconfig), "--namespace", self.name, *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=HELM_SECONDS, check=False)

    def rendered(self, chart: str, *settings: str) -> list[Object]:
        """Return the objects of a chart, rendered for this API server: its version, its groups."""
        words = ["template", "x", str(CHARTS / chart), "--validate", *set_words(settings)]
        return [one for one in YAML(typ="safe", pure=True).load_all(self.run_helm(*words)) if one]

    def found(self, given: Object) -> Object:
        """Return an object as the API server has it."""
        return self.cluster.request("GET", f"{self.cluster.path_of(given, self.name)}/{given['metadata']['name']}")

    def installed(self, release: str) -> list[Object]:
        """Return the objects of a release, as the API server has them."""
        manifest = self.run_helm("get", "manifest", release)
        return [self.found(one) for one in YAML(typ="safe", pure=True).load_all(manifest) if one]

    def remove_volumes(self) -> None:
        """Remove the claims of the namespace, and the volumes that are for them."""
        for path in self._volumes():
            self.cluster.request("DELETE", path)
        self.release_volumes()

    def release_volumes(self) -> None:
        """Let go of deleted claims and volumes, as the controller does once no pod uses them."""
        for path in self._volumes():
            found = self.cluster.request("GET", path)
            assert "deletionTimestamp" in found["metadata"], path
            patch = [{"op": "remove", "path": "/metadata/finalizers"}]
            self.cluster.request("PATCH", path, patch, kind="application/json-patch+json")

    def _volumes(self) -> list[str]:
        claims = f"/api/v1/namespaces/{self.name}/persistentvolumeclaims"
        volumes = "/api/v1/persistentvolumes"
        return [
            *(f"{claims}/{one['metadata']['name']}" for one in self.cluster.request("GET", claims)["items"]),
            *(
                f"{volumes}/{one['metadata']['name']}"
                for one in self.cluster.request("GET", volumes)["items"]
                if one["spec"]["claimRef"]["namespace"] == self.name
            ),
        ]

    def objects(self) -> set[tuple[str, str]]:
        """Return the kind and name of every object in it."""
        return self.cluster.objects(self.name)


def set_words(settings: tuple[str, ...]) -> Iterator[str]:
    """Return the arguments of Helm for settings, whose values are JSON."""
    for setting in settings:
        name, _, value = setting.partition("=")
        try:
            json.loads(value)
        except ValueError:
            yield from ("--set-string", f"{name}={value.replace(',', chr(92) + ',')}")
        else:
            yield from ("--set-json", setting)


def pods_of(objects: list[Object]) -> Iterator[Object]:
    """Return the pods that workloads would start."""
    for each in objects:
        if each["kind"] in WORKLOADS:
            template: dict[str, Any] = each["spec"]["template"]
            metadata = {**template["metadata"], "name": f"{each['metadata']['name']}-0"}
            yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def stated(objects: list[Object]) -> list[Object]:
    """Return what was asked for of objects: their content without what the API server keeps about them."""
    return [
        {
            **{key: value for key, value in each.items() if key not in ("metadata", "status")},
            "metadata": {key: each["metadata"].get(key, {}) for key in ("name", "labels")},
            "annotations": {
                key: value
                for key, value in each["metadata"].get("annotations", {}).items()
                if not key.startswith("deprecated.")  # the generation of a DaemonSet's template
            },
        }
        for each in objects
    ]
