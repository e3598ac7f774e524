"""The examples of docs/receipts.md, run as they stand."""

import os
import shlex
from functools import partial
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from attest.endorsements.anchors import TrustAnchors
from attest.receipts import parse_receipt_file
from tests.channel.support import POLICY, WORLD
from tests.cli.conftest import LAB, Attest, Files, attest, files
from tests.documentation.blocks import blocks_of
from tests.receipts.machine import REQUEST, RESPONSE, Machine, checked, opened, released, sealed_model
from tests.samples import AT, bound_evidence
from tests.sealed.made import OWNER, public_pem

__all__ = ["attest", "files"]
PAGE = Path(__file__).parents[2] / "docs" / "receipts.md"


def examples(language: str) -> list[str]:
    return [block.text for block in blocks_of(PAGE) if block.language == language]


def test_the_command_checks_a_receipt(attest: Attest, files: Files) -> None:
    (console,) = examples("console")
    files.write("answer.receipt", Machine(guest=files.guest).file().to_bytes())
    files.write("request.json", REQUEST)
    files.write("answer.txt", RESPONSE)
    files.write("owner.pub", public_pem(OWNER))
    files.policy(name="policy")
    command = shlex.split(console.removeprefix("$ attest "))
    assert attest(*command, *LAB, "--endorsements", files.endorsements).code == 0


def test_the_library_checks_a_receipt() -> None:
    example = examples("python")[0]
    names: dict[str, Any] = {  # Any: what the page speaks of
        "anchors": TrustAnchors.simulation(),
        "data": Machine().file().to_bytes(),
        "endorsements": WORLD.endorsements,
        "now": AT,
        "owner": OWNER.public_key(),
        "policy": POLICY,
        "request": REQUEST,
        "response": RESPONSE,
    }
    exec(example, names)  # noqa: S102  the page's own text
    assert names["verified"].simulated


async def _answer(request: Request) -> Response:
    return PlainTextResponse("because " + (await request.body()).decode())


def test_a_service_gives_receipts() -> None:
    example = examples("python")[1]
    directory, key = opened(sealed_model()), released()
    made: dict[str, Any] = {  # Any: what the page speaks of
        "app": Starlette(routes=[Route("/v1/ask", _answer, methods=["POST"])]),
        "clock": lambda: AT,
        "collect": partial(bound_evidence, WORLD.guest),
        "directory": directory,
        "key": key,
        "os": os,
    }
    exec(example, made)  # noqa: S102  the page's own text
    with TestClient(made["app"]) as client:
        answer = client.post("/v1/ask", content=b"of it")
        found = client.get(f"/receipts/{answer.headers['attest-receipt']}")
    verified = checked(parse_receipt_file(found.content), request=b"of it", response=answer.content)
    assert verified.claims.response.complete
