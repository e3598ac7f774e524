"""``kms config``: show the settings, and check whether the service would start with them."""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from attest.terminal import ExampleGroup
from kms.cli.options import AS_JSON, print_json, wants_json, with_settings

if TYPE_CHECKING:
    from kms.config.settings import LoadedSettings


@click.group(
    cls=ExampleGroup,
    examples=(
        "kms config check --config kms.toml",
        "kms config show --config kms.toml",
    ),
)
def config() -> None:
    """Show and check the settings. Run this on the service's machine."""


@config.command("show", examples=("kms config show --config kms.toml",))
@with_settings(AS_JSON, serving=True)
def config_show(loaded: LoadedSettings) -> None:
    """Print the effective settings and the source of each. No setting is a secret."""
    values = loaded.settings.model_dump(mode="json")
    if wants_json():
        rows = {name: {"value": value, "source": loaded.sources[name]} for name, value in values.items()}
        print_json({"schema": "kms.config/1", "settings": rows})
        return
    for name, value in values.items():
        click.echo(f"{name:26} {json.dumps(value):40} {loaded.sources[name]}")


@config.command("check", examples=("kms config check --config kms.toml",))
@with_settings(AS_JSON, serving=True)
@click.option(
    "--warn-days",
    type=click.IntRange(0, 3650),
    default=14,
    show_default=True,
    help="Warn about anything that expires within this many days.",
)
@click.option("--strict", is_flag=True, help="Treat warnings as failures.")
def config_check(loaded: LoadedSettings, warn_days: int, strict: bool) -> None:
    """Check everything that the settings name, as at start.

    Nothing is changed, and the service may be running.

    Exit codes: 0 the service would start; 1 something failed; 2 the settings cannot be read.
    """
    from attest.clock import system_clock
    from kms.cli.config_check import check_settings
    from kms.domain.errors import KmsError

    settings, file, random = loaded.settings, loaded.file, secrets.token_bytes
    findings = list(check_settings(settings, config=file, clock=system_clock, random=random, warn_days=warn_days))
    bad = {"failed", "warning"} if strict else {"failed"}
    sound = not any(finding.outcome in bad for finding in findings)
    if wants_json():
        rows = [asdict(finding) for finding in findings]
        print_json({"schema": "kms.config-check/1", "sound": sound, "checks": rows})
    else:
        for finding in findings:
            click.echo(f"{finding.check:20} {finding.outcome:8} {finding.text}")
            if finding.hint and finding.outcome != "ok":
                click.echo(f"{'':29} hint: {finding.hint}")
    if not sound:
        failed = ", ".join(dict.fromkeys(finding.check for finding in findings if finding.outcome in bad))
        raise KmsError(f"failed checks: {failed}", code="configuration-unsound", field=failed)
