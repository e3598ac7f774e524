"""A new service in a directory of its own."""

from __future__ import annotations

from pathlib import Path

from attest.errors import ConfigurationError, OutputError
from attest.files import write_file
from attest.unfinished_file import UNFINISHED_SUFFIX
from kms.config.settings import require_origin

_TEMPLATE = """\
# Settings of the key-release service; 'kms config show --config THIS' prints them all. Paths are relative to this file.
origin = "{origin}"
database = "kms.db"
kek_file = "kek"  # better on another disk, and not in the same backup
kek_directory = "keks"  # what describes a further key-encryption key, before 'kms kek rotate'
# Remembers how far the database has come; better on another disk than the database, and in none of its backups.
rollback_guard = ["file:guard/kms.json"]

host = "127.0.0.1"
port = 8750

# Certificates, revocation lists and bundles; read at start and on SIGHUP.
# endorsements = ["endorsements"]
# Ask the services of AMD, Intel and NVIDIA for what is not there.
fetch = false
{simulated}"""
_SIMULATED = """
# Evidence of the simulator proves nothing about hardware. Never in production.
allow_simulated = true
"""


def prepare_directory(directory: Path, *, origin: str | None, allow_simulated: bool) -> Path:
    """Make a directory with a settings file in it, both for their owner alone, and return the path of the file.

    A settings file that an interrupted initialisation wrote with the same content is used as it is.

    Raises:
        ConfigurationError: ``config-invalid`` (no origin), ``config-exists`` or ``directory-unusable``.
    """
    if not origin:
        raise ConfigurationError(
            "a new service needs a name",
            code="config-invalid",
            field="origin",
            hint="name it with --origin, such as --origin kms.example/prod; it stays for ever",
        )
    require_origin(origin)  # before anything is written: a directory with a name that cannot be is in the way
    path = directory / "kms.toml"
    content = _TEMPLATE.format(origin=origin, simulated=_SIMULATED if allow_simulated else "")
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(path, content)
    except OSError as exc:
        raise _unusable(directory, exc.strerror or str(exc)) from exc
    except OutputError as exc:
        if exc.code != "output-exists":
            raise _unusable(directory, exc.reason) from exc
        if _interrupted(directory, path, content.encode()):
            return path
        raise ConfigurationError(
            f"{path} is there already",
            code="config-exists",
            field="config",
            hint=f"'kms init --config {path}' makes what it names",
        ) from exc
    return path


def _unusable(directory: Path, problem: str) -> ConfigurationError:
    return ConfigurationError(f"{directory} cannot be used: {problem}", code="directory-unusable", field="directory")


def _interrupted(directory: Path, path: Path, content: bytes) -> bool:
    """Return True if this settings file has this content, and the service that it names is incomplete."""
    names = {name: (directory / name).exists() for name in ("kms.db", "kek", "kek" + UNFINISHED_SUFFIX)}
    whole = names == {"kms.db": True, "kek": True, "kek" + UNFINISHED_SUFFIX: False}
    try:
        return not whole and path.is_file() and path.read_bytes() == content
    except OSError:
        return False
