"""Files reloaded on SIGHUP: trusted Verifiers, and keys that sign tokens.

Each is checked as at start and logged before it takes effect. An unreadable or unapproved file changes nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from attest.errors import ConfigurationError
from kms.auth.issuers import BearerIssuer
from kms.auth.keysets import KeySets
from kms.config.configuration import Configuration, log_configuration, read_configuration, with_key_sets
from kms.config.file_ownership import require_guarded, require_guarded_file
from kms.config.settings import Settings
from kms.domain.actors import local_actor
from kms.domain.anchors import anchor_lines
from kms.quorum.anchors import require_approved
from kms.release.services import Services
from kms.release.verifiers import read_verifiers, verifier_lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Reread:
    """A file reloaded on SIGHUP, and the message of success; an ``AttestError`` keeps its old content in use."""

    done: str
    read: Callable[[], object]


@dataclass(slots=True, eq=False)
class Meaning:
    """The configuration of this process; every change is logged before it takes effect.

    A file that is not reloaded keeps its previous meaning.
    """

    settings: Settings
    services: Services
    configuration: Configuration
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def current(self) -> Configuration:
        """Return the present configuration, as logged."""
        return self.configuration

    def key_sets(self, name: str, issuers: tuple[BearerIssuer, ...]) -> None:
        """Log the content of the files of these issuers, which the setting ``name`` selected at start.

        Raises:
            ConfigurationError: one of the files is unreadable, or other users could write it.
            UnavailableError: the database is in use, or the clock is wrong.
            IntegrityError: ``store-fact-invalid``.
        """
        for path in (one for issuer in issuers for one in issuer.files):
            require_guarded_file(name, path)
        with self._lock:
            before = self.configuration.settings.get(name)
            first = before[0] if isinstance(before, list) else before
            values = {**self.configuration.settings, name: with_key_sets(first, issuers, name)}
            self._log(Configuration(document={**self.configuration.document, "settings": values}))

    def verifiers(self, path: Path) -> None:
        """Trust the Verifiers in the present file, which is a change of roots, approved if a rule requires it.

        Raises:
            ConfigurationError: ``verifiers-invalid``, ``anchors-not-approved``, or as ``key_sets``.
            UnavailableError: the database is in use, or the clock is wrong.
            IntegrityError: ``store-fact-invalid``.
        """
        require_guarded(self.settings, None)
        with self._lock:
            verifiers = read_verifiers(path)
            fresh = read_configuration(self.settings, self.services.anchors)
            if fresh.anchors != {*anchor_lines(self.services.anchors), *verifier_lines(verifiers)}:
                raise ConfigurationError(
                    f"verifiers_file: {path} changed while it was being read",
                    code="file-unreadable",
                    field="verifiers_file",
                    hint="send SIGHUP again",
                )
            with self.services.store.reading() as tx:
                require_approved(tx, fresh.anchors_digest)
            values = {**self.configuration.settings, "verifiers_file": fresh.settings["verifiers_file"]}
            anchors = fresh.document["anchors"]
            self._log(Configuration(document={**fresh.document, "settings": values, "anchors": anchors}))
            self.services.passports.trust(verifiers)

    def _log(self, configuration: Configuration) -> None:
        services = self.services
        log_configuration(services.store, configuration, actor=local_actor(), at=services.clock())
        self.configuration = configuration


def key_sets_again(whose: str, key_sets: KeySets) -> Reread:
    """Return the reload of key sets on SIGHUP; an unreadable one is reported, and its old keys stay in use."""
    return Reread(
        done=f"the key sets for tokens of {whose} were reloaded", read=partial(key_sets.refresh, everything=True)
    )


def verifiers_again(settings: Settings, meaning: Meaning) -> tuple[Reread, ...]:
    """Return the reload of trusted Verifiers on SIGHUP; nothing if the settings have none."""
    if settings.verifiers_file is None:
        return ()
    read = partial(meaning.verifiers, settings.verifiers_file)
    return (Reread(done="the Verifiers were reloaded", read=read),)
