"""Parts of a session made from its settings: HTTP clients, expectations of the service, collection of evidence."""

from __future__ import annotations

import secrets
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from attest.clock import system_clock
from attest.collect import THIS_MACHINE, collect_machine
from attest.errors import AttestError, CollectionError, ConfigurationError
from attest.evidence.binding import Binding
from attest.evidence.envelope import Evidence
from attest.named_files import read_named
from attest.policy.document import MAX_POLICY_BYTES
from attest.policy.loader import Policy, load_policy
from attest.release.exchange import Attester
from attest.release.log_monitor import FileMemory, LogWatch
from attest.release.mutual_attestation import ServiceExpectation
from attest.session.settings import SessionSettings
from attest.session.verification_inputs import anchors_given, asking_vendors, endorsements_given

if TYPE_CHECKING:
    import httpx


def open_http(settings: SessionSettings) -> httpx.Client:
    """Return a blocking HTTP client for the service of the settings; errors as ``open_client``."""
    return open_client(settings.url, tls_ca=settings.tls_ca)


def open_client(url: str, *, tls_ca: Path | str | None = None, name: str = "tls_ca") -> httpx.Client:
    """Return a blocking HTTP client, without proxies of the environment; ``name`` is the setting's of the CA.

    Raises:
        ConfigurationError: ``tls-ca-unusable``, ``url-invalid`` or ``http-client-missing``.
    """
    with _client_errors(url):
        import httpx  # noqa: PLC0415  of the extra 'session'

        return httpx.Client(base_url=url, verify=trusting(tls_ca, name=name), trust_env=False)


def open_async_http(settings: SessionSettings) -> httpx.AsyncClient:
    """Return an HTTP client for asyncio; errors as ``open_client``."""
    with _client_errors(settings.url):
        import httpx  # noqa: PLC0415  of the extra 'session'

        return httpx.AsyncClient(base_url=settings.url, verify=trusting(settings.tls_ca), trust_env=False)


@contextmanager
def _client_errors(url: str) -> Iterator[None]:
    try:
        yield
    except ImportError as exc:
        raise ConfigurationError(
            "a session needs the package httpx",
            code="http-client-missing",
            expected="the extra 'session' of this package",
            hint="pip install 'attest-kms[session]'",
        ) from exc
    except ValueError as exc:  # httpx.InvalidURL is not an OSError, but some of its causes are
        raise ConfigurationError(f"{url!r} is not a URL: {exc}", code="url-invalid", field="url") from exc


def trusting(tls_ca: Path | str | None, *, name: str = "tls_ca") -> ssl.SSLContext:
    """Return the TLS trust: certificates of a file, or the system's; ``name`` is the setting's, for errors.

    Raises:
        ConfigurationError: ``tls-ca-unusable``.
    """
    try:
        return ssl.create_default_context(cafile=tls_ca)
    except (OSError, ssl.SSLError) as exc:
        raise ConfigurationError(
            f"{name}: {tls_ca} cannot be used: {exc.strerror or exc}",
            code="tls-ca-unusable",
            field=name,
            expected="certificates in PEM",
        ) from exc


def attester_of(settings: SessionSettings) -> Attester:
    """Return the collector of this machine's evidence."""
    access = THIS_MACHINE if settings.tcti is None else replace(THIS_MACHINE, tcti=settings.tcti)
    return partial(collect_machine, access=access, with_gpus=settings.gpus)


def guarded(attester: Attester) -> Attester:
    """Translate every error of an attester into a collection error: the machine gave no evidence."""

    def attest(binding: Binding) -> Evidence:
        try:
            return attester(binding)
        except CollectionError:
            raise
        except AttestError as exc:
            raise _no_evidence(exc.message, exc) from exc
        except Exception as exc:  # the caller's own code; it must not end the thread
            raise _no_evidence(f"{type(exc).__name__}: {exc}"[:300], exc) from exc

    return attest


def watch_of(settings: SessionSettings) -> LogWatch:
    """Return the monitor of the service's log."""
    memory = None if settings.log_memory is None else FileMemory(settings.log_memory)
    return LogWatch(settings.service, memory=memory)


def expectation_of(settings: SessionSettings, policy: Policy | ServiceExpectation | None) -> ServiceExpectation | None:
    """Return the requirements for the service's machine, if any; ``policy`` takes precedence over the settings.

    Raises:
        ConfigurationError: a missing or invalid file, or requirements without a policy.
    """
    if isinstance(policy, ServiceExpectation):
        return policy
    policy = policy or _policy_of(settings)
    if policy is None:
        return None
    pool = endorsements_given(settings.endorsements, at=system_clock())
    return ServiceExpectation(
        policy=policy,
        anchors=anchors_given(settings.anchors, allow_simulated=settings.allow_simulated),
        endorsements=pool,
        clock=system_clock,
        random=secrets.token_bytes,
        fetch=None if settings.offline else asking_vendors(pool),
        configuration=settings.configuration,
        unchecked_tls=settings.unchecked_tls,
    )


def _policy_of(settings: SessionSettings) -> Policy | None:
    if settings.policy is not None:
        return load_policy(read_named(settings.policy, "policy", limit=MAX_POLICY_BYTES), name=str(settings.policy))
    if settings.configuration is None and settings.unchecked_tls is None:
        return None
    raise ConfigurationError(
        "a configuration or unchecked_tls has no effect without a policy for the service's machine",
        code="session-settings-invalid",
        field="policy",
        expected="a policy for the service's own machine",
    )


def _no_evidence(problem: str, exc: Exception) -> CollectionError:
    return CollectionError(
        f"this machine gave no evidence: {problem}",
        code="attester-failed",
        got=getattr(exc, "code", type(exc).__name__),
        hint="'attest doctor' shows what is missing",
    )
