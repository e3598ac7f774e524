"""The keys of one life of the service: released by their owners' services, renewed, and lost together.

Each owner has a key-release service of its own. When one lease is lost, all keys are dropped: a machine that one
owner no longer trusts does not serve the other either.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import datetime
from typing import Protocol

from attest.errors import LeaseLostError
from attest.release import Attester
from attest.session import SYSTEM_TIMING, AsyncSession, SessionKey
from rag_demo.enclave.service.settings import KeySource


class HeldKeys:
    """Keys by what they are for (``model``, ``database``, ``prompt``). To be used from one event loop.

    Args:
        attester: gives this machine's evidence; None is the machine's own.
        lost: called at once when a lease is lost, before the key is overwritten.
        renew_after: seconds after which a lease is renewed, where that is sooner than necessary.
    """

    def __init__(
        self,
        sources: Mapping[str, KeySource],
        *,
        attester: Attester | None,
        lost: Callable[[LeaseLostError], object],
        renew_after: float | None = None,
    ) -> None:
        self._sources = dict(sources)
        self._attester = attester
        self._lost = lost
        self._timing = replace(SYSTEM_TIMING, renew_after=renew_after)
        self._keys: dict[str, SessionKey] = {}
        self._stack = AsyncExitStack()

    async def obtain(self) -> None:
        """Ask every service, all at a time.

        Raises:
            AttestError: the first refusal, or an unreachable service; see ``attest.Session.key``.
        """
        async with asyncio.TaskGroup() as asking:
            for purpose, source in self._sources.items():
                session = AsyncSession(
                    settings=source.service,
                    attester=self._attester,
                    timing=self._timing,
                    on_lost=lambda _key, error: self._lost(error),
                )
                await self._stack.enter_async_context(session)
                asking.create_task(self._ask(purpose, session, source.name))

    async def _ask(self, purpose: str, session: AsyncSession, name: str) -> None:
        self._keys[purpose] = await session.key(name)

    def key(self, purpose: str) -> SessionKey:
        """Return a key that was obtained."""
        return self._keys[purpose]

    def require(self) -> None:
        """Require that every key may be used now; errors as ``SessionKey.require``."""
        for key in self._keys.values():
            key.require()

    @property
    def leases(self) -> tuple[tuple[str, datetime], ...]:
        """The name and the end of each lease, by its service's clock, if it is not renewed."""
        return tuple((key.name, key.expires_at) for key in self._keys.values() if key.valid)

    async def close(self) -> None:
        """End the sessions, and overwrite the keys."""
        self._keys.clear()
        await self._stack.aclose()


class OpenKeyring(Protocol):
    """Maker of the keyring of a life."""

    def __call__(self, *, lost: Callable[[LeaseLostError], object]) -> HeldKeys:
        """Return a keyring that has sent no request yet; ``lost`` as for ``HeldKeys``."""
        ...
