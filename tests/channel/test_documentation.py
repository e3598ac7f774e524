"""The examples of docs/channel.md, run in their order against one service."""

import os
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from attest.channel.asgi import GATEWAY_PATH, ChannelGateway
from attest.endorsements.anchors import TrustAnchors
from attest.release.prompt_keys import PromptKey
from tests.channel.support import POLICY, WORLD, Service, offer_of
from tests.channel.test_served import Clock, serving
from tests.release.test_prompt_keys import SERVICE, material_of, note_of
from tests.samples import bound_evidence

PAGE = Path(__file__).parents[2] / "docs" / "channel.md"


def examples() -> list[str]:
    return [part.split("```")[0] for part in PAGE.read_text().split("```python\n")[1:]]


async def _ask(request: Request) -> Response:
    return PlainTextResponse("it ends in March")


@pytest.mark.loopback
def test_every_example_runs(tmp_path: Path) -> None:
    clock, service = Clock(), Service()
    application = Starlette(routes=[Route("/v1/ask", _ask, methods=["POST"])])
    with serving(ChannelGateway(application, service.gateway, clock=clock, offer=offer_of)) as port:
        url = f"http://127.0.0.1:{port}"

        def post(media_type: str, body: bytes) -> tuple[int, str, bytes]:
            answer = httpx.post(url + GATEWAY_PATH, content=body, headers={"content-type": media_type})
            return answer.status_code, answer.headers["content-type"], answer.content

        names: dict[str, Any] = {  # Any: what the page speaks of
            "anchors": TrustAnchors.simulation(),
            "application": application,
            "clock": clock,
            "collect": lambda binding: bound_evidence(WORLD.guest, binding),
            "endorsements": WORLD.endorsements,
            "gateway_url": url,
            "material": material_of(),
            "os": os,
            "policy": POLICY,
            "post": post,
            "prompt_key": PromptKey(note=note_of(), audience=SERVICE.text),
            "window_file": tmp_path / "seen.db",
        }
        found = examples()
        assert len(found) == 4
        for example in found:
            exec(compile(example, str(PAGE), "exec"), names)  # noqa: S102  our own page
        names["replicas"].replays.close()
