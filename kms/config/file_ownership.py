"""Ownership of the files that the service trusts: settings, roots, Verifiers, witnesses, issuers, code of a token.

Write access to one of these controls what is released. Only the service's user and root may have write access to the
file and its folders. A read-only file system is safe on this machine.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from attest.errors import ConfigurationError
from attest.named_files import unreadable
from kms.auth.issuers import read_issuers
from kms.config.kbs import named_by_kbs
from kms.config.maa import named_by_maa
from kms.config.settings import Settings
from kms.config.skr import named_by_skr, signing_keys_of_skr
from kms.release.verifiers import named_key_sets

_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_NAMES: Final = ("kek_module", "anchors_file", "verifiers_file", "witnesses_file", "admin_client_ca_file")
_ISSUERS: Final = ("admin_issuers_file", "callers_issuers_file")


def believed_files(settings: Settings, config: Path | None) -> Iterator[tuple[str, Path]]:
    """Yield each trusted file with the setting that names it; the settings file ``config`` is one.

    Raises:
        ConfigurationError: as ``read_issuers`` and ``read_verifiers``, of files that name others.
    """
    if config is not None:
        yield "config", config
    for name in _NAMES:
        if (path := getattr(settings, name)) is not None:
            yield name, path
    if settings.verifiers_file is not None:
        yield from (("verifiers_file", path) for path in named_key_sets(settings.verifiers_file))
    if (file := settings.kbs_file) is not None:
        yield from (("kbs_file", path) for path in (file, *named_by_kbs(file)))
    if (file := settings.maa_file) is not None:
        yield from (("maa_file", path) for path in (file, *named_by_maa(file)))
    if (file := settings.skr_file) is not None:
        yield from (("skr_file", path) for path in (file, *named_by_skr(file), *signing_keys_of_skr(file)))
    yield from (("bundle_keys", path) for path in settings.bundle_keys)
    for name in _ISSUERS:
        if (path := getattr(settings, name)) is None:
            continue
        yield name, path
        yield from ((name, one) for issuer in read_issuers(path) for one in issuer.files)


def require_guarded(settings: Settings, config: Path | None) -> int:
    """Refuse a trusted file that other users could write or replace; return the number of files.

    Raises:
        ConfigurationError: ``file-writable-by-others``, ``file-unreadable``, or as ``believed_files``.
    """
    files = dict.fromkeys(believed_files(settings, config))
    for name, path in files:
        require_guarded_file(name, path)
    return len(files)


def require_guarded_file(name: str, path: Path) -> None:
    """Refuse a file that other users could write or replace; its reader refuses a missing one.

    Raises:
        ConfigurationError: ``file-writable-by-others`` or ``file-unreadable``, with ``name`` as the setting.
    """
    try:
        # A link is resolved, and the folder of each name on the way is checked, too.
        file = path.resolve(strict=True)
        status = file.stat()
        folders = {one.absolute().parent: one.absolute().parent.stat() for one in (path, file)}
    except FileNotFoundError:
        return  # an unnamed pipe, or a missing file, which its reader refuses
    except OSError as exc:
        raise unreadable(path, name, exc) from exc
    if not stat.S_ISREG(status.st_mode):
        return
    _require_owned(name, file, status)
    for folder, found in folders.items():
        # In a sticky folder only the owners of the file and of the folder can remove the file.
        if found.st_mode & stat.S_ISVTX and found.st_uid in {0, os.geteuid()}:
            continue
        _require_owned(name, folder, found)


def _require_owned(name: str, path: Path, status: os.stat_result) -> None:
    if os.statvfs(path).f_flag & os.ST_RDONLY:
        return
    if status.st_uid not in {0, os.geteuid()}:
        problem, hint = f"belongs to user {status.st_uid}", f"change its owner to the user of the service: {path}"
    elif status.st_mode & _OTHERS_WRITE:
        mode = f"{stat.S_IMODE(status.st_mode):04o}"
        problem, hint = f"can be written by others (mode {mode})", f"chmod go-w {path}"
    else:
        return
    raise ConfigurationError(
        f"{name}: {path} {problem}, which would give them control over what is released",
        code="file-writable-by-others",
        field=name,
        expected="write access only for the service's user and root",
        got=problem,
        hint=hint,
    )
