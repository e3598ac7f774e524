"""Templates of files with secrets: Jinja2 in its sandbox, with access only to the secrets of the file.

::

    url = {{ secret("database") }}
    [tls]
    key = {{ secret_base64("acme/tls-key") }}
    name = {{ secret("name") | json }}       # also: | shell

A template includes no other one, and reads no file, variable or clock, so its output changes with its secrets alone.
"""

from __future__ import annotations

import json
import shlex
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from attest.agent.toml_tables import config_invalid
from attest.errors import ConfigurationError
from attest.release.names import KeyReference

if TYPE_CHECKING:
    import jinja2

MAX_TEMPLATE_BYTES: Final = 64 * 1024
MAX_RENDERED_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretTemplate:
    """A compiled template; ``name`` is that of its place in the configuration."""

    name: str
    compiled: jinja2.Template

    def render(self, secrets: Mapping[KeyReference, bytes]) -> bytes:
        """Return the file's content.

        Raises:
            ConfigurationError: ``file-not-rendered``; it names no value, which may be secret.
        """
        given = {str(reference): content for reference, content in secrets.items()}
        try:
            text = self.compiled.render(secret=_text_of(given), secret_base64=_base64_of(given))
        except ConfigurationError:
            raise
        except Exception as exc:  # noqa: BLE001  whatever a template can raise; its text may hold a secret
            raise _not_rendered(self.name, type(exc).__name__) from None
        rendered = text.encode()
        if len(rendered) > MAX_RENDERED_BYTES:
            raise _not_rendered(self.name, f"more than {MAX_RENDERED_BYTES} bytes")
        return rendered


def compile_template(text: bytes, *, name: str) -> SecretTemplate:
    """Return a template after a check of its syntax.

    Raises:
        ConfigurationError: ``template-library-missing`` or ``agent-config-invalid``.
    """
    try:
        import jinja2  # noqa: PLC0415  of the extra 'templates'
        from jinja2.sandbox import ImmutableSandboxedEnvironment  # noqa: PLC0415  as above
    except ImportError as exc:
        raise ConfigurationError(
            f"{name}: templates need the package Jinja2",
            code="template-library-missing",
            field=name,
            expected="the extra 'templates' of this package",
            hint="pip install 'attest-kms[templates]', or write the secret as it is, without a template",
        ) from exc
    environment = ImmutableSandboxedEnvironment(
        undefined=jinja2.StrictUndefined, autoescape=False, keep_trailing_newline=True, auto_reload=False
    )
    environment.filters |= {"json": json.dumps, "shell": shlex.quote}
    environment.globals.clear()
    try:
        return SecretTemplate(name=name, compiled=environment.from_string(text.decode()))
    except UnicodeDecodeError as exc:
        raise config_invalid(name, "UTF-8", "other bytes") from exc
    except jinja2.TemplateSyntaxError as exc:
        raise config_invalid(name, "a Jinja2 template", f"line {exc.lineno}: {exc.message}"[:200]) from exc


def _text_of(secrets: Mapping[str, bytes]) -> Callable[[str], str]:
    def secret(name: str) -> str:
        try:
            return _known(secrets, name).decode()
        except UnicodeDecodeError:
            raise _not_rendered(f"secret({name!r})", "bytes that are no text: use secret_base64") from None

    return secret


def _base64_of(secrets: Mapping[str, bytes]) -> Callable[[str], str]:
    return lambda name: b64encode(_known(secrets, name)).decode()


def _known(secrets: Mapping[str, bytes], name: str) -> bytes:
    if name not in secrets:
        raise _not_rendered(f"secret({name!r})"[:80], "a secret that the file does not list")
    return secrets[name]


def _not_rendered(name: str, problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"{name}: the template cannot be rendered: {problem}", code="file-not-rendered", field=name, got=problem
    )
