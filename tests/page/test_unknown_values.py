"""Values without a known meaning in the page: named exactly they pass, and Python says the same of every neighbour."""

import json
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

import pytest
from playwright.sync_api import Error as PlaywrightError

from attest.appraisal import appraise
from attest.encoding import rfc3339_text
from attest.errors import ConfigurationError
from attest.evidence.snp.tcb import SnpProduct
from attest.evidence.tolerances import DeviceTolerances
from attest_simulator import SimulatedChip, SimulatedGuest
from attest_simulator.nvidia import SimulatedGpu
from attest_simulator.nvidia.ocsp import SimulatedOcsp
from tests.page.browser import Question, Verifier
from tests.page.policies import ask, prepare, seen, told_by_page, verdict_of
from tests.page.reference import answer, differences
from tests.policy.accepted_documents import AT, GPU, OPAQUE, SNP, gpus, verified
from tests.policy.documents import document, policy_of
from tests.policy.gpu_documents import NONCE, gpu_document, switch_document
from tests.unknown_values import extended_chip, extended_gpu, opaque_neighbours, spl_neighbours

pytestmark = pytest.mark.loopback
Tolerances = Mapping[str, Mapping[str, Any]]


def outcomes(
    page: Verifier, evidence: bytes, endorsements: Iterable[bytes], tolerances: Iterable[Tolerances | None]
) -> list[str]:
    """Ask both with each of these tolerances, require one answer, and return `verified` or the code of the refusal."""
    files = {sha256(data).hexdigest(): data for data in (evidence, *endorsements)}
    names = list(files)
    page.hold(files)
    questions = [
        Question(
            input=names[:1],
            endorsements=names[1:],
            at=rfc3339_text(AT),
            nonce=NONCE.hex(),
            anchors="simulation",
            tolerances=each,
        )
        for each in tolerances
    ]
    results = page.ask_all(questions)
    for question, result in zip(questions, results, strict=True):
        assert differences(answer(question, files), result) == [], question.tolerances
    return ["verified" if result["error"] is None else result["error"]["code"] for result in results]


def endorsements_of(gpu: SimulatedGpu) -> list[bytes]:
    """Return the chain, the RIMs and an answer about every certificate."""
    ocsp = SimulatedOcsp.of(AT)
    answers = [ocsp.template(issuer, serial).issue() for issuer, serial in gpu.questions(at=AT)]
    return [*gpu.certificates, *(rim.issue() for rim in gpu.rims(at=AT)), *answers]


def opaque(*names: str, kind: str = "gpus") -> Tolerances:
    return {kind: {"acceptedOpaque": dict.fromkeys(names, "reason")}}


@pytest.mark.parametrize(
    ("kind", "value"), [(11, b"\x56"), (11, b""), (21, b"\0"), (21, b"\xaa\xaa"), (36, b"\3\0"), (36, b"\1")]
)
def test_a_value_of_a_gpu_passes_only_where_its_exact_bytes_are_named(
    in_browser: Verifier, kind: int, value: bytes
) -> None:
    gpu, name = extended_gpu({kind: value}), f"{kind}:{value.hex()}"
    endorsements = endorsements_of(gpu)
    near = sorted(opaque_neighbours(kind, value))
    tried = [None, opaque(*near), *(opaque(one) for one in near[::7]), opaque(name, kind="switches")]
    found = outcomes(in_browser, gpu.device_item(NONCE), endorsements, [*tried, opaque(name), opaque("36:0900", name)])
    assert found == ["gpu-opaque-unsupported"] * len(tried) + ["verified"] * 2


@pytest.mark.parametrize("product", list(SnpProduct))
def test_a_level_of_a_chip_passes_only_where_it_is_named_exactly(in_browser: Verifier, product: SnpProduct) -> None:
    chip = extended_chip(SimulatedChip.of(product), {"spl5": 3, "spl7": 255})
    report = SimulatedGuest(chip=chip).report(NONCE.ljust(64, b"\0"))
    endorsements = [*chip.certificates(), *(crl.der for crl in chip.endorsements(at=AT).crls)]

    def named(*names: str) -> Tolerances:
        return {"spls": dict.fromkeys(names, "reason")}

    near = spl_neighbours("spl5", 3) | spl_neighbours("spl7", 255)
    tried = [None, named("spl5:3"), named("spl7:255"), named("spl5:3", *(near - {"spl7:255"}))]
    found = outcomes(in_browser, report, endorsements, [*tried, named("spl7:255", "spl5:3")])
    assert found == ["snp-leaf-malformed"] * len(tried) + ["verified"]


@pytest.mark.parametrize("reason", ["", " "])
def test_a_level_accepted_without_a_reason_is_the_callers_mistake(in_browser: Verifier, reason: str) -> None:
    in_browser.hold({"gpu": GPU.device_item(NONCE)})
    question = Question(input=["gpu"], at=rfc3339_text(AT), tolerances={"spls": {"spl4:1": reason}})
    with pytest.raises(PlaywrightError, match="TypeError"):
        in_browser.ask(question)


def documents() -> list[dict[str, Any]]:
    """Policies that name what the evidence has, nothing, or something else."""
    without = gpus(accepted_opaque=OPAQUE)
    del without["snp"]["accepted_spls"]
    return [
        gpus(accepted_opaque=OPAQUE),
        gpus(accepted_opaque={**OPAQUE, "11:00": "not there"}),
        gpus(accepted_opaque={"36:0400": "x"}),
        gpus(),
        without,
        SNP,
    ]


def test_policies_judge_what_was_accepted_as_in_python(in_browser: Verifier) -> None:
    page = prepare(in_browser)
    policies = [policy_of(one) for one in documents()]
    accepted = verified(policies[0].tolerances)
    answers = ask(page, [(json.dumps(one), [0]) for one in documents()], [seen(accepted)])
    found = [told_by_page(one["judged"][0]) for one in answers]
    assert found == [verdict_of(appraise(accepted, policy=policy, at=AT)) for policy in policies]
    assert [affirmed for affirmed, _ in found] == [True, True, False, False, False, False]


def test_the_page_verifies_with_what_its_policy_names(in_browser: Verifier) -> None:
    (loaded,) = ask(prepare(in_browser), [(json.dumps(gpus(accepted_opaque=OPAQUE)), [])])
    assert loaded["tolerances"]["gpus"]["acceptedOpaque"] == OPAQUE
    assert loaded["tolerances"]["spls"] == SNP["snp"]["accepted_spls"]
    found = outcomes(in_browser, GPU.device_item(NONCE), endorsements_of(GPU), [loaded["tolerances"], None])
    assert found == ["verified", "gpu-opaque-unsupported"]
    assert DeviceTolerances().spls == ()


NAMES = [
    "36",
    "36:",
    "36:3",
    "36:0300",
    "36:03 00",
    "36:0A00",
    "34:0200",
    "036:0300",
    "11:ff",
    "21:",
    "36:" + "ab" * 65,
]
LEVELS = ["spl4", "spl4:0", "spl4:1", "spl4:01", "spl4:99", "spl4:199", "spl4:255", "spl4:256", "spl3:1", "SPL7:1"]


def test_names_and_branches_are_read_or_refused_as_in_python(in_browser: Verifier) -> None:
    reasons = ["x", "", None, 3]
    head = {name: value for name, value in gpus().items() if name not in ("snp", "gpu", "devices")}
    branches = [{name: gpus(accepted_opaque=one)[name] for name in ("snp", "gpu")} for one in (OPAQUE, {"11:00": "x"})]
    tried = [
        *(gpu_document(accepted_opaque={name: "x"}) for name in NAMES),
        *(switch_document(accepted_opaque={name: "x"}) for name in NAMES),
        *(document(accepted_spls={name: "x"}) for name in LEVELS),
        *(document(accepted_spls={"spl4:1": reason}) for reason in reasons),
        document(accepted_spls={}),
        gpu_document(accepted_opaque={}),
        {**head, "any_of": branches},
        {**head, "any_of": [branches[0], branches[0]]},
    ]
    for one, found in zip(tried, ask(prepare(in_browser), [(json.dumps(one), []) for one in tried]), strict=True):
        try:
            policy_of(one)
            code = None
        except ConfigurationError as exc:
            code = exc.code
        assert found.get("code") == code, json.dumps(one)
