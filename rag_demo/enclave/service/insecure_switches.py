"""The relaxations in the settings: each is logged at the start of the service, with its reason."""

from __future__ import annotations

from collections.abc import Iterator

from rag_demo.enclave.service.settings import EnclaveSettings


def relaxations(settings: EnclaveSettings) -> Iterator[str]:
    """Yield each setting that makes the service trust more than it would by itself, and why it may."""
    machine = settings.machine
    if machine.simulate is not None:
        yield f"machine.simulate = {machine.simulate}: what this machine proves is true of no hardware"
    keys = {"model.key": settings.model_key, "database.key": settings.database_key, "prompt_key": settings.prompt_key}
    for name, source in keys.items():
        if source is None:
            continue
        if source.service.allow_simulated:
            yield f"{name}.allow_simulated: the service that releases it may prove itself by a simulator"
        if source.service.unchecked_tls is not None:
            yield f"{name}.unchecked_tls: {source.service.unchecked_tls}"
    if settings.x25519 is not None:
        yield f"channel.x25519: {settings.x25519}"
    if settings.unconfined_documents is not None:
        yield f"documents.unconfined: {settings.unconfined_documents}"
    if settings.llm is not None and settings.llm.inside_boundary is not None:
        yield f"llm.inside_boundary: {settings.llm.inside_boundary}"
