"""Every switch that makes the service demand less than it could, by name. None of them is on in production (MC-42)."""

from __future__ import annotations

from typing import Final

from sqlalchemy.engine import URL

from attest.errors import ConfigurationError
from kms.config.guards import LOOPBACK
from kms.config.listener_tls import is_plain_beyond_this_machine
from kms.config.settings import Settings
from kms.store import locate

SWITCHES: Final = {
    "allow_simulated": "SIMULATED evidence is accepted; it proves nothing about hardware",
    "allow_thaw_by_one": "one person can thaw what was frozen, unless the service has or had a quorum",
    "allow_no_rollback_guard": "an older copy of the database can be put back unnoticed: no rollback guard is kept",
    "unsigned_bundles": "bundles of endorsements count without a signature of the operator's (bundle_keys is empty)",
    "no_fsck": "the running service does not compare the database with its log (fsck_every_seconds is 0)",
    "plain_http": "others than this machine are served without TLS, and everybody on the way sees who asks for what",
    "database_tls": "the server of the database need not prove its name (sslmode of the database's URL)",
}
"""Each relaxed switch and what it does. The names are labels of a metric, so the list is closed."""
_STRICT_MODE: Final = "verify-full"


def relaxed_switches(settings: Settings) -> dict[str, str]:
    """Return the part of ``SWITCHES`` that these settings turn on, in its order."""
    on = {
        "allow_simulated": settings.allow_simulated,
        "allow_thaw_by_one": settings.allow_thaw_by_one,
        "allow_no_rollback_guard": settings.allow_no_rollback_guard,
        "unsigned_bundles": bool(settings.endorsements) and not settings.bundle_keys and not settings.is_production,
        "no_fsck": settings.fsck_every_seconds == 0,
        "plain_http": is_plain_beyond_this_machine(settings),
        "database_tls": _database_unproved(settings.database),
    }
    return {name: text for name, text in SWITCHES.items() if on[name]}


def require_strict(settings: Settings) -> None:
    """Refuse relaxed switches under the production profile.

    Raises:
        ConfigurationError: ``production-relaxed``, naming all of them.
    """
    found = relaxed_switches(settings)
    if not settings.is_production or not found:
        return
    raise ConfigurationError(
        'profile = "production" refuses: ' + "; ".join(f"{name}: {text}" for name, text in found.items()),
        code="production-relaxed",
        field=next(iter(found)),
        expected="no relaxed switch",
        got=", ".join(found),
        hint="turn it off, or leave the profile out while you try things",
    )


def _database_unproved(database: str) -> bool:
    """Return True if a remote server need not prove its name. Without ``sslmode`` the store demands the proof."""
    place = locate(database)
    if not isinstance(place, URL):
        return False
    host = str(place.host or place.query.get("host", ""))
    local = host in LOOPBACK or host.startswith("/")
    return not local and place.query.get("sslmode", _STRICT_MODE) != _STRICT_MODE
