"""Issuers whose tokens count for those who ask for keys, where the settings want to know them (MC-21)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from attest.clock import Clock
from attest.errors import ConfigurationError
from kms.auth.authentication import Authenticator
from kms.auth.issuers import BearerIssuer, read_issuers
from kms.auth.keysets import KeySets, Noted, read_key_set
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
    """Open what tells who calls the release plane, or None where anybody may; key sets are read until the end.

    Args:
        settings: validated.
        store: remembers tokens that count once.
        clock: tells the time.
        report: takes a line for the operator.
        noted: called with the setting and its issuers when a file of keys says something new, before that counts.

    Raises:
        ConfigurationError: as ``read_callers``.
    """
    issuers = read_callers(settings)
    if not issuers:
        yield None
        return
    key_sets = KeySets(
        issuers, fetch=read_key_set, clock=clock, report=report, noted=partial(noted, "callers_issuers_file", issuers)
    )
    key_sets.start()
    try:
        yield Authenticator(store=store, key_sets=key_sets, certificate_names=None, clock=clock)
    finally:
        key_sets.stop()


def read_callers(settings: Settings) -> tuple[BearerIssuer, ...]:
    """Return whose tokens are accepted of those who ask for keys; none where anybody may.

    Raises:
        ConfigurationError: ``issuers-invalid``: also when administrators could use a token of a workload, or a
            workload one of an administrator.
    """
    if settings.callers_issuers_file is None:
        return ()
    issuers = read_issuers(settings.callers_issuers_file)
    admins = () if settings.admin_issuers_file is None else read_issuers(settings.admin_issuers_file)
    shared = {(one.issuer, one.audience) for one in issuers} & {(one.issuer, one.audience) for one in admins}
    if shared:
        raise ConfigurationError(
            f"tokens of {min(shared)[0]} would count for workloads and for administrators alike",
            code="issuers-invalid",
            field="callers_issuers_file",
            expected="another audience for each of the two",
            got=min(shared)[1],
        )
    return issuers
