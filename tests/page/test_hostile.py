"""Any bytes at all: the page gives a result with a code, the same as Python's, and never hangs or throws."""

import base64
import itertools
import json
import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from attest.encoding import CborValue, cbor_bytes
from attest.endorsements.x509 import parse_certificate
from attest.evidence.envelope import MAX_VALUES, MEDIA_SNP_REPORT, Evidence, EvidenceItem
from attest_simulator.machines import SimulatedMachine
from tests.page.browser import Question, Verifier
from tests.page.reference import answer, differences
from tests.page.test_machines import AT, BINDING
from tests.page.test_snp_mutation import GENOA

pytestmark = pytest.mark.loopback
TAGS = bytes(
    (0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x0C, 0x13, 0x17, 0x18, 0x30, 0x31, 0x7F, 0x80, 0x81, 0xA0, 0xA3)
)
MOMENT = AT.isoformat().replace("+00:00", "Z")


def _texts() -> Iterator[str]:
    """JSON that two readers could read differently, or that is no JSON."""
    yield from ("{}", "[]", "null", "0", '""', "{", "[", '{"a":1,"a":2}', '{"cpu":["a/b"]}', '{"cpu":["a/b","!"]}')
    yield from ('{"cpu":["a/b",""]} x', "\ufeff{}", '{"cpu":["a/b","",0]}', '{"cpu":["a/b","",4.0]}', "{'a':1}")
    yield from ('{"cpu":["a/b","AB"]}', '{"cpu":["a/b","AA=="]}', '{"\\ud800":["a/b",""]}', '{"a/b/c":{}}', "[NaN]")
    yield from ("[" * 5000, '{"a":' * 5000, '{"__cmwc_t":1}', '{"__cmwc_t":"x"}', '{"__proto__":["a/b",""]}')
    yield from ('["a/b","",4294967296]', '["a/b","",true]', '{"constructor":["a/b","",4]}', '{"":["a/b",""]}')
    yield json.dumps({f"item{i}": ["a/b", ""] for i in range(65)})
    yield json.dumps({"cpu": ["application/vnd.amd.sev-snp.attestation-report", "AA"]})
    yield json.dumps({"a" * 65: ["a/b", ""]})
    yield json.dumps({f"more than eight MiB together, {i}": ["a/b", "AAAA" * 450_000] for i in range(5)})


def _mutations(whole: bytes, count: int, seed: int) -> Iterator[bytes]:
    """Cut, doubled and changed in some places."""
    chance = random.Random(seed)
    for _ in range(count):
        data = bytearray(whole)
        for _ in range(chance.choice((1, 1, 1, 2, 5))):
            at = chance.randrange(len(data))
            match chance.randrange(5):
                case 0:
                    del data[at:]
                case 1:
                    del data[at : at + chance.randrange(1, 9)]
                case 2:
                    data[at:at] = chance.randbytes(chance.randrange(1, 5))
                case 3:
                    data[at:at] = data[at : at + chance.randrange(1, 64)]
                case _:
                    data[at] = chance.choice(b'{}[]",:0aAf-_=\x00\xff')
            if not data:
                break
        yield bytes(data)


BLANKS = (
    b" ",
    b"\t",
    b"\n",
    b"\r\n",
    b"\v",
    b"\f",
    b"\x1c",
    b"\x1f",
    b"\x85",
    b"\xa0",
    b"\xe2\x80\x83",
    b"\xef\xbb\xbf",
    b"\0",
)


def _written() -> Iterator[tuple[str, bytes]]:
    """Evidence as text, with what one reader could take for a blank around it and inside."""
    report = bytes.fromhex("02000000") + bytes(1180)
    texts = {
        "hex": report.hex().encode(),
        "hex with 0x": b"0x" + report.hex().encode(),
        "base64": base64.b64encode(report),
        "base64url": base64.urlsafe_b64encode(report).rstrip(b"="),
        "JSON": SimulatedMachine.of("snp")(BINDING).to_json(),
        "PEM": b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----",
        "token": b"eyJ" + b"a" * 90 + b".e30.AAAA",
    }
    for (name, text), blank in itertools.product(texts.items(), BLANKS):
        yield f"{name} in front of {blank!r}", text + blank
        yield f"{name} behind {blank!r}", blank + text
        yield f"{name} with {blank!r} inside", text[:40] + blank + text[40:]
    yield "two blanks before padding", texts["base64"][:-1] + b"\n=\n"
    yield "base64 of both alphabets", b"+/-_" * 20
    yield "odd hex", b"0" * 65
    yield "short hex", b"00" * 30


def _inputs() -> Iterator[tuple[str, bytes]]:
    yield from _written()
    evidence = SimulatedMachine.of("azure-snp")(BINDING)
    for number, text in enumerate(_texts()):
        yield f"text {number}: {text[:40]}", text.encode("utf-8", "surrogatepass")
    for seed, whole in enumerate((evidence.to_json(), evidence.to_cbor())):
        for number, data in enumerate(_mutations(whole, 60, seed)):
            yield f"mutation {seed}.{number}", data
    item = evidence.item("cpu")
    assert item is not None
    for indicator in ([], [4], [0]):
        yield f"one record in CBOR, {indicator}", cbor_bytes([item.media_type, item.value, *indicator])
    for extra in (MAX_VALUES, MAX_VALUES // 2):
        members: dict[str, CborValue] = {f"{at}": {} for at in range(extra)}
        yield f"{extra} empty collections", cbor_bytes({"cpu": (item.media_type, item.value), **members})
    whole = evidence.to_cbor()
    for first in (0x9F, 0xA0, 0xBB, 0xBC, 0xBF):
        yield f"CBOR that begins with {first:02x}", bytes([first]) + whole[1:]
    for number, data in enumerate(_mutations(item.value, 60, 7)):
        yield f"azure mutation {number}", data
    for number, data in enumerate(_mutations(SimulatedMachine.of("snp")(BINDING).to_cbor(), 60, 9)):
        yield f"snp mutation {number}", data


def test_the_page_refuses_hostile_bytes_with_the_code_that_python_has(in_browser: Verifier) -> None:
    files = dict(_inputs())
    in_browser.hold(files)
    questions = [Question(input=[name], at=MOMENT, anchors="simulation") for name in files]
    differing: list[str] = []
    for name, question, got in zip(files, questions, in_browser.ask_all(questions), strict=True):
        expected = answer(question, files)
        codes = [result["error"]["code"] if result["error"] else result["outcome"] for result in (expected, got)]
        if codes[0] != codes[1]:
            differing.append(f"{name}: Python {codes[0]}, page {codes[1]}")
    assert differing == []


def _spoiled(whole: bytes, count: int, seed: int) -> Iterator[bytes]:
    """DER with another bit, tag, length, or one byte more or less."""
    chance = random.Random(seed)
    for _ in range(count):
        data = bytearray(whole)
        at = chance.randrange(len(data))
        match chance.randrange(5):
            case 0:
                data[at] ^= 1 << chance.randrange(8)
            case 1:
                data[at] = chance.choice(TAGS)
            case 2:
                del data[at]
            case 3:
                data.insert(at, chance.randrange(256))
            case _:
                data[at] = (data[at] + chance.choice((1, -1))) % 256
        yield bytes(data)


def test_the_page_reads_certificates_and_lists_as_python_does(in_browser: Verifier) -> None:
    files = GENOA.files() | {"a report": GENOA.report()}
    questions: list[Question] = []
    for number, name in enumerate(GENOA.files()):
        others = [other for other in GENOA.files() if other != name]
        for count, data in enumerate(_spoiled(files[name], 60, number)):
            spoiled = f"{name} spoiled {count}"
            files[spoiled] = data
            # Among the endorsements what is unreadable is missing; with the evidence it is a broken chain.
            for given, more in ((["a report"], [*others, spoiled]), (["a report", spoiled], others)):
                questions.append(
                    Question(input=given, at="2026-06-01T00:00:00Z", endorsements=more, anchors="simulation")
                )
    in_browser.hold(files)
    answers = in_browser.ask_all(questions)
    differing = [
        f"{question.input} {question.endorsements[-1]}: {found}"
        for question, got in zip(questions, answers, strict=True)
        if (found := differences(answer(question, files), got))
    ]
    assert differing == []
    assert {got["error"]["code"] for got in answers if got["error"]} >= {
        "certificate-malformed",
        "certificate-signature-invalid",
        "crl-malformed",
        "crl-signature-invalid",
    }


def test_long_runs_of_one_character_take_no_time(in_browser: Verifier) -> None:
    """What an expression with a star would search again from each of its places."""
    size = 400_000
    texts = {
        "blanks": " " * size + "x",
        "zeros": "30" + "0" * size + " " * size + "x",
        "NULs in JSON": json.dumps({"pck_crl": "\0" * size + "x", "tcb_info": "{}"}),
        "blanks in JSON": '{"tcbInfo":{"id":' + " " * size + '1},"signature":"' + "00" * 64 + '"}',
        "padding": json.dumps({"version": 1, "hcl_report": "=" * size + "A", "tpm_quote": {}}),
        "lines": "-----BEGIN CERTIFICATE-----\n" * 10_000,
        "one block": "-----BEGIN CERTIFICATE-----\n" + "A" * size,
        "digits": '{"a":' + "1" * size + "}",
        "quotes": '{"a":"' + '\\"' * size,
        "brackets": "[" * size,
        "collateral": '"tcb_info"' + " " * size,
        "references": "<SoftwareIdentity>" + "&#x" + "0" * size,
        "comments": "<SoftwareIdentity " + " " * size,
    }
    files = {f"run of {name}": text.encode() for name, text in texts.items()} | {"a report": GENOA.report()}
    in_browser.hold(files)
    questions = [
        question
        for name in files
        for question in (
            Question(input=[name], at=MOMENT),
            Question(input=["a report"], at=MOMENT, endorsements=[name]),
        )
    ]
    begin = in_browser.page.evaluate("performance.now()")
    answers = in_browser.ask_all(questions)
    taken = in_browser.page.evaluate("performance.now()") - begin
    assert {got["outcome"] for got in answers} == {"refused"}
    assert taken < 10_000, f"{taken:.0f} ms for {len(questions)} questions; a second is usual"


def test_evidence_that_cannot_answer_is_refused_and_throws_nothing(in_browser: Verifier) -> None:
    evidence = SimulatedMachine.of("snp", gpus=1)(BINDING)
    alone = replace(evidence, items=tuple(item for item in evidence.items if item.name == "gpu0"))
    in_browser.hold({"a gpu alone": alone.to_json()})
    asked = [
        Question(input=["a gpu alone"], at=MOMENT, anchors="simulation", report_data="00" * 64),
        Question(input=["a gpu alone"], at=MOMENT, anchors="simulation", nonce="00"),
    ]
    codes = [got["error"]["code"] for got in in_browser.ask_all(asked)]
    assert codes == ["option-not-applicable", "nonce-length"]


def test_a_refusal_that_two_verifications_wait_for_is_told_to_each_by_itself(in_browser: Verifier) -> None:
    """A key that cannot be read is remembered as such; the checks and names are those of whoever asked."""
    files = GENOA.files()
    (issuer,) = (name for name in files if name.endswith("ask.der"))
    key = parse_certificate(files[issuer]).spki
    files["broken issuer"] = files[issuer].replace(key, key[:4] + b"\x05" + key[5:])
    item = EvidenceItem(name="cpu", media_type=MEDIA_SNP_REPORT, value=GENOA.report())
    names = [f"machine {number}" for number in range(8)]
    files |= {name: Evidence(items=(replace(item, name=name.replace(" ", "")),)).to_json() for name in names}
    in_browser.hold(files)
    endorsements = [*(name for name in GENOA.files() if name != issuer), "broken issuer"]
    asked = [Question(input=[name], at=MOMENT, endorsements=endorsements, anchors="simulation") for name in names]
    together = "async (asked) => JSON.stringify(await Promise.all(asked.map((question) => attest.ask(question))))"
    answers = json.loads(in_browser.page.evaluate(together, [question.document() for question in asked]))
    for name, got in zip(names, answers, strict=True):
        assert got["error"]["code"] == "public-key-invalid"
        assert {check.get("item") for check in got["checks"]} == {None, name.replace(" ", "")}


def test_a_caller_that_asks_for_the_impossible_hears_of_it(in_browser: Verifier) -> None:
    wrong = [
        {"at": "2026-06-10T00:00:00Z"},
        {"at": None},
        {"at": 1e15},
        {"at": -1e14},
        {"nonce": ""},
        {"nonce": "00" * 65},
        {"nonce": "x"},
        {"reportData": "00"},
        {"anchors": "all"},
        {"unchecked": [{"check": "everything", "reason": "because"}]},
        {"unchecked": [{"check": "revocation", "reason": " "}]},
        {"binding": {"context": "a", "role": "b", "audience": "c", "nonce": "00"}},
    ]
    script = """
    async (wrong) => {
        const found = [];
        for (const options of wrong) {
            const whole = { at: 0, ...options };
            const asked = attest.verifyEvidence(new Uint8Array(4), whole);
            found.push(await asked.then(() => "answered", (error) => error.name));
        }
        return found;
    }
    """
    assert in_browser.page.evaluate(script, wrong) == ["TypeError"] * len(wrong)


def test_evidence_cannot_change_under_the_verifier(in_browser: Verifier) -> None:
    """Who gave the bytes may write them again while they are verified; what was asked about is what is judged."""
    evidence = SimulatedMachine.of("snp")(BINDING)
    in_browser.hold({"changing": evidence.to_json()})
    script = """
    async ([at]) => {
        const bytes = attest.bytesOf(btoa("x".repeat(64)));
        const asked = attest.verifyEvidence(bytes, { at });
        bytes.fill(0);
        return (await asked).error.code;
    }
    """
    assert in_browser.page.evaluate(script, [0]) == "evidence-unrecognised"
