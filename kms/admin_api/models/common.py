"""Members shared by several bodies."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from attest.release import KEY_ID_PATTERN, TENANT_PATTERN
from kms.api.models import Edge

Tenant = Annotated[str, Field(pattern=TENANT_PATTERN, examples=["default"])]
KeyId = Annotated[str, Field(pattern=KEY_ID_PATTERN, examples=["my-model"])]
KEY_PATH = "/v1/keys/{tenant}/{key_id}"
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="SHA-256, hex.")]
Moment = Annotated[str, Field(description="RFC 3339, UTC.", examples=["2026-06-01T12:00:00Z"])]
Identity = Annotated[
    str,
    Field(
        max_length=520,
        description="jwt:ISSUER|SUBJECT, mtls:sha256:…, mtls:uri:… or mtls:subject:….",
        examples=["jwt:https://login.example/realm|alice"],
    ),
]
Seconds = Annotated[int, Field(ge=0, le=100 * 366 * 86400, description="Seconds.")]
Reason = Annotated[str, Field(max_length=4096, description="Reason, recorded permanently in the log.")]
KeyVersion = Annotated[int | None, Field(ge=1, le=999_999_999, description="Version; all versions if absent.")]


class ConfirmModel(Edge):
    """An empty body; because it must be JSON, browser forms cannot send it."""
