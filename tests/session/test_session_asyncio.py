"""The same session on asyncio."""

import asyncio
import threading

import pytest

from attest import Binding, Evidence
from attest.errors import ReleaseRefusedError
from attest.session import ServiceUnreachableError
from tests.kms.support import MATERIAL
from tests.session.acts import DAY, TWO_THIRDS, disable
from tests.session.line import Scene, away, defective, refusing


def test_on_asyncio_it_is_the_same(scene: Scene) -> None:
    async def program() -> None:
        scene.line.faults = [away, refusing(503)]
        async with scene.async_session() as session:
            found = await asyncio.gather(*(session.key("model") for _ in range(5)))
            assert len({id(key) for key in found}) == 1
            assert scene.line.releases == 3
            key = found[0]
            scene.harness.clock.forward(seconds=TWO_THIRDS)
            assert await session.renew() == pytest.approx(TWO_THIRDS)
            assert scene.told.renewed == [key]
            (again, other) = await session.keys("model", "other")
            assert again is key
            assert session.held == (key, other)
            assert "holds [model, other]" in repr(session)
            disable(scene)
            scene.harness.clock.forward(seconds=TWO_THIRDS)
            await session.renew()
            assert [one for one, _, _ in scene.told.lost] == [key]
            with pytest.raises(ReleaseRefusedError):
                await session.key("model")
        assert not other.valid
        await session.close()
        with pytest.raises(ValueError, match="closed"):
            await session.key("model")

    asyncio.run(program())


def test_on_asyncio_a_task_renews(scene: Scene) -> None:
    async def program() -> None:
        renewed = asyncio.Event()
        async with scene.async_session(background=True, on_renewed=lambda _: renewed.set()) as session:
            key = await session.key("model")
            before = key.lease_id
            scene.harness.clock.forward(seconds=TWO_THIRDS)
            session._wake.set()  # noqa: SLF001  in place of a minute's sleep
            await asyncio.wait_for(renewed.wait(), 30)
            assert key.lease_id != before

    asyncio.run(program())


def test_on_asyncio_who_gives_up_leaves_the_session_to_others(scene: Scene) -> None:
    collecting, go_on = threading.Event(), threading.Event()

    def attest(binding: Binding) -> Evidence:
        collecting.set()
        assert go_on.wait(30)
        return scene.workload.attest(binding)

    async def program() -> None:
        async with scene.async_session(attester=attest) as session:
            first = asyncio.create_task(session.key("model"))
            await asyncio.to_thread(collecting.wait, 30)
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            go_on.set()
            assert (await session.key("model")).material == MATERIAL

    asyncio.run(program())


def test_on_asyncio_the_deadline_holds_for_the_turn_as_well(scene: Scene) -> None:
    async def program() -> None:
        async with scene.async_session() as session:
            await session._turn.acquire()  # noqa: SLF001
            with pytest.raises(ServiceUnreachableError) as caught:
                await session.key("model", timeout=0.01)
            assert "another request was under way" in caught.value.message
            session._turn.release()  # noqa: SLF001

    asyncio.run(program())


def test_on_asyncio_a_session_that_is_closed_while_it_renews_is_closed(scene: Scene) -> None:
    async def program() -> None:
        session = scene.async_session(background=True)
        await session.key("model")
        await session._turn.acquire()  # noqa: SLF001
        scene.harness.clock.forward(seconds=TWO_THIRDS)
        session._wake.set()  # noqa: SLF001  in place of a minute's sleep
        await asyncio.sleep(0.05)
        # The renewal has its turn, and has not noticed yet.
        session._turn.release()  # noqa: SLF001
        await asyncio.sleep(0)
        await session.close()
        assert session.held == ()

    asyncio.run(program())


def test_on_asyncio_what_nobody_foresaw_ends_no_renewing_either(scene: Scene) -> None:
    async def program() -> None:
        async with scene.async_session() as session:
            await session.key("model")
            scene.line.always = defective
            scene.harness.clock.forward(seconds=DAY)
            assert await session.renew() is None
            assert len(scene.told.lost) == 1

    asyncio.run(program())
