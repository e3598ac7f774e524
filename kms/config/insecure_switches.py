"""Settings that weaken the service, by name. The production profile refuses all of them (MC-42)."""

from __future__ import annotations

from typing import Final

from sqlalchemy.engine import URL

from attest.errors import ConfigurationError
from kms.config.guards import LOOPBACK
from kms.config.listener_tls import is_plain_beyond_this_machine
from kms.config.settings import Settings
from kms.store import locate

SWITCHES: Final = {
    "allow_simulated": "SIMULATED evidence is accepted, which proves nothing about hardware",
    "allow_thaw_by_one": "one person can lift a freeze, unless the service has or had a quorum",
    "allow_no_rollback_guard": "there is no rollback guard: replacing the database by an older copy goes undetected",
    "unsigned_bundles": "endorsement bundles are accepted without the operator's signature (bundle_keys is empty)",
    "no_fsck": "the running service does not compare the database with its log (fsck_every_seconds is 0)",
    "plain_http": "other machines are served without TLS: the network can read who requests which key",
    "database_tls": "the identity of the database server is not verified (sslmode of the database's URL)",
}
"""Each insecure setting and its effect. The names are labels of a metric, so the list is closed."""
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
    """Refuse insecure settings under the production profile.

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
        expected="no insecure setting",
        got=", ".join(found),
        hint="turn it off, or use no profile for experiments",
    )


def _database_unproved(database: str) -> bool:
    """Return True if a remote server is not verified. Without ``sslmode`` the store verifies it."""
    place = locate(database)
    if not isinstance(place, URL):
        return False
    host = str(place.host or place.query.get("host", ""))
    local = host in LOOPBACK or host.startswith("/")
    return not local and place.query.get("sslmode", _STRICT_MODE) != _STRICT_MODE
