"""The settings that identify administrators, and callers of the release plane."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class AdminSettings(BaseModel):
    """Settings of the administration listener, and of the identities accepted there and on the release plane."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    admin_port: Annotated[int | None, Field(ge=0, le=65535)] = None
    admin_host: Annotated[str, Field(min_length=1, max_length=255)] = "127.0.0.1"
    admin_certificate_file: Path | None = None
    admin_key_file: Path | None = None
    admin_client_ca_file: Path | None = None
    admin_certificate_names: Literal["sha256", "uri", "subject"] = "sha256"
    admin_issuers_file: Path | None = None

    callers: Literal["anyone", "identified"] = "anyone"
    callers_issuers_file: Path | None = None

    @model_validator(mode="after")
    def _callers(self) -> Self:
        """Require issuers if, and only if, callers are identified."""
        if (self.callers == "identified") is not (self.callers_issuers_file is not None):
            raise ValueError('callers = "identified" and callers_issuers_file must be set together')
        return self

    @model_validator(mode="after")
    def _administration(self) -> Self:
        """Require TLS of the listener, and a way to identify administrators (MC-31)."""
        files = (self.admin_certificate_file, self.admin_key_file)
        known = (self.admin_client_ca_file, self.admin_issuers_file)
        if self.admin_port is None:
            if any(one is not None for one in (*files, *known)):
                raise ValueError("settings of the administration listener require admin_port")
            return self
        if any(one is None for one in files):
            raise ValueError("admin_port requires admin_certificate_file and admin_key_file")
        if all(one is None for one in known):
            raise ValueError(
                "admin_port requires admin_client_ca_file or admin_issuers_file to identify administrators"
            )
        return self


_FIELDS = AdminSettings.model_fields
ADMIN_TABLE: Final = tuple(name.removeprefix("admin_") for name in _FIELDS if name.startswith("admin_"))
"""Members of the table ``[admin]`` of the file; the settings have the prefix ``admin_``."""
