"""The published note of a prompt key: signed and logged by its service, for the policy of its release."""

from __future__ import annotations

import asyncio

from attest.clock import Clock
from attest.release import PROMPT_ALGORITHMS, KeyReleaseClient, PromptKeyNote
from attest.session import SessionKey, expectation_of, open_http, watch_of
from rag_demo.enclave.service.channel import NoteOf
from rag_demo.enclave.service.settings import KeySource


def note_of(source: KeySource, *, clock: Clock) -> NoteOf:
    """Return a function that requests the note of a key."""
    watch = watch_of(source.service)
    expect = expectation_of(source.service, None)

    def ask(name: str, policy: bytes) -> PromptKeyNote:
        with open_http(source.service) as http:
            client = KeyReleaseClient(http, service=source.service.service, watch=watch, expect=expect)
            # The service that releases the key chose its KEM; clients that seal to it demand theirs.
            return client.prompt_key(name, policies={policy}, at=clock(), kems=PROMPT_ALGORITHMS.values()).note

    async def asked(key: SessionKey) -> PromptKeyNote:
        return await asyncio.to_thread(ask, key.name, key.policy_digest)

    return asked
