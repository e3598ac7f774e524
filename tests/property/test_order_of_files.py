"""The order of files decides nothing: evidence and endorsements of every format give one verdict in any order.

Damaged copies lie beside the good ones: the same key and name, and a signature or date that does not hold.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from attest.checks import Check, Unchecked
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import Endorsements
from attest.endorsements.x509 import Certificate, parse_certificate
from attest.errors import AttestError
from attest.evidence.azure.forms import raw_tpm_quote_bytes
from attest.evidence.azure.structure import HclReportType
from attest.evidence.endorsement_files import read_endorsements
from attest.evidence.input_files import read_evidence
from attest.evidence.snp.certificate_table import TableEntry, encode_certificate_table
from attest.evidence.snp.tcb import SnpProduct
from attest.verification import verify
from attest_simulator import SimulatedChip, SimulatedGuest
from attest_simulator.azure import SimulatedAzureVm, SimulatedSnpHost
from attest_simulator.intel import SimulatedEnclave, SimulatedPlatform, SimulatedTd
from attest_simulator.nvidia import SimulatedBoard, SimulatedGpu, SimulatedNvSwitch
from attest_simulator.revocation_lists import simulated_crl
from tests.evidence.azure.made import AzureVm
from tests.evidence.dstack.made import APP_COMPOSE, GUEST
from tests.evidence.dstack.test_statements import info
from tests.evidence.providers.made import HONEST, jsons
from tests.evidence.providers.made import endorsements as service_endorsements
from tests.test_verification_dstack import td

AT = datetime(2026, 6, 10, tzinfo=UTC)
NONCE = bytes(32)
REASON = "a test"
Files = tuple[bytes, ...]


@dataclass(frozen=True, kw_only=True)
class Scene:
    """Evidence as files, and all that vouches for it, a file for each piece."""

    evidence: Files
    good: Files
    damaged: Files
    unchecked: tuple[str, ...]

    def verdict(self, evidence: Files, endorsements: Files) -> tuple[str, tuple[tuple[str, str], ...]]:
        """Return the code of the refusal, or "verified", with the outcome of every check."""
        pool = read_endorsements(_named(endorsements), at=AT).endorsements
        try:
            read = read_evidence(_named(evidence)).evidence
            unchecked = tuple(Unchecked(check=name, reason=REASON) for name in self.unchecked)
            found = verify(read, endorsements=pool, anchors=TrustAnchors.simulation(), at=AT, unchecked=unchecked)
        except AttestError as exc:
            return exc.code, _outcomes(exc.checks)
        return "verified", _outcomes(found.checks)


def _outcomes(checks: Iterable[Check]) -> tuple[tuple[str, str], ...]:
    """Return the outcome of every check; several devices are judged in the order of their files."""
    return tuple(sorted((check.id, check.outcome) for check in checks))


def _named(files: Files) -> list[tuple[str, bytes]]:
    return [(f"file {number}", data) for number, data in enumerate(files)]


def _pieces(pool: Endorsements) -> Files:
    answers = [
        b'{"%s":%s,"signature":"%s"}'
        % (
            b"tcbInfo" if document.kind == "tcb-info" else b"enclaveIdentity",
            document.body,
            document.signature.hex().encode(),
        )
        for document in pool.documents
    ]
    der = (entry.der for kind in (pool.certificates, pool.crls, pool.ocsp) for entry in kind)
    return (*der, *answers, *(rim.xml for rim in pool.rims))


def _damaged(piece: bytes) -> Files:
    """Return copies of a piece whose signature does not hold: by their own bytes, and by a date inside."""
    if piece.startswith((b"<", b"{")):
        return (_flipped(piece, piece.rindex(b"20") + 3),)
    times = [at for tag in (b"\x17\x0d", b"\x18\x0f") if (at := piece.find(tag)) > 0]
    return (_flipped(piece, len(piece) - 1), *(_flipped(piece, at + 3, by=1) for at in times))


def _flipped(data: bytes, at: int, *, by: int = 1) -> bytes:
    return data[:at] + bytes([data[at] ^ by]) + data[at + 1 :]


def _snp(chip: SimulatedChip) -> tuple[Files, Files]:
    files = (*chip.certificates(), simulated_crl(chip.product, at=AT))
    return (SimulatedGuest(chip=chip).report(bytes(64)),), files


def _tdx() -> tuple[Files, Files]:
    platform = SimulatedPlatform.of()
    collateral = read_endorsements([("collateral", platform.collateral("tdx", at=AT).to_json())], at=AT).endorsements
    return (SimulatedTd(platform=platform).quote(bytes(64)),), _pieces(collateral)


def _azure() -> tuple[Files, Files]:
    chip = SimulatedChip.of(SnpProduct.GENOA)
    vm = SimulatedAzureVm.of(SimulatedSnpHost.of(chip))
    (item,) = vm.items(bytes(64))
    return (item.value,), _snp(chip)[1]


def _azure_tdx() -> tuple[Files, Files]:
    """Return the parts of an Azure VM's evidence, a file for each."""
    vm = AzureVm(kind=HclReportType.TDX)
    return (vm.hcl, raw_tpm_quote_bytes(vm.raw_quote), vm.td_quote or b""), _pieces(vm.endorsements)


def _sgx() -> tuple[Files, Files]:
    platform = SimulatedPlatform.of()
    pieces = _pieces(platform.collateral("sgx", at=AT).endorsements())
    return (SimulatedEnclave(platform=platform).quote(bytes(64)),), pieces


def _snp_table() -> tuple[Files, Files]:
    """Return a report and its certificate table, and the list that the table does not have."""
    chip = SimulatedChip.of(SnpProduct.GENOA)
    entries = zip(("VCEK", "ASK", "ARK"), chip.certificates(), strict=True)
    table = encode_certificate_table(tuple(TableEntry(kind=kind, data=data) for kind, data in entries))
    return (SimulatedGuest(chip=chip).report(bytes(64)), table), (simulated_crl(chip.product, at=AT),)


def _dstack() -> tuple[Files, Files]:
    """Return the answers of GetQuote and Info, and the app-compose."""
    quote = replace(td(), mr_td=b"\x77" * 48).quote(b"\x55" * 64)
    answer = {"quote": quote.hex(), "event_log": json.dumps(GUEST.entries), "report_data": "55" * 64}
    files = [json.dumps(each).encode() for each in (answer, info())]
    return (*files, APP_COMPOSE.encode()), _pieces(td().platform.collateral("tdx", at=AT).endorsements())


def _chutes() -> tuple[Files, Files]:
    """Return a service's document of two machines, and the keys of its machines."""
    document, keys = HONEST["Chutes"]()
    return (jsons(document), jsons(keys)), _pieces(service_endorsements())


def _device(device: SimulatedGpu | SimulatedNvSwitch) -> tuple[Files, Files]:
    """Return a raw report, whose chain lies among the endorsements."""
    own = Endorsements(certificates=tuple(map(parse_certificate, device.certificates)))
    return (device.report(NONCE),), _pieces(own.merged(device.endorsements(at=AT)))


def _machine() -> tuple[Files, Files]:
    board = SimulatedBoard.of("a machine", gpus=2, switches=0)
    report, vouching = _snp(SimulatedChip.of(SnpProduct.GENOA))
    return (*report, board.evidence_json(NONCE)), (*vouching, *_pieces(board.endorsements(at=AT)))


def _machine_with_switch() -> tuple[Files, Files]:
    """Return files of a CPU, and of two GPUs and a switch of a protected board, whose other devices are not there."""
    board = SimulatedBoard.of("a board", gpus=2, switches=1, mode="ppcie")
    report, vouching = _snp(SimulatedChip.of(SnpProduct.GENOA))
    devices = tuple(device.device_item(NONCE) for _, device in board.devices)
    return (*report, *devices), (*vouching, *_pieces(board.endorsements(at=AT)))


MAKERS: dict[str, Callable[[], tuple[Files, Files]]] = {
    "snp": lambda: _snp(SimulatedChip.of(SnpProduct.GENOA)),
    "vlek": lambda: _snp(SimulatedChip.of(SnpProduct.MILAN, csp_id="CN=cloud.invalid")),
    "tdx": _tdx,
    "azure-snp": _azure,
    "gpu": lambda: _device(SimulatedGpu.of()),
    "snp and gpu": _machine,
    "switch": lambda: _device(SimulatedNvSwitch.of()),
    "snp, gpus and switch": _machine_with_switch,
    "snp report and table": _snp_table,
    "azure-tdx in parts": _azure_tdx,
    "sgx": _sgx,
    "dstack": _dstack,
    "service and its keys": _chutes,
}
"""Each form of docs/forms.md that can lie in several files, and each whose endorsements can."""
UNCHECKED: dict[str, tuple[str, ...]] = {
    "switch": ("topology",),
    "snp, gpus and switch": ("topology",),
    "service and its keys": ("rim", "revocation"),
}


@cache
def scene(kind: str) -> Scene:
    evidence, good = MAKERS[kind]()
    return Scene(
        evidence=evidence,
        good=good,
        damaged=tuple(copy for piece in good for copy in _damaged(piece)),
        unchecked=UNCHECKED.get(kind, ()),
    )


@pytest.mark.parametrize("kind", MAKERS)
def test_damaged_copies_in_front_of_the_good_pieces_refuse_nothing(kind: str) -> None:
    made = scene(kind)
    assert made.verdict(made.evidence, made.good)[0] == "verified"
    whole = made.verdict(made.evidence, made.good)
    assert made.verdict(made.evidence, (*made.damaged, *made.good)) == whole
    assert made.verdict(made.evidence, (*made.good, *made.damaged)) == whole


@pytest.mark.parametrize("kind", MAKERS)
@given(seed=st.integers(0, 2**32))
@example(seed=7295)  # devices of one machine that are refused for different reasons
def test_any_files_give_one_verdict_in_any_order(kind: str, seed: int) -> None:
    made, random = scene(kind), Random(seed)
    chosen = [piece for piece in (*made.good, *made.damaged) if random.random() < 0.85]
    beside = [piece for piece in chosen if piece in made.good and random.random() < 0.2]
    verdicts = set()
    for _ in range(2):
        random.shuffle(chosen)
        verdicts.add(made.verdict(made.evidence, tuple(chosen)))
    evidence = [*made.evidence, *(piece for piece in beside if _is_certificate(piece))]
    for _ in range(2):
        random.shuffle(evidence)
        verdicts.add(made.verdict(tuple(evidence), tuple(chosen)))
    (verdict,) = verdicts
    assert verdict[0] == "verified" or not set(made.good).issubset(chosen)


def _is_certificate(piece: bytes) -> bool:
    return isinstance(_parsed(piece), Certificate)


def _parsed(piece: bytes) -> Certificate | None:
    try:
        return parse_certificate(piece)
    except AttestError:
        return None
