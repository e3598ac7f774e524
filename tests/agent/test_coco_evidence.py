"""Evidence at the interface of the Confidential Data Hub: off unless a reason is given, and in the guests' own form."""

import json
from base64 import b64encode
from functools import partial
from pathlib import Path
from urllib.parse import quote

import pytest

from attest.agent.answers import AgentRequest
from attest.agent.cdh import CdhRoutes
from attest.agent.cdh_config import CdhConfig
from attest.agent.coco_evidence import Collecting, coco_evidence, no_evidence
from attest.agent.keys import AgentKeys
from attest.agent.peers import ANYONE
from attest.collect.machine import collect_machine
from attest.errors import AgentRefusedError
from attest.evidence.envelope import Evidence, EvidenceItem
from attest.evidence.input_files import read_evidence
from attest.evidence.snp.structure import REPORT_BYTES
from tests.agent.running import FakeSession, Ticks
from tests.collect.fake_machine import FakeMachine, plain_machine, snp_machine, tdx_machine

DATA = bytes(range(200, 232))


def ask(target: str, collecting: Collecting = no_evidence, *, evidence: str | None = "a test") -> tuple[int, bytes]:
    routes = CdhRoutes(
        config=CdhConfig(anyone_here="a test", resources={}, evidence=evidence),
        keyring=AgentKeys(FakeSession({}), ticks=Ticks()),
        collecting=collecting,
    )
    answer = routes.answer(ANYONE, AgentRequest(method="GET", target=target, headers={"host": "localhost"}))
    return int(answer.status), bytes(answer.body)


def evidence_of(machine: FakeMachine, query: str) -> Evidence:
    status, body = ask(f"/aa/evidence?{query}", partial(collect_machine, access=machine.access, with_gpus=False))
    assert status == 200, body
    return read_evidence([("evidence.json", body)]).evidence


def test_an_snp_report_has_the_data_of_the_request(tmp_path: Path) -> None:
    query = f"runtime_data={quote(b64encode(DATA))}&encoding=base64"
    (item,) = evidence_of(snp_machine(tmp_path), query).items
    assert item.value[0x50:0x90] == DATA + bytes(32)
    assert len(item.value) == REPORT_BYTES


def test_a_tdx_quote_has_the_data_of_the_request(tmp_path: Path) -> None:
    cpu, *_ = evidence_of(tdx_machine(tmp_path), "runtime_data=abc").items
    assert cpu.value[568:632] == b"abc" + bytes(61)  # REPORTDATA of a version 4 quote


def test_an_event_log_goes_with_a_quote() -> None:
    items = (
        EvidenceItem(name="cpu", media_type="application/vnd.attest.intel-quote", value=b"quote"),
        EvidenceItem(name="eventlog", media_type="application/vnd.attest.tcg-event-log", value=b"log"),
    )
    assert coco_evidence(Evidence(items=items)) == {"quote": "cXVvdGU=", "cc_eventlog": "bG9n"}
    assert coco_evidence(Evidence(items=items[:1])) == {"quote": "cXVvdGU=", "cc_eventlog": None}


def test_evidence_is_off_without_a_reason(tmp_path: Path) -> None:
    collecting = partial(collect_machine, access=snp_machine(tmp_path).access)
    assert ask("/aa/evidence?runtime_data=abc", collecting, evidence=None)[0] == 404
    assert json.loads(ask("/info", evidence=None)[1])["feature"] == "resource"
    assert json.loads(ask("/info")[1])["feature"] == "all"


@pytest.mark.parametrize(
    "query",
    [
        "",
        "runtime_data=",
        "runtime_data=abc&runtime_data=abc",
        "encoding=base64",
        "runtime_data=abc&encoding=base64",
        "runtime_data=YWJj&encoding=hex",
        "runtime_data=YWJj&encoding=base64&encoding=base64",
        f"runtime_data={'a' * 65}",
        f"runtime_data={quote(b64encode(bytes(65)))}&encoding=base64",
    ],
)
def test_what_is_no_report_data_is_refused(query: str) -> None:
    assert ask(f"/aa/evidence?{query}")[0] == 400


def test_a_machine_without_a_form_here_is_refused_with_a_reason(tmp_path: Path) -> None:
    status, body = ask("/aa/evidence?runtime_data=abc")
    assert (status, b"agent-evidence-unsupported" in body) == (500, True)
    with pytest.raises(AgentRefusedError):
        coco_evidence(Evidence(items=(EvidenceItem(name="cpu", media_type="text/plain", value=b"x"),)))
    status, body = ask("/aa/evidence?runtime_data=abc", partial(collect_machine, access=plain_machine(tmp_path).access))
    assert status == 500, body
