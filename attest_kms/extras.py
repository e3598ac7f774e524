"""Extras of the distribution, by the modules that each brings."""

from __future__ import annotations

from types import MappingProxyType
from typing import NamedTuple

DISTRIBUTION = "attest-kms"

EXTRA_OF = MappingProxyType(
    {
        "alembic": "kms",
        "azure": "azure",
        "boto3": "s3",
        "cbor2": "cli",
        "click": "cli",
        "cryptography": "cli",
        "fastapi": "kms",
        "fsspec": "models",
        "google": "gs",
        "h11": "cli",
        "httpx": "cli",
        "hvac": "transit",
        "jinja2": "templates",
        "joserfc": "tokens",
        "lxml": "gpu",
        "markdown_it": "cli",
        "numpy": "models",
        "onnxruntime": "onnx",
        "opentelemetry": "otel",
        "pkcs11": "pkcs11",
        "prometheus_client": "kms",
        "psycopg": "postgres",
        "py3langid": "rag",
        "pydantic": "kms",
        "pynvml": "gpu",
        "pypdfium2": "rag",
        "regopy": "rego",
        "requests": "transit",
        "rfc8785": "cli",
        "rich": "cli",
        "ruamel": "cli",
        "Stemmer": "rag",
        "sentencex": "rag",
        "sevsnpmeasure": "cli",
        "signxml": "gpu",
        "sigstore": "sigstore",
        "sqlalchemy": "kms",
        "sqlcipher3": "rag",
        "tokenizers": "rag",
        "tpm2_pytss": "tpm",
        "urllib3": "cli",
        "uvicorn": "kms",
    }
)
"""The extra for each module: the smallest one, but ``cli`` for what a command line cannot do without."""
SIMULATOR_MODULE = "attest_simulator"
_IN_KMS = frozenset({"cli", "gpu", "tokens"})
"""Extras that ``kms`` includes."""


class MissingExtra(NamedTuple):
    """An error line, and the hint with the command that installs the extra."""

    message: str
    hint: str


def missing_extra(error: Exception, *, command: str) -> MissingExtra | None:
    """Describe the extra that a failed import needs; None for another error, or a module that no extra brings."""
    module = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    extra = EXTRA_OF.get(module)
    return None if extra is None else describe_extra(module, extra=extra, command=command)


def describe_extra(module: str, *, extra: str, command: str) -> MissingExtra:
    """Describe an extra that a command needs."""
    if command == "kms" and extra in _IN_KMS:
        extra = "kms"
    elif command.startswith("python -m rag_demo"):
        extra = "rag"
    return MissingExtra(
        f"{command!r} needs the extra {extra!r} of {DISTRIBUTION}: the module {module!r} is not installed",
        f"pip install '{DISTRIBUTION}[{extra}]'",
    )


def missing_simulator(command: str) -> MissingExtra:
    """Describe the distribution that simulates machines, which a command needs."""
    return MissingExtra(
        f"{command!r} needs attest-simulator, which is not installed",
        "install attest-simulator of the same version: docs/installing.md says how",
    )
