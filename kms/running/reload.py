"""Files that SIGHUP reads again: trusted Verifiers, and keys that sign tokens.

Each is checked as at the start and logged before it counts. What cannot be read, or is not approved, changes nothing.
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
    """A file read again on SIGHUP, and the message of success; an ``AttestError`` keeps its old content in use."""

    done: str
    read: Callable[[], object]


@dataclass(slots=True, eq=False)
class Meaning:
    """The configuration of this process; every change of it is in the log before it counts.

    A file that is not read again keeps the meaning that it had when it was read.
    """

    settings: Settings
    services: Services
    configuration: Configuration
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def current(self) -> Configuration:
        """Return the configuration that counts now, as the log has it."""
        return self.configuration

    def key_sets(self, name: str, issuers: tuple[BearerIssuer, ...]) -> None:
        """Note the content of the files of these issuers, which the setting ``name`` led to at the start.

        Raises:
            ConfigurationError: one of the files cannot be read, or others could write it.
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
        """Trust the Verifiers that the file names now: a change of roots, approved where that is demanded.

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
                    f"verifiers_file: {path} changed while it was read",
                    code="file-unreadable",
                    field="verifiers_file",
                    hint="send SIGHUP once more",
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
    """Return the reading of key sets on SIGHUP; one that cannot be read is reported and stays as it was."""
    return Reread(
        done=f"the key sets for tokens of {whose} were read again", read=partial(key_sets.refresh, everything=True)
    )


def verifiers_again(settings: Settings, meaning: Meaning) -> tuple[Reread, ...]:
    """Return the reading of trusted Verifiers on SIGHUP; nothing where the settings name none."""
    if settings.verifiers_file is None:
        return ()
    read = partial(meaning.verifiers, settings.verifiers_file)
    return (Reread(done="the Verifiers were read again", read=read),)
