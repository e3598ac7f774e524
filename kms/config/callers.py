"""Token issuers for callers of the release plane, if callers are identified (MC-21), and for administrators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from attest.clock import Clock
from attest.errors import ConfigurationError
from kms.auth.authentication import Authenticator, open_authenticator
from kms.auth.issuers import BearerIssuer, read_issuers
from kms.auth.keysets import Noted
from kms.config.settings import Settings
from kms.store import Store


@contextmanager
def identified_callers(
    settings: Settings,
    store: Store,
    *,
    clock: Clock,
    report: Callable[[str], None],
    noted: Noted = lambda *_: None,
) -> Iterator[Authenticator | None]:
    """Open the ``Authenticator`` of the release plane, or None if callers are not identified.

    Raises:
        ConfigurationError: as ``read_callers``.
    """
    issuers = read_callers(settings)
    if not issuers:
        yield None
        return
    with open_authenticator(
        issuers,
        setting="callers_issuers_file",
        store=store,
        certificate_names=None,
        clock=clock,
        report=report,
        noted=noted,
    ) as authenticator:
        yield authenticator


def read_administrators(settings: Settings) -> tuple[BearerIssuer, ...]:
    """Return the issuers of administrators' tokens; none if only certificates are accepted.

    Raises:
        ConfigurationError: ``issuers-invalid``.
    """
    return () if settings.admin_issuers_file is None else read_issuers(settings.admin_issuers_file)


def read_callers(settings: Settings) -> tuple[BearerIssuer, ...]:
    """Return the issuers of tokens of callers of the release plane; none if callers are not identified.

    Raises:
        ConfigurationError: ``issuers-invalid``: also if one token would be accepted for workloads and administrators.
    """
    if settings.callers_issuers_file is None:
        return ()
    issuers = read_issuers(settings.callers_issuers_file)
    admins = read_administrators(settings)
    shared = {(one.issuer, one.audience) for one in issuers} & {(one.issuer, one.audience) for one in admins}
    if shared:
        raise ConfigurationError(
            f"tokens of {min(shared)[0]} would be accepted both for workloads and for administrators",
            code="issuers-invalid",
            field="callers_issuers_file",
            expected="different audiences for the two",
            got=min(shared)[1],
        )
    return issuers
