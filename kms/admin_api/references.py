"""``/v1/references``: documents of reference values, which apply to every key whose policy names them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter

from attest.errors import ConfigurationError
from kms.admin_api.context import WithCaller
from kms.admin_api.models.keys import (
    GivenReferencesModel,
    ReferenceListModel,
    ReferencesAddedModel,
    ReferencesRequestModel,
)
from kms.admin_api.routes import AdminRoute, body, changes, reads
from kms.domain.permissions import Operation
from kms.domain.references import StoredDocument
from kms.references.intake import GivenFile, add_document, list_documents, read_given

router = APIRouter(route_class=AdminRoute, prefix="/v1/references", tags=["references"])


@router.get("", summary="List documents of reference values", responses=reads())
def list_references(caller: WithCaller) -> ReferenceListModel:
    """List every version of every document, its state, and the keys for which it is in force."""
    caller.require(Operation.REFERENCES_READ)
    at = caller.now()
    with caller.vault.store.reading() as reader:
        found = list_documents(reader)
    return ReferenceListModel(references=[one.members(at=at) for one in found])


@router.post("", summary="Put a document of reference values into force", responses=changes(409))
def add_references(
    caller: WithCaller, given: Annotated[ReferencesRequestModel, body(ReferencesRequestModel)]
) -> ReferencesAddedModel:
    """Put a newer version of a document into force for every key whose policy accepts it, from the next request on."""
    caller.require(Operation.REFERENCES_CHANGE)
    (document,) = stored_documents([given])
    done = add_document(caller.vault.store, document, actor=caller.identity, at=caller.now())
    return ReferencesAddedModel(
        name=document.name,
        version=document.version,
        sha256=document.digest.hex(),
        new=done.new,
        keys=list(done.keys),
        blocked=dict(done.blocked),
    )


def stored_documents(given: Sequence[GivenReferencesModel]) -> tuple[StoredDocument, ...]:
    """Read documents with their signatures.

    Raises:
        ConfigurationError: one is unreadable, or is not signed by its keys.
    """
    found: list[StoredDocument] = []
    for index, one in enumerate(given):
        document, signatures, keys = (
            [GivenFile(name=f"references[{index}]", data=text.encode()) for text in texts]
            for texts in ([one.document], one.signatures, one.keys)
        )
        found += read_given(document, signatures=signatures, keys=keys)
    if len(found) != len(given):
        raise ConfigurationError("a document is missing", code="references-missing", field="references")
    return tuple(found)
