"""Steps of ``attest release``: the demands on the service, the connection, and the destinations of keys."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path

import click
import httpx

from attest.cli.endorsement_fetch import fetched_endorsements
from attest.cli.endorsement_inputs import read_anchors, read_pool
from attest.cli.machine import machine_of
from attest.cli.options import Network
from attest.cli.policies import read_policy
from attest.cli.service_options import ServiceOptions
from attest.clock import this_second
from attest.collect import collect_machine
from attest.endorsements.pool import Endorsements
from attest.errors import ConfigurationError
from attest.evidence.envelope import Evidence
from attest.files import require_absent, write_file
from attest.release import VerifierKey
from attest.release.client import KeyReleaseClient
from attest.release.exchange import Attester
from attest.release.log_monitor import FileMemory, LogWatch
from attest.release.mutual_attestation import ServiceExpectation
from attest.release.names import DEFAULT_TENANT, KeyReference
from attest.release.released_key import ReleasedKey
from attest.session.connection import trusting
from attest.terminal.display import Display

STDOUT = "-"


@contextmanager
def connect_service(
    service: ServiceOptions, *, network: Network, display: Display
) -> Iterator[tuple[KeyReleaseClient, Attester]]:
    """Prepare the connection to a service, and the evidence of this machine.

    Raises:
        ConfigurationError: as ``expectation`` and ``open_client``.
    """
    if service.kms is None or service.identity is None:
        raise click.UsageError("--kms and --identity go together")
    demands = (service.expect_configuration, service.unchecked_tls)
    if service.expect_policy is None and demands != (None, None):
        raise click.UsageError("--expect-configuration and --unchecked-tls go with --expect-policy")
    expect = expectation(service, network=network, display=display)
    if service.unchecked_tls is not None:
        display.warn(f"the TLS connection is not compared with what the service proves: {service.unchecked_tls}")
    access = machine_of(service.tcti)
    attester = partial(collect_machine, access=access, with_gpus=False if service.no_gpus else None)
    with open_client(service.kms, service.identity, service, expect=expect) as client:
        yield client, attester


def expectation(wanted: ServiceOptions, *, network: Network, display: Display) -> ServiceExpectation | None:
    """Return the demands of a client on the service; None without a policy.

    Raises:
        ConfigurationError: a file is missing or wrong, or a relaxation has no reason.
    """
    if wanted.expect_policy is None:
        return None
    if wanted.unchecked_tls is not None and not wanted.unchecked_tls.strip():
        raise ConfigurationError(
            "--unchecked-tls requires a reason",
            code="option-not-applicable",
            field="--unchecked-tls",
            expected="a reason",
        )
    if wanted.allow_simulated:
        display.warn(
            "a service on a SIMULATED machine is accepted (--allow-simulated); that proves nothing about hardware"
        )
    policy = read_policy(wanted.expect_policy, what="--expect-policy")
    pool = read_pool(wanted.endorsements, at=this_second(), display=display)

    def fetch(evidence: Evidence, at: datetime) -> Endorsements:
        return fetched_endorsements(evidence, at=at, network=network, display=display, pool=pool)

    return ServiceExpectation(
        policy=policy,
        anchors=read_anchors(wanted.anchors, simulated=wanted.allow_simulated),
        endorsements=pool,
        clock=this_second,
        random=secrets.token_bytes,
        fetch=None if wanted.offline else fetch,
        configuration=wanted.expect_configuration,
        unchecked_tls=wanted.unchecked_tls,
    )


@contextmanager
def open_client(
    url: str, identity: str, options: ServiceOptions, *, expect: ServiceExpectation | None
) -> Iterator[KeyReleaseClient]:
    """Prepare the connection to a service; no request is made yet.

    Raises:
        ConfigurationError: ``verifier-key-invalid``, ``tls-ca-unusable``, ``url-invalid``, or as ``FileMemory``.
    """
    service = VerifierKey.parse(identity)
    memory = options.log_memory
    watch = None if memory is None else LogWatch(service, memory=FileMemory(Path(memory)))
    try:
        http = httpx.Client(base_url=url, verify=trusting(options.tls_ca, name="--tls-ca"), trust_env=False)
    except httpx.InvalidURL as exc:
        raise ConfigurationError(f"--kms: not a URL: {exc}", code="url-invalid", field="--kms") from exc
    with http:
        yield KeyReleaseClient(http, service=service, watch=watch, expect=expect)


def places_of(keys: tuple[str, ...], *, output: str | None, directory: str | None) -> tuple[str, ...]:
    """Return the destination of each key, checked before the request, so that no key is released in vain.

    Raises:
        ConfigurationError: no place, two of them, one for several keys (``option-not-applicable``), a file that is
            there (``output-exists``), a terminal (``output-terminal``), or what is no name of a key.
    """
    wanted = tuple(map(KeyReference.parse, keys))
    if (output is None) is (directory is None):
        raise _misplaced("give --output for one key, or --output-directory")
    if output is not None and len(wanted) > 1:
        raise _misplaced("several keys go to --output-directory")
    if output == STDOUT and sys.stdout.isatty():
        problem, hint = "a key is not written to a terminal", "name a file with -o FILE"
        raise ConfigurationError(problem, code="output-terminal", hint=hint)
    places = (output,) if output is not None else tuple(str(Path(directory or ".") / _file_of(k)) for k in wanted)
    for place in places:
        if place != STDOUT:
            require_absent(place)
    return places


def write_keys(released: tuple[ReleasedKey, ...], places: tuple[str, ...]) -> None:
    """Write each key into a file that its owner alone can read, or none of them.

    Raises:
        ConfigurationError: ``output-exists`` or ``output-unwritable``.
    """
    made: list[str] = []
    try:
        for place, key in zip(places, released, strict=True):
            if place == STDOUT:
                sys.stdout.buffer.write(key.material)
                sys.stdout.buffer.flush()
            else:
                write_file(place, key.material)
                made.append(place)
    except BaseException:
        for place in made:
            Path(place).unlink(missing_ok=True)
        raise


def _file_of(key: KeyReference) -> str:
    """Return a file name; ``+`` is in no key's name, so two keys never share one."""
    tenant = "" if key.name.tenant == DEFAULT_TENANT else f"{key.name.tenant}+"
    version = f"@{key.version}" if key.version else ""
    return f"{tenant}{key.name.key_id}{version}.key"


def _misplaced(problem: str) -> ConfigurationError:
    return ConfigurationError(problem, code="option-not-applicable", field="--output")
