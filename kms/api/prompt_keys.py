"""``GET /v1/prompt-keys``: public keys to encrypt to, with their proofs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from attest.errors import ConfigurationError
from attest.release import KEY_ID_PATTERN, TENANT_PATTERN, KeyName
from kms.api.context import WithContext
from kms.api.models import PromptKeyModel, PromptKeysModel
from kms.api.schema import refusals
from kms.domain.errors import SchemaError
from kms.release.prompt_keys import MAX_PAGE, PromptKeyService

router = APIRouter(prefix="/v1/prompt-keys", tags=["prompt-keys"])
_NAME_PATTERN = r"^([a-z0-9][a-z0-9._-]{0,63}/)?[a-z0-9][a-z0-9._-]{0,127}$"


@router.get("", summary="List public keys to encrypt to", responses=refusals(422, 500, 503))
async def list_prompt_keys(
    context: WithContext,
    tenant: Annotated[str | None, Query(pattern=TENANT_PATTERN, description="Only keys of this tenant.")] = None,
    key: Annotated[str | None, Query(pattern=KEY_ID_PATTERN, description="Only keys with this id.")] = None,
    after: Annotated[str | None, Query(pattern=_NAME_PATTERN, description="Only keys after this name.")] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 20,
) -> PromptKeysModel:
    """Return the current versions of the prompt keys that are usable now."""
    name = None if after is None else _name(after)
    prompts = PromptKeyService(context.services)
    page = await context.run(lambda: prompts.page(tenant=tenant, key_id=key, after=name, limit=limit))
    return PromptKeysModel(
        prompt_keys=[PromptKeyModel.model_validate(one.to_json()) for one in page.keys],
        next=None if page.after is None else str(page.after),
    )


@router.get("/{tenant}/{key}", summary="Get a public key to encrypt to", responses=refusals(404, 422, 500, 503))
async def read_prompt_key(
    context: WithContext,
    tenant: Annotated[str, Path(pattern=TENANT_PATTERN)],
    key: Annotated[str, Path(pattern=KEY_ID_PATTERN)],
) -> PromptKeyModel:
    """Return the current version of a prompt key that is usable now."""
    prompts = PromptKeyService(context.services)
    published = await context.run(lambda: prompts.find(KeyName(tenant=tenant, key_id=key)))
    return PromptKeyModel.model_validate(published.to_json())


def _name(text: str) -> KeyName:
    try:
        return KeyName.parse(text)
    except ConfigurationError as exc:
        raise SchemaError(exc.message, code="request-schema", field="after") from exc
