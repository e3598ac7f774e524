"""A simulated Hopper and what an attacker can do to it: one file of evidence or endorsements changed at a time."""

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from attest.encoding import rfc3339_text
from attest.endorsements.x509 import Extension
from attest.evidence.envelope import MEDIA_NVIDIA_DEVICE, MEDIA_NVIDIA_REPORT, Evidence, EvidenceItem
from attest.evidence.gpu.evidence import device_json
from attest_simulator import der
from attest_simulator.nvidia import Reason, ReportTemplate, SimulatedGpu, SimulatedNvSwitch, SimulatedOcsp
from attest_simulator.nvidia.authorities import provisioner_authority
from attest_simulator.nvidia.certificates import NvidiaCertificateTemplate, pem_bytes
from attest_simulator.nvidia.ocsp import OcspTemplate, responder_key, responder_template
from attest_simulator.nvidia.responder import opaque_data
from tests.page.browser import Question

AT = datetime(2026, 6, 1, tzinfo=UTC)
NONCE = bytes(range(32))
GPU = SimulatedGpu.of("page gpu", architecture="hopper", driver="580.95.05")
OTHER = SimulatedGpu.of("another page gpu", architecture="hopper", driver="580.95.05")
BLACKWELL = SimulatedGpu.of("page gpu", architecture="blackwell", driver="580.95.05")
SWITCH = SimulatedNvSwitch.of("page switch")
PROVISIONER = provisioner_authority(GPU.product)
REASON = "a test"

Files = dict[str, bytes]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One question with the files that it names."""

    name: str
    files: Mapping[str, bytes]
    question: Question


def envelope(*items: EvidenceItem) -> bytes:
    return Evidence(items=items).to_json()


def device_item(
    report: bytes | None = None, chain: bytes | None = None, *, gpu: SimulatedGpu | SimulatedNvSwitch = GPU, **more: str
) -> EvidenceItem:
    given = gpu.report(NONCE) if report is None else report
    value = device_json(given, gpu.chain_pem if chain is None else chain, more.get("arch", gpu.arch))
    return EvidenceItem(name=more.get("name", "gpu0"), media_type=MEDIA_NVIDIA_DEVICE, value=value)


@cache
def rims() -> tuple[bytes, bytes]:
    """The driver's and the VBIOS's."""
    driver, vbios = GPU.rims(at=AT)
    return driver.issue(), vbios.issue()


@cache
def answers() -> tuple[OcspTemplate, ...]:
    """Good ones about every certificate that matters: the device's first."""
    ocsp = SimulatedOcsp.of(AT)
    return tuple(ocsp.template(issuer, serial) for issuer, serial in GPU.questions(at=AT))


@cache
def issued() -> tuple[bytes, ...]:
    return tuple(answer.issue() for answer in answers())


def asked(
    name: str,
    evidence: bytes | None = None,
    *,
    rims_given: tuple[bytes, ...] | None = None,
    answers_given: tuple[bytes, ...] | None = None,
    at: datetime = AT,
    unchecked: tuple[str, ...] = (),
    nonce: bytes | None = NONCE,
    anchors: str = "simulation",
    tolerances: Mapping[str, Mapping[str, object]] | None = None,
) -> Asked:
    """Ask about the Hopper; what is not given is good. The root of the simulator is held by its digest alone."""
    everything = [*GPU.certificates, *(rims_given or rims()), *(issued() if answers_given is None else answers_given)]
    given = envelope(device_item()) if evidence is None else evidence
    named = {_named(data): data for data in (given, *everything)}
    return Asked(
        name=name,
        files=named,
        question=Question(
            input=[_named(given)],
            endorsements=[_named(data) for data in everything],
            at=rfc3339_text(at),
            unchecked=dict.fromkeys(unchecked, REASON),
            nonce=None if nonce is None else nonce.hex(),
            anchors=anchors,
            tolerances=tolerances,
        ),
    )


def _named(data: bytes) -> str:
    """Name a file by its content, so that the page gets each one once."""
    return f"{len(data)}-{hash(data):x}"


# -- reports


def signed(**changes: object) -> bytes:
    """A report that the device's key signed, whatever it says."""
    template: ReportTemplate = GPU.report_template(NONCE)
    return replace(template, **changes).issue()  # type: ignore[arg-type]  # changes of any field


def opaque(changes: Mapping[int, bytes | None]) -> bytes:
    """The opaque data with other values; None leaves an entry out, and a new type is appended."""
    entries = dict(GPU.opaque_entries()) | dict(changes)
    return opaque_data([(kind, value) for kind, value in entries.items() if value is not None])


def spoiled_reports() -> Iterator[Asked]:
    """Reports that are signed and say something else, and reports that are not what was signed."""
    good = GPU.report(NONCE)
    other = tuple(bytes(48) if index == 7 else value for index, value in enumerate(GPU.measurements))
    decoder = tuple(bytes(48) if index == 35 else value for index, value in enumerate(GPU.measurements))
    said = {
        "another measurement": signed(measurements=other),
        "the decoder's measurement, and the decoder on": signed(measurements=decoder, opaque=opaque({11: b"\xaa"})),
        "the decoder's measurement, and the decoder off": signed(measurements=decoder, opaque=opaque({11: b"\x55"})),
        "another firmware id": signed(opaque=opaque({20: bytes(48)})),
        "no firmware id": signed(opaque=opaque({20: None})),
        "a BIOS version as a switch writes it": signed(opaque=opaque({6: b"96.10.73.00.01"})),
        "no version of the driver": signed(opaque=opaque({3: None})),
        "another version of the driver": signed(opaque=opaque({3: b"580.95.06\0"})),
        "an unknown type": signed(opaque=opaque({999: b"?"})),
        "opaque data of version 2": signed(opaque=opaque({34: b"\2\0"})),
        "a feature flag of no meaning": signed(opaque=opaque({34: b"\1\0", 36: b"\7\0"})),
        "the versioned layout": signed(opaque=b"NVDAOD\0\0\1\2\3"),
        "an entry that overruns": signed(opaque=opaque({}) + b"\3\0\xff\xff"),
        "a type twice": signed(opaque=opaque({}) + b"\x0b\0\1\0\x55"),
        "text that cannot be shown": signed(opaque=opaque({17: b"\xff"})),
        "31 measurements": signed(measurements=GPU.measurements[:31]),
        "32 measurements": signed(measurements=GPU.measurements[:32]),
        "another slot": signed(slot=b"\1"),
        "protected PCIe against the feature flag": signed(opaque=opaque({21: b"\xaa"})),
        "protected PCIe without a feature flag": signed(opaque=opaque({21: b"\xaa", 34: None, 36: None})),
        "no feature flag": signed(opaque=opaque({34: None, 36: None})),
        "a feature flag and no version": signed(opaque=opaque({34: None, 36: b"\2\0"})),
        "a version and no feature flag": signed(opaque=opaque({36: None})),
        "r and s exchanged": good[:-96] + good[-48:] + good[-96:-48],
        "a signature of zeros": good[:-96] + bytes(96),
        "a byte behind it": good + b"\0",
        "nothing": b"",
    }
    yield from (asked(name, envelope(device_item(report))) for name, report in said.items())
    yield from (asked(f"cut at {length}", envelope(device_item(good[:length]))) for length in range(1, len(good), 211))


def measurement_of_another_driver() -> Asked:
    """A GPU one of whose measurements is that of another driver, whose RIM is at hand."""
    other = replace(GPU, driver="590.12")
    mixed = tuple(other.measurements[22] if index == 22 else value for index, value in enumerate(GPU.measurements))
    evidence = envelope(device_item(signed(measurements=mixed)))
    return asked("a mixed device", evidence, rims_given=(*rims(), other.rims(at=AT)[0].issue()))


# -- chains


def _pem(*certificates: bytes) -> bytes:
    return pem_bytes(certificates)


def _leaf(**changes: object) -> bytes:
    template: NvidiaCertificateTemplate = GPU.keys.leaf_template()
    return replace(template, **changes).issue(GPU.keys.device_key())  # type: ignore[arg-type]  # changes of any field


def _device_certificate(**changes: object) -> bytes:
    template: NvidiaCertificateTemplate = GPU.keys.device_template()
    return replace(template, **changes).issue(PROVISIONER.key)  # type: ignore[arg-type]  # as above


def _leaf_with(*extensions: Extension) -> bytes:
    """A leaf with these extensions in the place of its own, or beside them."""
    replaced = {extension.oid for extension in extensions}
    kept = (extension for extension in GPU.keys.leaf_template().extensions if extension.oid not in replaced)
    return _leaf(extensions=(*kept, *extensions))


def _fwid(*, key: bytes, digest: bytes = GPU.keys.fwid, version: int = 1, critical: bool = False) -> Extension:
    algorithm = der.object_identifier("2.16.840.1.101.3.4.2.2")
    fwid = der.sequence(algorithm, der.octet_string(digest))
    return Extension(oid="2.23.133.5.4.1", critical=critical, value=der.sequence(der.integer(version), key, fwid))


def _other_curve() -> bytes:
    return (
        ec.derive_private_key(7, ec.SECP256R1())
        .public_key()
        .public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    )


def chains() -> dict[str, bytes]:
    """Chains beside a good report."""
    leaf, device, l3, l2, root = GPU.certificates
    spki, extensions = GPU.keys.device_template().spki, GPU.keys.leaf_template().extensions
    foreign = OTHER.certificates
    ca = Extension(oid="2.5.29.19", critical=True, value=der.sequence(b"\x01\x01\xff"))
    usage = Extension(oid="2.5.29.15", critical=True, value=der.bit_string(b"\x84", unused_bits=2))
    unknown = Extension(oid="1.2.3.4", critical=True, value=der.NULL)
    return {
        "good": _pem(leaf, device, l3, l2, root),
        "without the root": _pem(leaf, device, l3, l2),
        "without the leaf": _pem(device, l3, l2, root),
        "without the device": _pem(leaf, l3, l2, root),
        "without L2": _pem(leaf, device, l3, root),
        "the root alone": _pem(root),
        "in another order": _pem(leaf, l3, device, l2, root),
        "one certificate twice": _pem(leaf, leaf, device, l3, l2, root),
        "of another device": _pem(*foreign),
        "the leaf of another device": _pem(foreign[0], device, l3, l2, root),
        "of a Blackwell": _pem(*BLACKWELL.certificates),
        "of a switch": _pem(*SWITCH.certificates),
        "a leaf that is a CA": _pem(_leaf_with(ca), device, l3, l2, root),
        "a leaf that may issue": _pem(_leaf_with(usage), device, l3, l2, root),
        "a leaf with an unknown critical extension": _pem(_leaf_with(unknown), device, l3, l2, root),
        "a leaf without a firmware id": _pem(_leaf(extensions=extensions[:-1]), device, l3, l2, root),
        "a critical firmware id": _pem(_leaf_with(_fwid(key=spki, critical=True)), device, l3, l2, root),
        "a firmware id of another device": _pem(
            _leaf_with(_fwid(key=OTHER.keys.device_template().spki)), device, l3, l2, root
        ),
        "a firmware id of another version": _pem(_leaf_with(_fwid(key=spki, version=2)), device, l3, l2, root),
        "a short firmware id": _pem(_leaf_with(_fwid(key=spki, digest=bytes(32))), device, l3, l2, root),
        "an expired leaf": _pem(_leaf(not_after=AT - timedelta(days=1)), device, l3, l2, root),
        "a leaf of tomorrow": _pem(_leaf(not_before=AT + timedelta(days=1)), device, l3, l2, root),
        "a leaf whose key is no point": _pem(_leaf(spki=spki[:-96] + b"\1" * 96), device, l3, l2, root),
        "a device whose key is no point": _pem(leaf, _device_certificate(spki=spki[:-96] + b"\1" * 96), l3, l2, root),
        "a leaf with a key of another curve": _pem(_leaf(spki=_other_curve()), device, l3, l2, root),
        "a device with another serial number": _pem(leaf, _device_certificate(serial=7), l3, l2, root),
        "a device that is no CA": _pem(
            leaf, _device_certificate(extensions=GPU.keys.device_template().extensions[1:]), l3, l2, root
        ),
        "a signature that was altered": _pem(leaf, device[:-1] + bytes([device[-1] ^ 1]), l3, l2, root),
        "bytes behind a certificate": _pem(leaf, device + b"\0", l3, l2, root),
        "no certificate": b"",
        "a key beside it": _pem(leaf, device, l3, l2, root) + b"-----BEGIN EC PRIVATE KEY-----\nAAAA\n",
    }  # fmt: skip


def spoiled_chains() -> Iterator[Asked]:
    yield from (asked(name, envelope(device_item(chain=chain))) for name, chain in chains().items())
    yield asked("called a Blackwell", envelope(device_item(arch="BLACKWELL")))
    raw = EvidenceItem(name="gpu0", media_type=MEDIA_NVIDIA_REPORT, value=GPU.report(NONCE))
    yield asked("a raw report, and its chain among the endorsements", envelope(raw))
    yield asked("another nonce", nonce=bytes(32))
    yield asked("the vendors' roots", anchors="vendors")
    yield asked("the same device twice", envelope(device_item(), device_item(name="gpu1")))


# -- answers about revocation


def _first(**changes: object) -> bytes:
    """An answer about the device, whatever it says."""
    return replace(answers()[0], **changes).issue()  # type: ignore[arg-type]  # changes of any field


def _foreign_responder() -> bytes:
    """A responder of the authority above, which has no say about this device."""
    above = PROVISIONER.issuer
    assert above is not None
    certificate = responder_template(above).issue(above.key)
    return _first(key=responder_key(above), responder=(certificate,))


def _without_purpose() -> bytes:
    template = responder_template(PROVISIONER)
    kept = tuple(extension for extension in template.extensions if extension.oid != "2.5.29.37")
    return _first(responder=(replace(template, extensions=kept).issue(PROVISIONER.key),))


def spoiled_answers() -> Iterator[Asked]:
    day = timedelta(days=1)
    good, held = _first(), _first(status=Reason.HOLD)
    newer, older = AT - timedelta(minutes=1), AT - timedelta(minutes=2)
    cases: dict[str, tuple[bytes, ...]] = {
        "none": (),
        "revoked": (good, _first(status=Reason.KEY_COMPROMISE)),
        "revoked long ago": (
            good,
            _first(status=Reason.SUPERSEDED, this_update=AT - 90 * day, next_update=AT - 80 * day),
        ),
        "on hold": (held,),
        "a hold that was taken back": (_first(status=Reason.HOLD, this_update=older), _first(this_update=newer)),
        "a hold that is newer": (_first(status=Reason.HOLD, this_update=newer), _first(this_update=older)),
        "unknown": (_first(status="unknown", this_update=newer),),
        "unknown before good": (_first(status="unknown", this_update=older), _first(this_update=newer)),
        "expired": (_first(next_update=AT),),
        "of tomorrow": (_first(this_update=AT + day, next_update=AT + 2 * day),),
        "without an end": (_first(next_update=None),),
        "without an end, of yesterday": (_first(next_update=None, this_update=AT - day),),
        "named with SHA-1": (_first(digest="sha1"),),
        "named with SHA-384": (_first(digest="sha384"),),
        "with a nonce": (_first(nonce=bytes(32)),),
        "signed by the authority itself": (_first(key=PROVISIONER.key, responder=()),),
        "signed by nobody": (good[:-1] + bytes([good[-1] ^ 1]),),
        "of the responder of another authority": (_foreign_responder(),),
        "of a responder without the purpose": (_without_purpose(),),
        "about another device": (_first(serial=7),),
        "a responder of another type": (good.replace(b"\xa2\x16\x04\x14", b"\xa2\x16\0\x14", 1),),
        "bytes behind it": (good + b"\0",),
        "a refusal": (bytes.fromhex("30030a0106"),),
    }
    for name, given in cases.items():
        yield asked(name, answers_given=(*given, *issued()[1:]))
    signer = replace(answers()[3], status=Reason.HOLD).issue()
    yield asked("a signer of RIMs on hold", answers_given=(*issued(), signer))
    for at in (AT - day, AT + 400 * day, AT + 1000 * day):
        yield asked(f"at {at}", at=at)
    for relaxed in (("revocation",), ("rim",), ("revocation", "rim")):
        yield asked(f"nothing at hand, and {relaxed} left out", rims_given=(b"-",), answers_given=(), unchecked=relaxed)
        yield asked(f"RIMs of the past, and {relaxed} left out", at=AT + 1000 * day, unchecked=relaxed)


# -- files of several forms


def _device(**changes: object) -> dict[str, object]:
    found = {**GPU.json_object(NONCE), **changes}
    return {name: value for name, value in found.items() if value != "left out"}


def forms() -> Iterator[Asked]:
    """Every form of NVIDIA's JSON, and each defect that it can have."""
    report = GPU.report(NONCE)
    bare, nonce = _device(nonce="left out", arch="left out"), NONCE.hex()
    spelled = {
        "base64 of hex": b64encode(report.hex().encode()).decode(),
        "base64 of upper-case hex": b64encode(report.hex().upper().encode()).decode(),
        "hex": report.hex(),
        "half a byte of hex": report.hex()[:-1],
        "base64 of half a byte": b64encode(report.hex()[:-1].encode()).decode(),
        "base64 of hex and a line": b64encode(report.hex().encode() + b"\n").decode(),
        "no base64": "?",
    }
    documents: dict[str, object] = {
        "a request": {"nonce": nonce, "arch": "HOPPER", "evidence_list": [_device()]},
        "a request without hints of its devices": {"nonce": nonce, "arch": "HOPPER", "evidence_list": [bare]},
        "a request without hints": {"evidence_list": [bare]},
        "a request with null": {"nonce": None, "arch": None, "evidence_list": [_device(nonce=None, arch=None)]},
        "a request in other letters": {"nonce": nonce.upper(), "arch": "hopper", "evidence_list": [_device()]},
        "a request with a version": {"nonce": nonce, "claims_version": 3.0, "evidence_list": [_device()]},
        "a request with another nonce": {"nonce": "00" * 32, "evidence_list": [_device()]},
        "a request with another nonce alone": {"nonce": "00" * 32, "evidence_list": [bare]},
        "a request of another architecture": {"arch": "BLACKWELL", "evidence_list": [_device()]},
        "a request of another architecture alone": {"arch": "BLACKWELL", "evidence_list": [bare]},
        "a request whose nonce is a number": {"nonce": 7, "evidence_list": [_device()]},
        "a request without a device": {"nonce": nonce, "evidence_list": []},
        "a request whose list is an object": {"evidence_list": {}},
        "two lists": {"evidence_list": [_device()], "evidences": [_device()]},
        "a request as text": {"nvidia_payload": json.dumps({"nonce": nonce, "evidence_list": [bare]})},
        "another thing as text": {"nvidia_payload": "{}"},
        "a broken request as text": {"nvidia_payload": "{"},
        "an object as text": {"nvidia_payload": {}},
        "text beside another member": {"nvidia_payload": "{}", "other": 1},
        "a list": [_device()],
        "a device twice in a list": [bare, _device()],
        "an answer of nvattest": {"evidences": [_device()], "result_code": 0, "result_message": "Ok"},
        "an answer of nvattest without a result": {"evidences": [_device()]},
        "an answer of nvattest that failed": {"evidences": [_device()], "result_code": 1},
        "an answer of nvattest with a fraction": {"evidences": [_device()], "result_code": 0.0},
        "an answer of nvattest with null": {"evidences": [_device()], "result_code": None},
        "an answer of nvattest with a flag": {"evidences": [_device()], "result_code": False},
        "an answer of nvattest with more": {"evidences": [_device()], "more": 1},
        "a list of Confidential Containers with more": {"device_evidence_list": [_device()], "more": 1},
        "hints of no meaning": [_device(version=1, driver_version=[], vbios_version=None, uuid=7, more={"a": 1.5})],
        "hints that are null": [_device(nonce=None, arch=None, uuid=None)],
        "an architecture that is a number": [_device(arch=9)],
        "an empty nonce": [_device(nonce="")],
        "a device without a report": [_device(evidence="left out")],
        "a device without a chain": [_device(certificate=None)],
        **{f"a report in {name}": {"evidence_list": [_device(evidence=text)]} for name, text in spelled.items()},
        "Confidential Containers in base64 of hex": {
            "device_evidence_list": [_device(evidence=spelled["base64 of hex"])]
        },
    }
    for name, document in documents.items():
        yield asked(name, json.dumps(document).encode())


# -- what a policy lets deviate


def tolerated() -> Iterator[Asked]:
    """A measurement that differs, and a signer of RIMs on hold, under tolerances that fit and that do not."""
    values = tuple(bytes(48) if index in {7, 21} else value for index, value in enumerate(GPU.measurements))
    differing = envelope(device_item(signed(measurements=values)))
    held = (*issued(), replace(answers()[3], status=Reason.HOLD).issue())
    device_held = (_first(status=Reason.HOLD), *issued()[1:])
    both = {"gpus": {"waivedMeasurements": {"7": REASON, "21": REASON}}}
    signer = {"gpus": {"heldRimSigners": REASON}}
    yield asked("both measurements waived", differing, tolerances=both)
    yield asked("one of them waived", differing, tolerances={"gpus": {"waivedMeasurements": {"7": REASON}}})
    yield asked("waived for switches", differing, tolerances={"switches": both["gpus"]})
    yield asked("a held signer", answers_given=held, tolerances=signer)
    yield asked("a held signer of another kind", answers_given=held, tolerances={"switches": signer["gpus"]})
    yield asked("a held device", answers_given=device_held, tolerances=signer)
    yield asked("nothing to tolerate", tolerances={**both, "switches": {}})
