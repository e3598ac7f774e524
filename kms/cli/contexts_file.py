"""The file of contexts: the servers that this user administers, under names, and names of identities.

Nothing in it is secret: it names files with keys and tokens. It belongs to the user alone, because it decides which
server a command changes.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

from attest.errors import ConfigurationError
from attest.files import write_file
from attest.user_folders import user_folder

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_MAX_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """A server with the files that a command needs to administer it, as ``--server`` and its options.

    With an ``issuer``, ``kms login`` gets the token from it: ``client_id`` is the command's name there, ``scope`` is
    what it asks for, and ``token`` is the token that the service accepts, ``access_token`` or ``id_token``.
    """

    server: str
    ca: str | None = None
    client_cert: str | None = None
    client_key: str | None = None
    token_file: str | None = None
    issuer: str | None = None
    issuer_ca: str | None = None
    client_id: str | None = None
    scope: str = "openid"
    token: str = "access_token"  # noqa: S105  the name of a member


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextsFile:
    """The content of the file."""

    current: str | None = None
    contexts: Mapping[str, Context] = field(default_factory=dict[str, Context])
    identities: Mapping[str, str] = field(default_factory=dict[str, str])

    def context(self, name: str) -> Context:
        """Return a context by its name.

        Raises:
            ConfigurationError: ``context-unknown``.
        """
        found = self.contexts.get(name)
        if found is None:
            raise ConfigurationError(
                f"there is no context {name!r}",
                code="context-unknown",
                expected=" or ".join(sorted(self.contexts)) or "a context",
                got=name[:100],
                hint="'kms context list' lists them; 'kms context add NAME --server URL' adds one",
            )
        return found

    def added(self, name: str, context: Context, *, use: bool) -> ContextsFile:
        """Return the file with a context more; the first one becomes the current one."""
        contexts = {**self.contexts, name: context}
        return replace(self, contexts=contexts, current=name if use or not self.contexts else self.current)

    def removed(self, name: str) -> ContextsFile:
        """Return the file without a context; errors as ``context``."""
        self.context(name)
        contexts = {other: one for other, one in self.contexts.items() if other != name}
        return replace(self, contexts=contexts, current=None if self.current == name else self.current)

    def named(self, identity: str) -> str:
        """Return an identity with the user's name for it, if there is one."""
        name = self.identities.get(identity)
        return identity if name is None else f"{identity} ({name})"


def require_name(name: str) -> str:
    """Require a name of a context or an identity.

    Raises:
        ConfigurationError: ``context-name-invalid``.
    """
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"{name[:100]!r} is not a name",
            code="context-name-invalid",
            expected="1 to 63 characters of a-z, 0-9, '.', '_' and '-', the first a letter or digit",
        )
    return name


def contexts_path(environ: Mapping[str, str]) -> Path | None:
    """Return the path of the file; None where no folder of the user is known."""
    folder = user_folder("XDG_CONFIG_HOME", ".config", environ)
    return None if folder is None else folder / "kms" / "contexts.toml"


def token_path(name: str, environ: Mapping[str, str]) -> Path | None:
    """Return the path of the token that ``kms login`` writes for a context."""
    folder = user_folder("XDG_STATE_HOME", ".local/state", environ)
    return None if folder is None else folder / "kms" / "tokens" / name


def read_contexts(environ: Mapping[str, str]) -> ContextsFile:
    """Read the file; without one, there are no contexts.

    Raises:
        ConfigurationError: ``contexts-invalid`` or ``contexts-exposed``.
    """
    path = contexts_path(environ)
    if path is None:
        return ContextsFile()
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_mode & 0o022:
                raise ConfigurationError(
                    f"other users can change {path}, which decides which server a command changes",
                    code="contexts-exposed",
                    field=str(path),
                    hint=f"chmod go-w {path}, and check its content",
                )
            text = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        return ContextsFile()
    except OSError as exc:
        raise _invalid(path, exc.strerror or str(exc)) from exc
    if len(text) > _MAX_BYTES:
        raise _invalid(path, f"it has more than {_MAX_BYTES} bytes")
    try:
        return _parsed(tomllib.loads(text.decode()))
    except (ValueError, TypeError, ConfigurationError) as exc:
        raise _invalid(path, str(exc)) from exc


def write_contexts(contexts: ContextsFile, environ: Mapping[str, str]) -> Path:
    """Write the file, and return its path.

    Raises:
        ConfigurationError: ``contexts-invalid``: no folder of the user is known.
        OutputError: it cannot be written.
    """
    path = contexts_path(environ)
    if path is None:
        raise _invalid(Path("contexts.toml"), "neither XDG_CONFIG_HOME nor HOME is an absolute path")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_file(path, _toml(contexts), replace=True)
    return path


def _parsed(document: dict[str, Any]) -> ContextsFile:
    known = {one.name for one in fields(Context)}
    contexts: dict[str, Context] = {}
    tables = document.pop("context", {})
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise ValueError("context is not a table of contexts")
    for name, table in tables.items():
        unknown = table.keys() - known
        if unknown or not all(isinstance(value, str) for value in table.values()):
            raise ValueError(f"context {name!r}: {', '.join(sorted(unknown)) or 'a value'} is unknown or not text")
        if table.get("token", "access_token") not in {"access_token", "id_token"}:
            raise ValueError(f"context {name!r}: token is access_token or id_token")
        contexts[require_name(name)] = Context(**table)
    current, identities = document.pop("current", None), document.pop("identities", {})
    if document or not all(isinstance(value, str) for value in identities.values()):
        raise ValueError(f"expected current, context and identities, got also {', '.join(sorted(document))}")
    for name in identities.values():
        require_name(name)
    if current is not None and current not in contexts:
        raise ValueError(f"the current context {current!r} does not exist")
    return ContextsFile(current=current, contexts=contexts, identities=identities)


def _toml(contexts: ContextsFile) -> str:
    # A JSON string is a basic string of TOML.
    lines = ["# Servers that 'kms' administers; written by 'kms context'."]
    if contexts.current is not None:
        lines.append(f"current = {json.dumps(contexts.current)}")
    for name, context in sorted(contexts.contexts.items()):
        lines += ["", f"[context.{json.dumps(name)}]"]
        lines += [f"{member} = {json.dumps(value)}" for member, value in asdict(context).items() if value is not None]
    if contexts.identities:
        lines += ["", "[identities]"]
        lines += [f"{json.dumps(one)} = {json.dumps(name)}" for one, name in sorted(contexts.identities.items())]
    return "\n".join([*lines, ""])


def _invalid(path: Path, problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"cannot use the contexts in {path}: {problem}",
        code="contexts-invalid",
        field=str(path),
        hint="correct or remove the file; 'kms context add' writes a new one",
    )
