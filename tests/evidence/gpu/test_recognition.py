"""NVIDIA's files become items: several may come, in any order, beside at most one other piece of evidence."""

import base64
import itertools
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from attest.encoding import JsonValue, base64url_text
from attest.endorsements.bundle import build_bundle
from attest.endorsements.bundle_records import BundleEntry
from attest.errors import AttestError, UnsupportedError
from attest.evidence.envelope import (
    MEDIA_INTEL_QUOTE,
    MEDIA_NVIDIA_DEVICE,
    MEDIA_NVIDIA_REPORT,
    MEDIA_SNP_EXTENDED,
    MEDIA_SNP_REPORT,
    Evidence,
    EvidenceItem,
)
from attest.evidence.gpu.evidence import NVIDIA_PARSERS, device_json
from attest.evidence.input_file import FORMS
from attest.evidence.input_files import RecognisedEvidence, read_evidence
from attest.evidence.snp.tcb import SnpProduct
from attest_simulator import SimulatedChip, SimulatedGuest
from tests.evidence.gpu import made

CHIP = SimulatedChip.of(SnpProduct.GENOA)
SNP = SimulatedGuest(chip=CHIP).report(bytes(64))
QUOTE = bytes.fromhex("0400020081000000") + bytes(600)
GPUS = made.jsons([made.device(), made.device()])
SWITCHES = made.jsons([made.device(made.SWITCH, arch="LS10")])


def read(*contents: bytes, form: str | None = None) -> RecognisedEvidence:
    return read_evidence([(f"file{number}", content) for number, content in enumerate(contents)], form=form)


def names(*contents: bytes, form: str | None = None) -> list[str]:
    return [item.name for item in read(*contents, form=form).evidence.items]


def refused(*contents: bytes, form: str | None = None) -> AttestError:
    with pytest.raises(AttestError) as caught:
        read(*contents, form=form)
    return caught.value


# -- one file


@pytest.mark.parametrize("data", [made.GPU, made.SWITCH])
def test_a_report_is_an_item_in_binary_hex_and_base64(data: bytes) -> None:
    spellings = [data, data.hex().encode() + b"\n", b"0x" + data.hex().upper().encode(), base64.b64encode(data)]
    spellings += [base64.encodebytes(data), base64url_text(data).encode()]
    for text in spellings:
        for form in (None, "nvidia-report"):
            found = read(text, form=form)
            assert found.evidence.items == (EvidenceItem(name="gpu0", media_type=MEDIA_NVIDIA_REPORT, value=data),)
            assert found.forms[0].startswith("NVIDIA attestation report")


DEVICES: list[dict[str, Any]] = [
    made.device(),
    made.device(made.SWITCH, arch="LS10"),
    made.device(),
    made.device(made.SWITCH, arch="LS10"),
]


@pytest.mark.parametrize(
    "document",
    [
        DEVICES,
        {"evidences": DEVICES, "result_code": 0, "result_message": "Ok"},
        {"device_evidence_list": DEVICES},
        {"device_evidence_list": [{**device, "evidence": made.GPU.hex()} for device in DEVICES]},
    ],
)
def test_a_file_of_devices_is_an_item_each(document: JsonValue) -> None:
    for form in (None, "nvidia-json"):
        found = read(made.jsons(document), form=form)
        assert found.forms == ("NVIDIA evidence (JSON)",)
        assert [item.name for item in found.evidence.items] == ["gpu0", "nvswitch0", "gpu1", "nvswitch1"]
        for item in found.evidence.items:
            assert item.media_type == MEDIA_NVIDIA_DEVICE
            assert NVIDIA_PARSERS[item.essence](item.value).chain


def test_a_collection_of_nvidias_sdk_is_no_envelope() -> None:
    from_sdk = {
        "__cmwc_t": "tag:nvidia.com,2026:verifier-input/profiles/base/pre-1.0.0",
        "gpu_0": {
            "__cmwc_t": "tag:nvidia.com,2026:evidence-item/v1",
            "evidence": ["application/vnd.nvidia.spdm-measurement-transcript", base64url_text(made.GPU)],
            "certificate": ["application/vnd.nvidia.pem-cert-chain", base64url_text(made.CHAIN)],
        },
    }
    for form in (None, "nvidia-json"):
        found = read(made.jsons(from_sdk), form=form)
        assert found.forms == ("NVIDIA evidence (CMW)",)
        (item,) = found.evidence.items
        assert (item.name, item.media_type) == ("gpu0", MEDIA_NVIDIA_DEVICE)
        assert NVIDIA_PARSERS[item.essence](item.value).report.raw == made.GPU
    assert read(made.jsons({**from_sdk, "__cmwc_t": "tag:example.org,2026:x"})).forms == ("evidence envelope (JSON)",)


def test_one_device_alone_is_an_item() -> None:
    data = device_json(made.SWITCH, made.CHAIN, "LS10", None, None)
    assert names(data) == ["nvswitch0"]
    assert read(data, form="nvidia-json").evidence.items[0].value == data


@pytest.mark.parametrize(("data", "form"), [(made.GPU, "nvidia-report"), (GPUS, "nvidia-json")])
def test_another_form_is_refused(data: bytes, form: str) -> None:
    for other in set(FORMS) - {form}:
        error = refused(data, form=other)
        assert (error.code, error.expected, error.got) == ("evidence-form-mismatch", other, form)


@pytest.mark.parametrize(
    ("document", "code"),
    [
        ({"device_evidence_list": []}, "gpu-device-malformed"),
        ({"evidences": []}, "gpu-device-malformed"),
        ({"evidences": DEVICES, "result_code": 5}, "gpu-device-malformed"),
        ([made.device(certificate=None)], "gpu-device-malformed"),
        ([made.device(evidence=None)], "gpu-device-malformed"),
        ([made.device(arch=None), {}], "gpu-device-malformed"),
        (made.device(certificate=None), "gpu-device-malformed"),
        ({"device_evidence_list": [made.device(evidence="abc")]}, "hex-invalid"),
        ([], "evidence-unrecognised"),
        ([{"arch": "HOPPER"}], "evidence-unrecognised"),
    ],
)
def test_a_file_without_devices_or_parts_of_them_is_malformed(document: JsonValue, code: str) -> None:
    error = refused(made.jsons(document))
    assert (error.code, error.exit_code) == (code, 3)


def test_nvidias_tokens_stay_unsupported() -> None:
    for document in ([["JWT", "x"], {"GPU-0": "x"}], {"payload": "x", "signature": "x"}):
        assert isinstance(refused(made.jsons(document)), UnsupportedError)


# -- several files


def test_devices_are_numbered_through_in_the_order_of_the_files() -> None:
    assert names(GPUS, SWITCHES, GPUS, made.GPU, SWITCHES) == [
        "gpu0",
        "gpu1",
        "nvswitch0",
        "gpu2",
        "gpu3",
        "gpu4",
        "nvswitch1",
    ]
    assert names(made.GPU, made.GPU) == ["gpu0", "gpu1"]


def test_files_may_come_in_any_order() -> None:
    for order in itertools.permutations([GPUS, SWITCHES, SNP, made.CHAIN]):
        evidence = read(*order).evidence
        assert sorted(item.name for item in evidence.items) == ["cpu", "gpu0", "gpu1", "nvswitch0"]
        assert len(evidence.presented.certificates) == len(made.CERTIFICATES)


@pytest.mark.parametrize(("cpu", "media_type"), [(SNP, MEDIA_SNP_REPORT), (QUOTE, MEDIA_INTEL_QUOTE)])
def test_devices_stand_beside_a_cpu(cpu: bytes, media_type: str) -> None:
    for order in itertools.permutations([cpu, GPUS, made.GPU]):
        items = read(*order).evidence.items
        assert [item.name for item in items] == ["cpu", "gpu0", "gpu1", "gpu2"]
        assert (items[0].media_type, items[0].value) == (media_type, cpu)


def test_an_envelopes_items_keep_their_names_and_its_type() -> None:
    envelope = Evidence(
        items=(
            EvidenceItem(name="cpu", media_type=MEDIA_SNP_REPORT, value=SNP),
            EvidenceItem(name="gpu1", media_type=MEDIA_NVIDIA_REPORT, value=made.SWITCH),
        ),
        collection_type="tag:example.org,2026:x",
    )
    for order in itertools.permutations([envelope.to_json(), GPUS]):
        evidence = read(*order).evidence
        assert evidence.items[:2] == envelope.items
        assert [item.name for item in evidence.items[2:]] == ["gpu0", "gpu2"]
        assert evidence.collection_type == "tag:example.org,2026:x"


def test_a_table_goes_to_the_cpu_and_a_bundle_behind_the_devices() -> None:
    items = read(GPUS, CHIP.certificate_table(), SNP).evidence.items
    assert [(item.name, item.media_type) for item in items[:1]] == [("cpu", MEDIA_SNP_EXTENDED)]
    bundle = build_bundle(
        (BundleEntry(kind="amd-vcek", source="a test", data=made.CERTIFICATES[0]),),
        created=datetime(2026, 6, 1, tzinfo=UTC),
        expires=datetime(2026, 7, 1, tzinfo=UTC),
    ).to_bytes()
    assert names(bundle, made.GPU) == ["gpu0", "endorsements"]
    assert refused(GPUS, CHIP.certificate_table()).code == "evidence-ambiguous"


def test_two_cpus_beside_devices_are_ambiguous() -> None:
    error = refused(GPUS, SNP, QUOTE)
    assert (error.code, error.exit_code, error.got) == ("evidence-ambiguous", 3, "2")
    assert "file1" in error.message
    assert "file2" in error.message


def test_the_form_that_was_asked_for_is_the_cpus_if_there_is_one() -> None:
    assert names(GPUS, SNP, form="snp-report") == ["cpu", "gpu0", "gpu1"]
    assert refused(GPUS, SNP, form="nvidia-json").code == "evidence-form-mismatch"
    assert refused(GPUS, SNP, form="tdx-quote").field == "file1"


def test_without_a_cpu_every_file_is_of_the_form_that_was_asked_for() -> None:
    assert names(GPUS, SWITCHES, form="nvidia-json") == ["gpu0", "gpu1", "nvswitch0"]
    assert refused(GPUS, made.GPU, form="nvidia-json").field == "file1"


def test_an_unsupported_form_beside_devices_is_still_refused() -> None:
    assert refused(GPUS, b'{"attestation_reports": []}').code == "evidence-unsupported"


def test_more_devices_than_an_envelope_holds_are_refused() -> None:
    many = made.jsons([made.device()] * 32)
    assert len(read(many, many).evidence.items) == 64
    assert refused(many, many, made.GPU).code == "envelope-invalid"


# -- recorded


@pytest.mark.parametrize("name", made.REPORTS)
def test_recorded_reports_are_recognised(name: str, vectors_dir: Path) -> None:
    folder = vectors_dir / "nvidia" / name
    found = read((folder / "report.hex").read_bytes(), (folder / "chain.pem").read_bytes())
    (item,) = found.evidence.items
    assert (item.name, item.media_type, item.value) == ("gpu0", MEDIA_NVIDIA_REPORT, made.recorded(vectors_dir, name))
    assert len(found.evidence.presented.certificates) == 5


def test_a_recorded_board_is_recognised_in_two_files(vectors_dir: Path) -> None:
    folder = vectors_dir / "nvidia" / made.BOARD
    gpus, switches = ((folder / f"{which}_evidence.json").read_bytes() for which in ("gpu", "switch"))
    expected = {f"gpu{number}" for number in range(8)} | {f"nvswitch{number}" for number in range(4)}
    for order in ((gpus, switches), (switches, gpus)):
        evidence = read(*order, form="nvidia-json").evidence
        assert {item.name for item in evidence.items} == expected
        for item in evidence.items:
            assert len(NVIDIA_PARSERS[item.essence](item.value).chain or ()) == 5
    together = json.loads(gpus) + json.loads(switches)
    assert set(names(made.jsons(together))) == expected
