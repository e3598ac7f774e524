"""The devices of one machine are judged together in the page as in Python, whatever else is wrong with them."""

import base64
import json
from dataclasses import replace

import pytest

from attest.encoding import rfc3339_text
from attest.evidence.envelope import Evidence, EvidenceItem
from attest_simulator.nvidia import SimulatedBoard
from tests.page.browser import Question, Verifier
from tests.page.reference import answer, differences
from tests.samples import AT, NONCE

pytestmark = pytest.mark.loopback
PAIR = SimulatedBoard.of("a pair", gpus=2, switches=0).items(NONCE)
BOARD_MADE = SimulatedBoard.of("a protected board in the page", mode="ppcie")
BOARD = BOARD_MADE.items(NONCE)


def _forged(item: EvidenceItem) -> EvidenceItem:
    document = json.loads(item.value)
    evidence = bytearray(base64.b64decode(document["evidence"]))
    evidence[-1] ^= 1
    document["evidence"] = base64.b64encode(evidence).decode()
    return replace(item, value=json.dumps(document).encode())


SETS: dict[str, tuple[tuple[EvidenceItem, ...], str]] = {
    "a repeated device": ((PAIR[0], replace(PAIR[1], value=PAIR[0].value)), "gpu-device-repeated"),
    "a device left out": (BOARD[:-1], "gpu-topology-invalid"),
    "a whole board": (BOARD, "ocsp-missing"),
    "a forged device": ((*BOARD[:-1], _forged(BOARD[-1])), "gpu-signature-invalid"),
    "two devices": (PAIR, "ocsp-missing"),
}


@pytest.mark.parametrize("name", SETS)
def test_devices_without_any_endorsement_are_judged_together(name: str, in_browser: Verifier) -> None:
    items, code = SETS[name]
    files = {f"set: {name}": Evidence(items=items).to_json()}
    in_browser.hold(files)
    question = Question(input=list(files), at=rfc3339_text(AT), anchors="simulation")
    got, reference = in_browser.ask(question), answer(question, files)
    assert differences(reference, got) == []
    assert got["error"]["code"] == code
