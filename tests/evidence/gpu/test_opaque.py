"""The opaque data: what a device says of itself is read strictly, and what nobody knows is kept and listed."""

import base64
import contextlib
import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import EvidenceError, UnsupportedError
from attest.evidence.gpu.opaque import OpaqueData, OpaqueEntry, parse_opaque
from attest.evidence.gpu.opaque_types import KNOWN_TYPES
from attest.evidence.gpu.structure import parse_report
from tests.evidence.gpu import made

GPU = parse_opaque(made.opaque())
SWITCH = parse_opaque(made.opaque(made.SWITCH_ENTRIES))
NOTHING = parse_opaque(b"")


def refused(data: bytes) -> EvidenceError:
    with pytest.raises(EvidenceError) as caught:
        parse_opaque(data)
    return caught.value


def test_a_gpu_says_what_it_is() -> None:
    assert (GPU.driver_version, GPU.project, GPU.project_sku, GPU.chip_sku) == ("590.12", "G520", "0200", "885")
    assert (GPU.chip_info, GPU.nvdec0, GPU.protected_pcie, GPU.version, GPU.feature_flag) == ("GB202", 0x55, 0xAA, 1, 2)
    assert GPU.fwid == bytes(range(48))
    assert GPU.gpu_vbios_version() == "96.00.74.00.1A"
    assert (GPU.own_pdi, GPU.gpu_pdis, GPU.lock_status) == (None, None, None)


def test_a_gpu_names_the_switch_behind_each_link_in_the_order_of_certificates() -> None:
    assert GPU.switch_pdis == tuple(b"\xee" + bytes([link]) * 7 for link in range(18))


def test_a_switch_says_what_it_is() -> None:
    assert SWITCH.switch_bios_version() == "96.10.73.00.01"
    assert SWITCH.own_pdi == b"\1\2\3\4\5\6\7\x08"
    assert SWITCH.gpu_pdis == tuple(bytes([gpu]) * 8 for gpu in range(8))
    assert SWITCH.lock_status == 1
    assert (SWITCH.switch_pdis, SWITCH.driver_version, SWITCH.fwid, SWITCH.feature_flag) == (None, None, None, None)


def test_an_old_switch_names_its_gpus_under_another_type() -> None:
    pdis = dict(made.SWITCH_ENTRIES)[26]
    old = tuple((kind, value) for kind, value in made.SWITCH_ENTRIES if kind != 26)
    assert parse_opaque(made.opaque(old, t4=pdis)).gpu_pdis == SWITCH.gpu_pdis
    assert refused(made.opaque(made.SWITCH_ENTRIES, t4=pdis)).expected == "one list of GPU PDIs"


def test_what_is_not_there_is_none() -> None:
    assert NOTHING.version == 0
    found = [getattr(NOTHING, name) for name in ("driver_version", "project", "project_sku", "chip_sku", "chip_info")]
    found += [NOTHING.nvdec0, NOTHING.fwid, NOTHING.protected_pcie, NOTHING.feature_flag, NOTHING.own_pdi]
    found += [NOTHING.switch_pdis, NOTHING.gpu_pdis, NOTHING.lock_status]
    found += [NOTHING.gpu_vbios_version(), NOTHING.switch_bios_version()]
    assert found == [None] * len(found)
    assert NOTHING.unknown == ()


def test_a_text_of_nuls_alone_states_nothing() -> None:
    data = parse_opaque(made.opaque(t3=b"\0\0", t15=b"", t17=b"\0"))
    assert (data.driver_version, data.chip_sku, data.project) == (None, None, None)


def test_the_feature_flag_means_something_from_version_1_on() -> None:
    assert parse_opaque(made.opaque(t34=b"\0\0")).feature_flag is None
    assert parse_opaque(made.opaque(t34=b"\0\0", t36=b"\xff\xff")).feature_flag is None
    assert parse_opaque(made.entry(36, b"\2\0")).feature_flag is None
    for flag in range(3):
        assert parse_opaque(made.opaque(t36=bytes([flag, 0]))).feature_flag == flag
    for value in (b"", b"\2", bytes(9)):
        assert parse_opaque(made.opaque(t34=b"\0\0", t36=value)).feature_flag is None


@pytest.mark.parametrize(
    ("version", "flag", "status", "mode", "contradicts"),
    [
        (1, 0, 0x55, "spt", False),
        (1, 1, 0x55, "mpt", False),
        (1, 2, 0xAA, "protected-pcie", False),
        (1, 0, None, "spt", False),
        (1, 0, 0xAA, "spt", True),
        (1, 2, 0x55, "protected-pcie", True),
        (1, 2, None, "protected-pcie", True),
        (1, None, 0x55, None, False),
        (1, None, 0xAA, None, True),
        (0, None, 0x55, "unprotected", False),
        (0, None, 0xAA, "protected-pcie", False),
        (0, None, None, None, False),
        (0, 2, 0x55, "unprotected", False),
        (0, 0, 0xAA, "protected-pcie", False),
        (None, None, 0xAA, "protected-pcie", False),
        (None, 1, 0x55, "unprotected", False),
    ],
)
def test_the_flag_states_the_mode_from_version_1_on_and_the_status_before(
    version: int | None, flag: int | None, status: int | None, mode: str | None, contradicts: bool
) -> None:
    stated = {34: (version, 2), 36: (flag, 2), 21: (status, 1)}
    entries = [(kind, number.to_bytes(size, "little")) for kind, (number, size) in stated.items() if number is not None]
    opaque = parse_opaque(b"".join(made.entry(kind, value) for kind, value in entries))
    assert (opaque.mode, opaque.contradicts_mode) == (mode, contradicts)


def test_only_the_types_of_the_table_are_known() -> None:
    assert set(KNOWN_TYPES) == {*range(1, 28), *range(32, 37)}


def test_the_order_of_entries_means_nothing() -> None:
    flag, version = made.entry(36, b"\2\0"), made.entry(34, b"\1\0")
    for order in itertools.permutations((flag, version)):
        assert parse_opaque(b"".join(order)).feature_flag == 2


# -- recorded


@pytest.mark.parametrize("name", made.REPORTS)
def test_recorded_reports_say_what_their_manifest_says(name: str, vectors_dir: Path) -> None:
    facts = made.facts(vectors_dir, f"{name}/report.hex")
    data = made.recorded(vectors_dir, name)
    opaque = parse_report(data[: len(data) - facts["trailing_bytes_after_signature"]]).opaque
    assert [entry.type for entry in opaque.entries] == facts["opaque_types"]
    assert opaque.unknown == ()
    assert opaque.gpu_vbios_version() == facts["vbios_version"]
    stated = ("driver_version", "project", "project_sku", "chip_sku", "chip_info", "feature_flag")
    assert {fact: getattr(opaque, fact) for fact in stated} == {fact: facts[fact] for fact in stated}
    assert opaque.version == (facts["opaque_data_version"] or 0)
    assert (opaque.fwid is not None) == facts["fwid_in_report"]
    for found, fact in ((opaque.protected_pcie, "protected_pcie_status"), (opaque.nvdec0, "nvdec0_status")):
        assert found == (None if facts[fact] is None else int(facts[fact], 16))


def test_recorded_devices_of_a_board_name_each_other(vectors_dir: Path) -> None:
    gpus, switches = (
        [parse_report(base64.b64decode(device["evidence"])).opaque for device in made.board(vectors_dir, which)]
        for which in ("gpu", "switch")
    )
    own = {switch.own_pdi for switch in switches}
    assert len(own) == 4
    for gpu in gpus:
        assert len(gpu.switch_pdis or ()) == 18
        assert set(gpu.switch_pdis or ()) == own
        assert (gpu.feature_flag, gpu.protected_pcie) == (2, 0xAA)
        assert (gpu.gpu_vbios_version(), gpu.driver_version) == ("96.00.A5.00.01", "590.12")
    named = {switch.gpu_pdis and frozenset(switch.gpu_pdis) for switch in switches}
    assert len(named) == 1
    assert [switch.lock_status for switch in switches] == [1] * 4
    assert {switch.switch_bios_version() for switch in switches} == {"96.10.73.00.01"}
    facts = made.facts(vectors_dir, f"{made.BOARD}/gpu_evidence.json")
    assert named == {frozenset(bytes.fromhex(fact["l4_serial"][2:]) for fact in facts)}


# -- framing


@pytest.mark.parametrize("data", [made.opaque(), made.opaque(made.SWITCH_ENTRIES)])
def test_data_that_is_cut_inside_an_entry_is_refused(data: bytes) -> None:
    ends = set(itertools.accumulate(4 + len(entry.value) for entry in parse_opaque(data).entries)) | {0}
    for length in range(len(data)):
        if length in ends:
            parse_opaque(data[:length])
        else:
            assert refused(data[:length]).code == "gpu-report-malformed"


def test_an_entry_that_overruns_is_refused_with_where_it_is() -> None:
    error = refused(made.entry(14, b"abcd") + b"\x0d\0\5\0abcd")
    assert (error.code, error.offset, error.expected, error.got) == ("gpu-report-malformed", 8, "5 bytes", "4 bytes")
    assert "CPR info" in (error.field or "")
    error = refused(made.entry(14, b"abcd") + b"\x0d\0\5")
    assert (error.offset, error.got) == (8, "3 bytes")


@pytest.mark.parametrize("kind", [3, 6, 21, 36, 255, 999])
def test_a_type_that_stands_twice_is_refused(kind: int) -> None:
    values = {3: b"1", 6: made.VBIOS, 21: b"\x55", 36: b"\0\0"}
    one = made.entry(kind, values.get(kind, b""))
    error = refused(one + made.entry(14, b"") + one)
    assert (error.code, error.offset) == ("gpu-report-malformed", 2 * 4 + len(one) - 4)
    assert error.got == f"type {kind} twice"


@pytest.mark.parametrize("kind", [0, 28, 31, 37, 255, 0xFFFF])
def test_a_type_that_nobody_knows_is_kept_and_listed(kind: int) -> None:
    data = made.opaque() + made.entry(kind, b"anything")
    opaque = parse_opaque(data)
    assert opaque.unknown == (kind,)
    assert opaque.value(kind) == b"anything"
    assert kind not in KNOWN_TYPES


def test_an_entry_that_is_known_and_not_interpreted_may_hold_anything() -> None:
    for kind in set(KNOWN_TYPES) - {3, 4, 6, 11, 15, 16, 17, 18, 19, 20, 21, 22, 25, 26, 34, 35, 36}:
        assert parse_opaque(made.entry(kind, b"\xff" * 3)).unknown == ()


# -- values


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        *((20, bytes(size)) for size in (0, 32, 47, 49)),
        *((22, bytes(size)) for size in (0, 7, 9, 16, 136, 143, 145, 152)),
        *((25, bytes(size)) for size in (0, 1, 3)),
        *((26, bytes(size)) for size in (0, 64, 127, 129)),
        *((34, bytes(size)) for size in (0, 1, 3)),
    ],
)
def test_a_value_of_another_size_that_checks_rest_on_is_not_understood_and_shown(kind: int, value: bytes) -> None:
    error = refused(made.opaque(**{f"t{kind}": value}))
    assert isinstance(error, UnsupportedError)
    assert (error.code, error.check, error.exit_code) == ("gpu-opaque-unsupported", "nvidia.format", 3)
    assert f"type {kind}" in (error.field or "")
    assert "is not understood and therefore refused" in error.message
    assert value[:16].hex() in (error.got or "")
    assert error.offset is not None
    assert "accepted_opaque" not in (error.hint or "accepted_opaque")


@pytest.mark.parametrize(
    ("kind", "value", "got"),
    [
        *((kind, value, "bytes") for kind in (11, 21) for value in (b"", b"\x55\x55", b"\xaa\0")),
        *((kind, value, f"{value[0]:#x}") for kind in (11, 21) for value in (b"\0", b"\x54", b"\xab", b"\xff")),
        *((36, bytes(size), "bytes") for size in (0, 1, 3)),
        *((36, value, text) for value, text in ((b"\3\0", "0x3"), (b"\0\1", "0x100"), (b"\xff\xff", "0xffff"))),
    ],
)
def test_a_value_outside_its_closed_set_is_kept_named_and_states_nothing(kind: int, value: bytes, got: str) -> None:
    data = made.opaque(**{f"t{kind}": value})
    opaque = parse_opaque(data, offset=100)
    (unknown,) = opaque.unknown_values(100)
    error = unknown.refusal
    assert unknown.name == f"{kind}:{value.hex()}"
    assert isinstance(error, UnsupportedError)
    assert (error.code, error.check, error.exit_code) == ("gpu-opaque-unsupported", "nvidia.format", 3)
    assert "is not understood and therefore refused" in error.message
    assert got in (error.got or "")
    assert error.offset == 100 + data.index(made.entry(kind, value))
    assert repr(unknown.name) in (error.hint or "")
    fields = {11: opaque.nvdec0, 21: opaque.protected_pcie, 36: opaque.feature_flag}
    assert fields[kind] is None
    assert opaque.mode == ("protected-pcie" if kind != 36 else None)
    assert opaque.to_bytes() == data


def test_a_mode_without_a_known_meaning_is_no_mode_of_a_driver_before_580_either() -> None:
    older = tuple((kind, value) for kind, value in made.GPU_ENTRIES if kind not in (34, 36))
    assert parse_opaque(made.opaque(older, t21=b"\x56")).mode is None
    assert parse_opaque(made.opaque(older, t21=b"\x55")).mode == "unprotected"


def test_every_understood_value_is_listed_nowhere() -> None:
    assert GPU.unknown_values(0) == SWITCH.unknown_values(0) == NOTHING.unknown_values(0) == ()
    assert parse_opaque(made.opaque(t34=b"\0\0", t36=b"\7")).unknown_values(0) == ()


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        *(
            (kind, text)
            for kind in (3, 15, 16, 17, 18, 19, 35)
            for text in (b"a\0b", b"\x1b[2J", b"\xe9", b"\n", b"\x7f")
        ),
        *((6, value) for value in (b"", bytes(7), bytes(9), b"96.10.73\0.00", b"\xff" * 14)),
    ],
)
def test_text_that_cannot_be_shown_is_refused(kind: int, value: bytes) -> None:
    error = refused(made.opaque(**{f"t{kind}": value}))
    assert (error.code, error.check, error.exit_code) == ("gpu-report-malformed", "nvidia.format", 3)
    assert f"type {kind}" in (error.field or "")
    assert error.offset is not None
    assert error.message.isprintable()


def test_a_bios_version_is_read_as_the_certificate_says_and_refused_in_the_other_form() -> None:
    with pytest.raises(EvidenceError, match="8 bytes for a GPU"):
        SWITCH.gpu_vbios_version()
    with pytest.raises(EvidenceError, match="printable ASCII for a switch"):
        GPU.switch_bios_version()
    eight = parse_opaque(made.entry(6, b"96.10.73"))
    assert (eight.switch_bios_version(), eight.gpu_vbios_version()) == ("96.10.73", "31.2E.36.39.30")


# -- versions that are newer


@pytest.mark.parametrize("version", [2, 3, 255, 256, 0xFFFF])
def test_a_newer_version_is_unsupported_and_named(version: int) -> None:
    error = refused(made.opaque(t34=version.to_bytes(2, "little"), t36=b"\x07\0", t11=b"\0"))
    assert isinstance(error, UnsupportedError)
    assert (error.code, error.exit_code, error.got) == ("gpu-opaque-unsupported", 3, f"version {version}")
    assert f"version {version}" in error.message


@pytest.mark.parametrize(
    ("data", "stated"),
    [
        (b"NVDAOD\0\0\2\0\0\0", "version 2.0.0"),
        (b"NVDAOD\0\0\2\1\7\0" + bytes(40), "version 2.1.7"),
        (b"NVDAOD\1\0\xff\0\0", "version 255.0.0"),
        (b"NVDAOD\0\0\2\0", "no version"),
        (b"NVDAOD", "no version"),
    ],
)
def test_the_versioned_layout_is_unsupported_and_named(data: bytes, stated: str) -> None:
    error = refused(data)
    assert isinstance(error, UnsupportedError)
    assert error.code == "gpu-opaque-unsupported"
    assert stated in error.message
    assert error.hint


def test_data_that_only_begins_like_the_name_is_the_older_layout() -> None:
    assert refused(b"NVDAO").code == "gpu-report-malformed"
    assert refused(b"nvdaod" + bytes(20)).code == "gpu-report-malformed"


# -- any bytes at all


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused_and_written_again(data: bytes) -> None:
    with contextlib.suppress(EvidenceError):
        assert parse_opaque(data).to_bytes() == data


@given(
    st.lists(
        st.tuples(st.sampled_from(sorted(KNOWN_TYPES)), st.sampled_from([0, 1, 2, 8, 14, 48, 128, 144]), st.binary()),
        max_size=8,
    )
)
def test_everything_that_is_accepted_can_be_asked_for(entries: list[tuple[int, int, bytes]]) -> None:
    data = b"".join(made.entry(kind, value.ljust(size, b"\0")[: max(size, 1)]) for kind, size, value in entries)
    with contextlib.suppress(EvidenceError):
        opaque = parse_opaque(data)
        for name in dir(OpaqueData):
            if not name.startswith("_") and isinstance(getattr(OpaqueData, name), property):
                getattr(opaque, name)
        opaque.gpu_vbios_version()
        opaque.switch_bios_version()


def test_an_entry_writes_type_and_size_in_front() -> None:
    assert OpaqueEntry(type=0x0102, value=b"abc").to_bytes() == b"\2\1\3\0abc"
