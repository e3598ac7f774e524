"""Settings file of a new service, in its own directory."""

from __future__ import annotations

from pathlib import Path

from attest.errors import ConfigurationError, OutputError
from attest.files import write_file
from attest.unfinished_file import UNFINISHED_SUFFIX
from kms.config.settings import require_origin

_TEMPLATE = """\
# Settings of the key-release service; 'kms config show --config FILE' prints all. Paths are relative to this file.
origin = "{origin}"
database = "kms.db"
kek_file = "kek"  # preferably on another disk than the database, and not in the same backup
kek_directory = "keks"  # definitions of further key-encryption keys, for 'kms kek rotate'
# Detects an older copy of the database. Preferably on another disk than the database, and not in its backups.
rollback_guard = ["file:guard/kms.json"]

host = "127.0.0.1"
port = 8750

# Certificates, revocation lists and bundles, read at start and on SIGHUP.
# endorsements = ["endorsements"]
# Fetch missing endorsements from the services of AMD, Intel and NVIDIA.
fetch = false
{simulated}"""
_SIMULATED = """
# Evidence of the simulator proves nothing about hardware. Do not use this in production.
allow_simulated = true
"""


def prepare_directory(directory: Path, *, origin: str | None, allow_simulated: bool) -> Path:
    """Create a directory with a settings file, both private to their owner, and return the path of the file.

    A settings file with the same content from an interrupted initialisation is reused.

    Raises:
        ConfigurationError: ``config-invalid`` (no origin), ``config-exists`` or ``directory-unusable``.
    """
    if not origin:
        raise ConfigurationError(
            "a new service needs a name",
            code="config-invalid",
            field="origin",
            hint="set it with --origin, such as --origin kms.example/prod; it cannot be changed later",
        )
    require_origin(origin)  # before anything is written, so that an invalid name leaves no directory
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
            f"{path} already exists",
            code="config-exists",
            field="config",
            hint=f"'kms init --config {path}' creates the database and the key-encryption key of this file",
        ) from exc
    return path


def _unusable(directory: Path, problem: str) -> ConfigurationError:
    return ConfigurationError(f"{directory} cannot be used: {problem}", code="directory-unusable", field="directory")


def _interrupted(directory: Path, path: Path, content: bytes) -> bool:
    """Return True if the settings file has this content, and its service is incomplete."""
    names = {name: (directory / name).exists() for name in ("kms.db", "kek", "kek" + UNFINISHED_SUFFIX)}
    whole = names == {"kms.db": True, "kek": True, "kek" + UNFINISHED_SUFFIX: False}
    try:
        return not whole and path.is_file() and path.read_bytes() == content
    except OSError:
        return False
