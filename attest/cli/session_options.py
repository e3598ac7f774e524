"""Options of the commands that hold keys, and the session that they make."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING

import click

from attest.cli.machine import machine_of
from attest.cli.service_options import KEY_SERVICE, SERVICE_MACHINE_OPTIONS
from attest.terminal.display import Command, Display, stacked

if TYPE_CHECKING:
    from attest.encoding import JsonValue
    from attest.errors import LeaseLostError
    from attest.session import Session, SessionKey, SessionSettings

_OPTIONS = (
    click.option("--kms", metavar="URL", help="URL of the service. Also ATTEST_KMS_URL."),
    click.option(
        "--identity", metavar="TEXT", help="Its verifier key, never taken from the service. Also ATTEST_KMS_KEY."
    ),
    click.option("--config", metavar="FILE", help="Settings file, instead of the usual attest.toml files."),
    *SERVICE_MACHINE_OPTIONS,
    click.option("--timeout", type=float, metavar="SECONDS", help="One deadline for all attempts. Default: 30."),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """The options of a session, by the names of its settings."""

    given: dict[str, object]
    config: str | None

    def settings(self) -> SessionSettings:
        """Return the effective settings.

        Raises:
            ConfigurationError: one is missing or wrong.
        """
        from attest.session import load_settings
        from attest.session.settings import CONFIG_VARIABLE

        environ = dict(os.environ) if self.config is None else {**os.environ, CONFIG_VARIABLE: self.config}
        return load_settings(self.given, environ=environ)

    def session(
        self,
        *,
        display: Display,
        on_lost: Callable[[SessionKey, LeaseLostError], None] | None = None,
        on_renewed: Callable[[SessionKey], None] | None = None,
        background: bool = True,
    ) -> Session:
        """Make a session of this machine; no request is made yet. Errors as ``settings``."""
        from attest.collect import collect_machine
        from attest.session import Session

        settings = self.settings()
        _warn_of_relaxations(settings, display)
        attester = partial(collect_machine, access=machine_of(settings.tcti), with_gpus=settings.gpus)
        return Session(
            settings=settings, attester=attester, on_lost=on_lost, on_renewed=on_renewed, background=background
        )


def _warn_of_relaxations(settings: SessionSettings, display: Display) -> None:
    if settings.unchecked_tls is not None:
        display.warn(f"the TLS connection is not compared with what the service proves: {settings.unchecked_tls}")
    if settings.allow_simulated:
        display.warn("a service on a SIMULATED machine is accepted; that proves nothing about hardware")


_SETTINGS = {
    "kms": "url",
    "identity": "key",
    "tls_ca": "tls_ca",
    "expect_policy": "policy",
    "expect_configuration": "configuration",
    "unchecked_tls": "unchecked_tls",
    "endorsements": "endorsements",
    "anchors": "anchors",
    "allow_simulated": "allow_simulated",
    "offline": "offline",
    "log_memory": "log_memory",
    "tcti": "tcti",
    "timeout": "timeout_seconds",
}
"""Option to the setting that it states."""


def service_options(command: Command) -> Command:
    """Give a command the options about the service, as the argument ``service``."""

    @wraps(command)
    def with_service(*arguments: object, config: str | None, no_gpus: bool, **options: object) -> object:
        stated = {setting: options.pop(name) for name, setting in _SETTINGS.items()}
        # A flag or list that is left out states nothing: the settings files decide.
        given = {name: None if value is False or value == () else value for name, value in stated.items()}
        given["gpus"] = False if no_gpus else None
        return command(*arguments, service=SessionOptions(given=given, config=config), **options)

    return stacked(_OPTIONS, title=KEY_SERVICE)(with_service)


def settings_document(settings: SessionSettings) -> dict[str, JsonValue]:
    """Return every setting with its source. None of them is secret."""
    texts: dict[str, JsonValue] = {
        "url": settings.url,
        "key": settings.service.text,
        "tls_ca": path_text(settings.tls_ca),
        "policy": path_text(settings.policy),
        "configuration": None if settings.configuration is None else settings.configuration.hex(),
        "unchecked_tls": settings.unchecked_tls,
        "endorsements": [str(path) for path in settings.endorsements],
        "anchors": path_text(settings.anchors),
        "allow_simulated": settings.allow_simulated,
        "offline": settings.offline,
        "log_memory": path_text(settings.log_memory),
        "gpus": settings.gpus,
        "tcti": settings.tcti,
        "timeout_seconds": settings.timeout_seconds,
    }
    origins = {"key": settings.origins.get("key_file", "")} | dict(settings.origins)
    return {name: {"value": value, "from": origins.get(name) or "default"} for name, value in texts.items()}


def path_text(path: Path | None) -> str | None:
    """Return a path as text, and None as it is."""
    return None if path is None else str(path)
