"""Findings in app-compose: what a policy that accepts its hash accepts as well."""

import json
from hashlib import sha256

import pytest

from attest.errors import ConfigurationError
from attest.policy.authoring.compose_services import MAX_COMPOSE_BYTES, MAX_COMPOSE_EVENTS, MAX_MERGES
from attest.policy.authoring.lint_app_compose import AppComposeFindings, lint_app_compose

PINNED = f"repo/image@sha256:{'ab' * 32}"


def linted(compose: str, **members: object) -> AppComposeFindings:
    return lint_app_compose(json.dumps({"docker_compose_file": compose, **members}).encode())


def rules(compose: str, **members: object) -> list[tuple[str, str]]:
    return [(finding.rule, finding.path) for finding in linted(compose, **members).findings]


def service(*lines: str) -> str:
    return "services:\n  web:\n" + "".join(f"    {line}\n" for line in lines)


def refused(data: bytes) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        lint_app_compose(data, name="file")
    assert (caught.value.code, caught.value.field) == ("app-compose-unreadable", "file")
    return caught.value


def test_an_app_compose_with_pinned_images_has_no_finding_and_a_hash() -> None:
    data = json.dumps({"docker_compose_file": service(f"image: {PINNED}")}, indent=4).encode()
    found = lint_app_compose(data)
    assert (found.findings, found.compose_hash) == ((), sha256(data).digest())


@pytest.mark.parametrize(
    "image", ["image: repo/image:1", "image: repo/image@sha256:abcd", "build: .", "image: ${IMAGE}", "image: [x]"]
)
def test_an_image_without_a_digest_is_found(image: str) -> None:
    assert rules(service(image)) == [("image-unpinned", "services.web.image")]


@pytest.mark.parametrize(
    "image", [f"${{IMAGE:-{PINNED}}}", f"$IMAGE/{PINNED}", f"a${{IMAGE?}}{PINNED}", f"$$$IMAGE/{PINNED}"]
)
def test_an_image_that_the_operator_may_choose_is_an_error_even_with_a_pinned_default(image: str) -> None:
    assert rules(service(f"image: '{image}'"), allowed_envs=["OTHER", "IMAGE"]) == [
        ("image-from-environment", "services.web.image")
    ]
    assert rules(service(f"image: '{image}'"), allowed_envs=["OTHER", 3]) == []


def test_a_variable_that_is_escaped_is_none() -> None:
    assert rules(service(f"image: '$$IMAGE{PINNED}'"), allowed_envs=["IMAGE"]) == []


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        (["privileged: true"], 1),
        (["privileged: 'yes'"], 1),
        (["privileged: false"], 0),
        (["pid: host"], 1),
        (["pid: service:x"], 0),
        (["cap_add: [SYS_ADMIN, CAP_SYS_PTRACE, NET_ADMIN, [x]]"], 2),
        (["cap_add: [all]"], 1),
        (["cap_add: SYS_ADMIN"], 0),
    ],
)
def test_containers_that_can_leave_their_namespaces_are_found(lines: list[str], count: int) -> None:
    assert rules(service(f"image: {PINNED}", *lines)) == [("container-privileged", "services.web")] * count


@pytest.mark.parametrize(
    "socket", ["/var/run/docker.sock", "/run/docker.sock", "/var/run/dstack.sock", "/var/run/tappd.sock"]
)
def test_mounts_of_sockets_are_found_in_both_spellings(socket: str) -> None:
    mounts = (
        f"volumes: ['{socket}:/x:ro', 'data:/data', 3]",
        f"volumes: [{{type: bind, source: {socket}, target: /x}}]",
    )
    for mount in mounts:
        assert rules(service(f"image: {PINNED}", mount)) == [("socket-mounted", "services.web.volumes")]
    assert rules(service(f"image: {PINNED}", "volumes: {a: b}")) == []
    assert rules(service(f"image: {PINNED}", "volumes: [[x], {target: /x}]")) == []


def test_anchors_and_merge_keys_are_followed() -> None:
    compose = (
        f"x-one: &one\n  privileged: true\n  image: {PINNED}\nx-two: &two\n  <<: *one\n  pid: host\n"
        "services:\n  a: {<<: *two}\n  b: {<<: [*one], privileged: false}\n"
    )
    assert rules(compose) == [("container-privileged", "services.a")] * 2


def test_a_file_that_would_grow_is_read_where_it_stands() -> None:
    lines = ["x0: &x0 {image: a}"]
    lines += [f"x{n}: &x{n} {{<<: [{', '.join([f'*x{n - 1}'] * 9)}]}}" for n in range(1, 40)]
    services = ", ".join(f"web{n}: {{<<: *x39}}" for n in range(100))
    compose = "\n".join([*lines, f"services: {{{services}}}"])
    assert rules(compose) == [("image-unpinned", f"services.web{n}.image") for n in range(100)]


def test_merges_are_followed_however_deep_and_refused_past_a_hundred() -> None:
    def chain(length: int) -> str:
        lines = [f"x0: &x0 {{privileged: true, image: {PINNED}}}"]
        lines += [f"x{n}: &x{n} {{<<: *x{n - 1}}}" for n in range(1, length)]
        return "\n".join([*lines, f"services: {{web: {{<<: *x{length - 1}}}}}"])

    assert rules(chain(MAX_MERGES)) == [("container-privileged", "services.web")]
    assert "merged" in (refused(json.dumps({"docker_compose_file": chain(MAX_MERGES + 1)}).encode()).expected or "")


def test_a_mapping_that_merges_itself_is_looked_at_once() -> None:
    assert rules(f"services: {{web: &web {{<<: *web, pid: host, image: {PINNED}}}}}") == [
        ("container-privileged", "services.web")
    ]


def test_scripts_of_the_guest_are_notes_and_the_worst_comes_first() -> None:
    found = linted(
        service("image: $IMAGE", "privileged: true"),
        allowed_envs=["IMAGE"],
        pre_launch_script="#!/bin/sh",
        init_script="",
    )
    assert [str(finding.severity) for finding in found.findings] == ["error", "warning", "warning", "note"]
    assert found.findings[-1].path == "pre_launch_script"


@pytest.mark.parametrize(
    "compose",
    ["", "services: []", "services: web", "[", "a: b: c", "services: {}\n---\nservices: {}\n", "&a [*a", "\x00"],
)
def test_a_compose_file_without_services_is_not_read(compose: str) -> None:
    refused(json.dumps({"docker_compose_file": compose}).encode())


@pytest.mark.parametrize("data", [b"{", b"[]", b"{}", b'{"docker_compose_file": 3}', b"\xff"])
def test_another_document_is_not_read(data: bytes) -> None:
    refused(data)


def test_a_service_that_is_no_mapping_has_no_image() -> None:
    assert rules("services: {web: text, 1: {image: x}}") == [
        ("image-unpinned", "services.web.image"),
        ("image-unpinned", "services.1.image"),
    ]


def test_a_compose_file_is_limited_in_bytes_and_values() -> None:
    padded = service(f"image: {PINNED}")
    assert rules(padded + "#" * (MAX_COMPOSE_BYTES - len(padded))) == []
    assert "bytes" in (
        refused(json.dumps({"docker_compose_file": "#" * (MAX_COMPOSE_BYTES + 1)}).encode()).expected or ""
    )
    many = "x: [" + "a," * MAX_COMPOSE_EVENTS + "]\n"
    assert "values" in (refused(json.dumps({"docker_compose_file": many}).encode()).expected or "")
