"""Findings in an app-compose: what a policy that accepts its hash accepts as well.

Spec: specs/dstack.md, section 5.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256

from attest.encoding import JsonValue, json_value
from attest.errors import EvidenceError
from attest.policy.authoring.compose_services import ComposeService, compose_services, unreadable
from attest.policy.authoring.lint_findings import LintFinding, Severity

_PINNED = re.compile(r"@sha256:[0-9a-f]{64}")
_VARIABLE = re.compile(r"(?<!\$)(?:\$\$)*\$\{?([A-Za-z_][A-Za-z0-9_]*)")
_SOCKETS = {
    "/var/run/docker.sock": "it can start any container, regardless of app-compose",
    "/run/docker.sock": "it can start any container, regardless of app-compose",
    "/var/run/dstack.sock": "it gets the app's keys, and quotes with report data of its choice",
    "/var/run/tappd.sock": "it gets the app's keys, and quotes with report data of its choice",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AppComposeFindings:
    """One app-compose: its hash, as ``compose_hashes`` names it, and the findings, the worst first."""

    compose_hash: bytes
    findings: tuple[LintFinding, ...]


def lint_app_compose(data: bytes, *, name: str = "app-compose") -> AppComposeFindings:
    """Return the findings in an app-compose; ``name`` is its name in errors.

    Raises:
        ConfigurationError: ``app-compose-unreadable``.
    """
    try:
        document = json_value(data, what=name)
    except EvidenceError as exc:
        raise unreadable(name, "one strict JSON document") from exc
    text = document.get("docker_compose_file") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(text, str):
        raise unreadable(name, "an app-compose with docker_compose_file")
    services = compose_services(text.encode(), name=name)
    environment = _names(document.get("allowed_envs"))
    found = [finding for service in services for finding in _of_service(service, environment)]
    found += _of_scripts(document)
    return AppComposeFindings(
        compose_hash=sha256(data).digest(), findings=tuple(sorted(found, key=lambda finding: finding.severity.rank))
    )


def _names(value: JsonValue) -> frozenset[str]:
    return frozenset(name for name in value if isinstance(name, str)) if isinstance(value, list) else frozenset()


def _of_service(service: ComposeService, environment: frozenset[str]) -> Iterator[LintFinding]:
    path = f"services.{service.name}"
    image = service.image or ""
    chosen = sorted(environment.intersection(_VARIABLE.findall(image)))
    if chosen:
        yield LintFinding(
            rule="image-from-environment",
            severity=Severity.ERROR,
            path=f"{path}.image",
            why=f"the operator sets {', '.join(chosen)}, which no hash covers, and therefore chooses the image",
            remedy="remove the variable from the image, or from allowed_envs",
        )
    if not _PINNED.search(image):
        yield LintFinding(
            rule="image-unpinned",
            severity=Severity.WARNING,
            path=f"{path}.image",
            why=f"{image or 'nothing'} has no digest: the registry determines the software that runs",
            remedy="name the image by @sha256:",
        )
    for power in service.powers:
        yield LintFinding(
            rule="container-privileged",
            severity=Severity.WARNING,
            path=path,
            why=f"with {power} the container can do whatever the guest can",
            remedy="grant only what it needs; or review the image as you review the guest's own image",
        )
    for mount in service.mounts:
        if mount in _SOCKETS:
            yield LintFinding(
                rule="socket-mounted",
                severity=Severity.WARNING,
                path=f"{path}.volumes",
                why=f"{mount}: {_SOCKETS[mount]}",
                remedy="accept the compose hash only if you trust this image with that",
            )


def _of_scripts(document: dict[str, JsonValue]) -> Iterator[LintFinding]:
    for name in ("pre_launch_script", "init_script"):
        if document.get(name):
            yield LintFinding(
                rule="script-runs",
                severity=Severity.NOTE,
                path=name,
                why="it runs in the guest itself, outside of all containers",
                remedy="read it",
            )
