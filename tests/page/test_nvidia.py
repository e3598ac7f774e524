"""NVIDIA's devices in the browser: page and Python verifier say the same of every attack (must-check 3, 11, 13)."""

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest
from playwright.sync_api import Error as PlaywrightError

from attest.encoding import rfc3339_text
from tests.page import nvidia_devices as devices
from tests.page import nvidia_rims as rims
from tests.page.browser import Question, Verifier
from tests.page.nvidia_devices import Asked
from tests.page.reference import answer, differences

pytestmark = pytest.mark.loopback
FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"


def judged(page: Verifier, cases: Iterable[Asked]) -> dict[str, str]:
    """Ask both, demand that they agree, and return `verified` or the code of the refusal by the case's name."""
    listed = list(cases)
    for case in listed:
        page.hold(case.files)
    results = page.ask_all(case.question for case in listed)
    wrong = {
        case.name: found
        for case, result in zip(listed, results, strict=True)
        if (found := differences(answer(case.question, case.files), result))
    }
    assert wrong == {}
    return {
        case.name: result["outcome"] if result["error"] is None else result["error"]["code"]
        for case, result in zip(listed, results, strict=True)
    }


def fixture_cases() -> Iterable[Asked]:
    """The simulator's devices alone; those beside a CPU belong to the test of all formats."""
    for case in json.loads((FIXTURES / "MANIFEST.json").read_bytes())["cases"]:
        if not case["id"].startswith("nvidia-") or "-with-" in case["id"]:
            continue
        names = [case["evidence"], *case["endorsements"]]
        question = Question(
            input=names[:1],
            endorsements=names[1:],
            at=case["at"],
            anchors=case["anchors"],
            unchecked=dict.fromkeys(case["unchecked"], devices.REASON),
        )
        yield Asked(name=case["id"], files={name: (FIXTURES / name).read_bytes() for name in names}, question=question)


def test_what_the_simulator_makes_is_judged_as_the_manifest_says(in_browser: Verifier) -> None:
    manifest = json.loads((FIXTURES / "MANIFEST.json").read_bytes())["cases"]
    expected = {case["id"]: case["expected"] for case in manifest}
    found = judged(in_browser, fixture_cases())
    assert len(found) > 20
    assert found == {name: expected[name] for name in found}


def test_a_report_that_says_something_else_is_judged_alike(in_browser: Verifier) -> None:
    found = judged(in_browser, devices.spoiled_reports())
    assert found["another measurement"] == "gpu-measurement-mismatch"
    assert found["the decoder's measurement, and the decoder on"] == "gpu-measurement-mismatch"
    assert found["the decoder's measurement, and the decoder off"] == "verified"
    assert found["another firmware id"] == "gpu-fwid-mismatch"
    assert found["protected PCIe against the feature flag"] == "gpu-topology-invalid"
    assert found["protected PCIe without a feature flag"] == "gpu-topology-invalid"
    malformed = {"gpu-report-malformed", "gpu-device-malformed"}  # cut so short, not even the nonce beside it is one
    assert {code for name, code in found.items() if name.startswith("cut at")} == malformed
    good = {"the decoder's measurement, and the decoder off", "no firmware id", "an unknown type"}
    good |= {"no feature flag", "a feature flag and no version", "a version and no feature flag"}
    assert {name for name, code in found.items() if code == "verified"} == good


def test_a_measurement_that_differs_is_shown_with_the_versions_for_which_it_is_good(in_browser: Verifier) -> None:
    case = devices.measurement_of_another_driver()
    assert judged(in_browser, [case]) == {case.name: "gpu-measurement-mismatch"}
    (result,) = in_browser.ask_all([case.question])
    assert result["error"]["message"].endswith("others at 22 (driver), valid for GH100 590.12")


def test_every_form_of_nvidias_json_is_judged_alike(in_browser: Verifier) -> None:
    found = judged(in_browser, devices.forms())
    refused = {
        "a request with another nonce": "gpu-device-malformed",
        "a request with another nonce alone": "gpu-stated-nonce-mismatch",
        "a request of another architecture": "gpu-device-malformed",
        "a request of another architecture alone": "gpu-arch-mismatch",
        "a request whose nonce is a number": "gpu-device-malformed",
        "a request without a device": "gpu-device-malformed",
        "a request whose list is an object": "gpu-device-malformed",
        "two lists": "gpu-device-malformed",
        "another thing as text": "gpu-device-malformed",
        "a device twice in a list": "gpu-device-repeated",
        "a broken request as text": "json-invalid",
        "an object as text": "gpu-device-malformed",
        "text beside another member": "evidence-unrecognised",
        "an answer of nvattest that failed": "gpu-device-malformed",
        "an answer of nvattest with null": "gpu-device-malformed",
        "an answer of nvattest with a flag": "gpu-device-malformed",
        "an architecture that is a number": "gpu-device-malformed",
        "an empty nonce": "gpu-device-malformed",
        "a device without a report": "gpu-device-malformed",
        "a device without a chain": "gpu-device-malformed",
        "a collection with another nonce": "gpu-device-malformed",
        "a collection with a false nonce": "gpu-stated-nonce-mismatch",
        "a collection whose nonce is null": "gpu-device-malformed",
        "a collection with a device twice": "gpu-device-repeated",
        "a collection without a device": "gpu-device-malformed",
        "a collection with a device of another type": "gpu-device-malformed",
        "a collection with text for a device": "gpu-device-malformed",
        "a collection with other evidence": "evidence-unsupported",
        "a collection without evidence": "gpu-device-malformed",
        "a collection without a chain": "gpu-device-malformed",
        "a collection with an indicator": "gpu-device-malformed",
        "a collection in base64": "base64-invalid",
        "a collection of nobody": "evidence-unsupported",
        "a report in half a byte of hex": "hex-invalid",
        "a report in base64 of half a byte": "hex-invalid",
        "a report in base64 of hex and a line": "gpu-report-malformed",
        "a report in no base64": "base64-invalid",
    }
    assert {name: code for name, code in found.items() if code != "verified"} == refused


def test_a_chain_that_is_another_is_judged_alike(in_browser: Verifier) -> None:
    found = judged(in_browser, devices.spoiled_chains())
    good = {"good", "without the root", "a critical firmware id", "a raw report, and its chain among the endorsements"}
    assert {name for name, code in found.items() if code == "verified"} == good
    assert found["a firmware id of another device"] == "gpu-leaf-binding-mismatch"
    assert found["called a Blackwell"] == "gpu-arch-mismatch"
    assert found["the vendors' roots"] == "simulated-root-refused"
    assert found["the same device twice"] == "gpu-device-repeated"
    assert found["another nonce"] == "nonce-mismatch"


def test_answers_about_revocation_are_weighed_alike(in_browser: Verifier) -> None:
    found = judged(in_browser, devices.spoiled_answers())
    assert found["revoked"] == found["revoked long ago"] == found["a hold that is newer"] == "certificate-revoked"
    assert found["a hold that was taken back"] == found["without an end"] == "verified"
    assert found["of the responder of another authority"] == "ocsp-signature-invalid"
    assert found["none"] == found["a responder of another type"] == "ocsp-missing"
    assert found["expired"] == "ocsp-expired"
    assert found["nothing at hand, and ('revocation', 'rim') left out"] == "verified"


def test_what_a_policy_tolerates_is_shown_and_nothing_else_passes(in_browser: Verifier) -> None:
    found = judged(in_browser, devices.tolerated())
    good = {"both measurements waived", "a held signer", "nothing to tolerate"}
    assert {name for name, code in found.items() if code == "verified"} == good
    assert found["one of them waived"] == found["waived for switches"] == "gpu-measurement-mismatch"
    assert found["a held device"] == found["a held signer of another kind"] == "certificate-revoked"


@pytest.mark.parametrize(
    "tolerance",
    [
        {"waivedMeasurements": {"64": "x"}},
        {"waivedMeasurements": {"07": "x"}},
        {"waivedMeasurements": {"7": " "}},
        {"heldRimSigners": ""},
        {"acceptedOpaque": {"36:0300": " "}},
    ],
)
def test_a_tolerance_without_a_reason_or_a_place_is_the_callers_mistake(
    in_browser: Verifier, tolerance: Mapping[str, object]
) -> None:
    (case,) = [devices.asked("wrong", tolerances={"gpus": tolerance})]
    in_browser.hold(case.files)
    with pytest.raises(PlaywrightError, match="TypeError"):
        in_browser.ask(case.question)


def with_rim(documents: Mapping[str, bytes]) -> Iterable[Asked]:
    """Put each document in the place of the driver's RIM."""
    _, vbios = devices.rims()
    return (devices.asked(name, rims_given=(document, vbios)) for name, document in documents.items())


@pytest.mark.parametrize("documents", [rims.wrapped, rims.shaped, rims.broken])
def test_no_wrapped_or_misshapen_signature_grants_anything(
    in_browser: Verifier, documents: Callable[[], Mapping[str, bytes]]
) -> None:
    found = judged(in_browser, with_rim(documents()))
    refusals = {"gpu-rim-missing", "rim-signature-invalid", "rim-chain-length", "rim-signer-unexpected"}
    assert {name: code for name, code in found.items() if code not in refusals} == {}


def test_the_canonical_form_of_a_document_is_that_of_libxml2(in_browser: Verifier) -> None:
    found = judged(in_browser, with_rim(rims.written()))
    assert {name: code for name, code in found.items() if code != "verified"} == {}


def test_namespaces_are_bounded_alike(in_browser: Verifier) -> None:
    found = judged(in_browser, with_rim(rims.bounded()))
    assert found["9 more"] == "verified"
    assert found["16 more"] == "gpu-rim-missing"


# -- every byte

_FLIP = """
async ({ report, chain, at, step }) => {
    const bytes = attest.bytesOf(report);
    const unchecked = ['revocation', 'rim'].map((check) => ({ check, reason: 'a test' }));
    const ask = async (certificate) => {
        const evidence = btoa(String.fromCharCode(...bytes));
        const input = { arch: 'HOPPER', evidence, certificate };
        return (await attest.verifyEvidence(input, { at: new Date(at), anchors: 'simulation', unchecked })).outcome;
    };
    const outcomes = { untouched: await ask(chain), flipped: {} };
    for (let place = 0; place < bytes.length; place += step) {
        const bit = 1 << (place % 8);
        bytes[place] ^= bit;
        const outcome = await ask(chain);
        outcomes.flipped[outcome] = (outcomes.flipped[outcome] ?? 0) + 1;
        bytes[place] ^= bit;
    }
    return outcomes;
}
"""


# A block has 55 bytes: every third one of a report is every one of a block, in one block or another.
@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_no_byte_of_a_report_can_be_changed(in_browser: Verifier, step: int) -> None:
    report = devices.GPU.report(devices.NONCE)
    given = {
        "report": base64.b64encode(report).decode(),
        "chain": base64.b64encode(devices.GPU.chain_pem).decode(),
        "at": rfc3339_text(devices.AT),
        "step": step,
    }
    found = in_browser.page.evaluate(_FLIP, given)
    assert found == {"untouched": "verified", "flipped": {"refused": len(range(0, len(report), step))}}


def altered(document: bytes, step: int) -> dict[str, bytes]:
    """Flip one bit here and there."""
    places = range(0, len(document), step)
    return {f"{at}": document[:at] + bytes([document[at] ^ 1 << at % 7]) + document[at + 1 :] for at in places}


def test_no_byte_of_a_rim_can_be_changed_unseen(in_browser: Verifier) -> None:
    driver = devices.rims()[0]
    found = judged(in_browser, with_rim(altered(driver, 307)))
    # KeyInfo is outside the signed part; a changed root there is dropped, as a pinned key takes its place elsewhere.
    signed = driver.index(b"<ds:KeyInfo")
    assert {code for place, code in found.items() if int(place) < signed} == {
        "gpu-rim-missing",
        "rim-signature-invalid",
    }
    assert "verified" not in found.values()


def test_an_altered_or_arbitrary_answer_is_judged_alike(in_browser: Verifier) -> None:
    good, *others = devices.issued()
    spoiled = {**altered(good, 41), **{f"cut at {at}": good[:at] for at in range(0, len(good), 97)}}
    cases = [devices.asked(name, answers_given=(document, *others)) for name, document in spoiled.items()]
    assert "verified" not in judged(in_browser, cases).values()


def test_answers_and_rims_are_found_in_the_forms_that_clients_write(in_browser: Verifier) -> None:
    answer, *others = devices.issued()
    rim, *more = devices.rims()
    answers = {
        "an answer in hex": answer.hex().encode() + b"\n",
        "an answer in hex, cut": answer.hex().encode()[:-1],
        "an answer behind a byte": b"\0" + answer,
    }
    rims = {
        "a RIM behind a byte-order mark": b"\xef\xbb\xbf" + rim,
        "a RIM behind blanks": b" \n" * 500 + rim,
        "a RIM behind too many blanks": b" \n" * 520 + rim,
        "a RIM behind a word": b"x" + rim,
    }
    cases = [devices.asked(name, answers_given=(data, *others)) for name, data in answers.items()]
    found = judged(in_browser, cases + [devices.asked(name, rims_given=(data, *more)) for name, data in rims.items()])
    assert found["an answer in hex"] == "verified"
    assert found["a RIM behind a word"] == "gpu-rim-missing"


def test_a_devices_json_is_read_alike(in_browser: Verifier) -> None:
    good = json.loads(devices.device_item().value)
    hexadecimal = {**good, "evidence": devices.GPU.report(devices.NONCE).hex()}
    nvml = {"environment": "production", "cc_mode": True, "dev_tools_mode": False, "multi_gpu_mode": "none"}
    lists: dict[str, object] = {
        "one device": good,
        "an array": [good, good],
        "no device": [],
        "33 devices": [good] * 33,
        "what nvattest writes": {"evidences": [good], "result_code": 0, "result_message": "ok"},
        "a collection that failed": {"evidences": [good], "result_code": 1},
        "something beside it": {"evidences": [good], "more": 1},
        "of Confidential Containers": {"device_evidence_list": [hexadecimal]},
        "an unknown member": {**good, "more": 1},
        "another nonce beside it": {**good, "nonce": "00" * 32},
        "a nonce that is none": {**good, "nonce": "00"},
        "settings": {**good, "nvml": nvml},
        "settings of another type": {**good, "nvml": {**nvml, "cc_mode": 1}},
        "no settings": {**good, "nvml": None},
        "loose base64": {**good, "evidence": good["evidence"] + "="},
        "a number as a report": {**good, "evidence": 1},
        "hints": {**good, "version": "1.0", "driver_version": "1", "vbios_version": "2", "uuid": "GPU-1"},
        "a hint of another alphabet": {**good, "uuid": "\u00fc"},
        "a large number": {**good, "uuid": 2**70},
    }  # fmt: skip
    found = judged(in_browser, (devices.asked(name, json.dumps(document).encode()) for name, document in lists.items()))
    good_ones = {"one device", "what nvattest writes", "of Confidential Containers", "settings", "hints"}
    good_ones |= {"something beside it", "an unknown member", "a hint of another alphabet", "a large number"}
    assert {name for name, code in found.items() if code == "verified"} == good_ones
