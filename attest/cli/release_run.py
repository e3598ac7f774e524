"""Steps of ``attest release``: the demands on the service, the connection, and the destinations of keys."""

from __future__ import annotations

import secrets
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import httpx

from attest.cli.endorsement_fetch import fetch_missing
from attest.cli.files import read_file, walk_endorsements
from attest.cli.options import Network
from attest.cli.policies import read_policy
from attest.clock import this_second
from attest.endorsements.anchors import TrustAnchors, read_anchor_file
from attest.endorsements.bundle_records import MAX_BUNDLE_BYTES
from attest.endorsements.pool import Endorsements
from attest.errors import ConfigurationError
from attest.evidence.endorsement_files import read_endorsements
from attest.evidence.envelope import Evidence
from attest.files import require_absent, write_file
from attest.release import VerifierKey
from attest.release.client import KeyReleaseClient, ReleasedKey
from attest.release.log_monitor import FileMemory, LogWatch
from attest.release.mutual_attestation import ServiceExpectation
from attest.release.names import DEFAULT_TENANT, KeyReference
from attest.terminal.display import Display

__all__ = ["Expected", "Places", "expectation", "open_client"]

MAX_SMALL_FILE_BYTES = 1024 * 1024
STDOUT = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The demands on the service's own machine; without a policy there are none."""

    policy: str | None
    configuration: bytes | None
    unchecked_tls: str | None
    endorsements: tuple[str, ...]
    anchors: str | None
    allow_simulated: bool
    offline: bool


def expectation(wanted: Expected, *, network: Network, display: Display) -> ServiceExpectation | None:
    """Return the demands of a client on the service; None without a policy.

    Raises:
        ConfigurationError: a file is missing or wrong, or a relaxation has no reason.
    """
    if wanted.policy is None:
        return None
    if wanted.unchecked_tls is not None and not wanted.unchecked_tls.strip():
        raise ConfigurationError(
            "--unchecked-tls: say why", code="option-not-applicable", field="--unchecked-tls", expected="a reason"
        )
    policy = read_policy(wanted.policy, what="--expect-policy")
    pool = _endorsements(wanted.endorsements, display=display)

    def fetch(evidence: Evidence, at: datetime) -> Endorsements:
        gathered = fetch_missing(evidence, at=at, network=network, display=display, pool=pool)
        for failure in gathered.failures:
            display.warn(failure.message)
        return gathered.endorsements

    return ServiceExpectation(
        policy=policy,
        anchors=_anchors(wanted, display),
        endorsements=pool,
        clock=this_second,
        random=secrets.token_bytes,
        fetch=None if wanted.offline else fetch,
        configuration=wanted.configuration,
        unchecked_tls=wanted.unchecked_tls,
    )


def _anchors(wanted: Expected, display: Display) -> TrustAnchors:
    anchors = TrustAnchors.vendors()
    if wanted.anchors is not None:
        text = read_file(wanted.anchors, limit=MAX_SMALL_FILE_BYTES, what="--anchors")
        anchors = read_anchor_file(text, base=anchors)
    if not wanted.allow_simulated:
        return anchors
    display.warn("a service on a SIMULATED machine is accepted (--allow-simulated); that proves nothing about hardware")
    return anchors.with_anchors(TrustAnchors.simulation().anchors)


def _endorsements(paths: tuple[str, ...], *, display: Display) -> Endorsements:
    files = walk_endorsements(paths, limit=MAX_BUNDLE_BYTES, warn=display.warn)
    found = read_endorsements(files, at=this_second())
    for warning in found.warnings:
        display.warn(warning)
    return found.endorsements


@contextmanager
def open_client(
    url: str, *, identity: str, tls_ca: str | None, log_memory: str | None, expect: ServiceExpectation | None
) -> Iterator[KeyReleaseClient]:
    """Prepare the connection to a service; no request is made yet.

    Raises:
        ConfigurationError: ``verifier-key-invalid``, ``tls-ca-unusable``, ``url-invalid``, or as ``FileMemory``.
    """
    service = VerifierKey.parse(identity)
    watch = None if log_memory is None else LogWatch(service, memory=FileMemory(Path(log_memory)))
    try:
        http = httpx.Client(base_url=url, verify=_trusting(tls_ca), trust_env=False)
    except httpx.InvalidURL as exc:
        raise ConfigurationError(f"--kms: not a URL: {exc}", code="url-invalid", field="--kms") from exc
    with http:
        yield KeyReleaseClient(http, service=service, watch=watch, expect=expect)


def _trusting(tls_ca: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=tls_ca)
    except (OSError, ssl.SSLError) as exc:
        raise ConfigurationError(
            f"--tls-ca: {tls_ca} cannot be used: {exc.strerror or exc}",
            code="tls-ca-unusable",
            field="--tls-ca",
            expected="certificates in PEM",
        ) from exc


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Destinations of keys, checked before the request, so that no key is released in vain.

    Attributes:
        names: one for each key, in their order; ``-`` is standard output.
    """

    names: tuple[str, ...]

    @staticmethod
    def of(keys: tuple[str, ...], *, output: str | None, directory: str | None) -> Places:
        """Return the destination of each key.

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
            raise ConfigurationError(
                "a key is not written to a terminal", code="output-terminal", hint="name a file with -o FILE"
            )
        names = (output,) if output is not None else tuple(str(Path(directory or ".") / _file_of(k)) for k in wanted)
        for name in names:
            if name != STDOUT:
                require_absent(name)
        return Places(names=names)

    def write(self, released: tuple[ReleasedKey, ...]) -> tuple[str, ...]:
        """Write each key into a file that its owner alone can read, or none of them.

        Returns:
            Where each is.

        Raises:
            ConfigurationError: ``output-exists`` or ``output-unwritable``.
        """
        made: list[str] = []
        try:
            for name, key in zip(self.names, released, strict=True):
                if name == STDOUT:
                    sys.stdout.buffer.write(key.material)
                    sys.stdout.buffer.flush()
                else:
                    write_file(name, key.material)
                    made.append(name)
        except BaseException:
            for name in made:
                Path(name).unlink(missing_ok=True)
            raise
        return self.names


def _file_of(key: KeyReference) -> str:
    """Return a file name; ``+`` is in no key's name, so two keys never share one."""
    tenant = "" if key.name.tenant == DEFAULT_TENANT else f"{key.name.tenant}+"
    version = f"@{key.version}" if key.version else ""
    return f"{tenant}{key.name.key_id}{version}.key"


def _misplaced(problem: str) -> ConfigurationError:
    return ConfigurationError(problem, code="option-not-applicable", field="--output")
