"""The comparison of measurements with reference values, and what may be waived."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.endorsements.rims import RimDocument
from attest.errors import SignatureError
from attest.evidence.gpu.measurements import NVDEC_WAIVER, compare, conflicts
from attest.evidence.gpu.rim import ParsedRim, read_rim
from attest.evidence.tolerances import NO_TOLERANCES, GpuTolerances, WaivedMeasurement
from tests.evidence.gpu.made_rim import STRANGER_KEY, VALUES, body, made, raw_signature

DISABLED, ENABLED = 0x55, 0xAA
OTHER = b"\xdd" * 48


def recorded(vectors_dir: Path, name: str) -> ParsedRim:
    return read_rim(RimDocument(xml=(vectors_dir / "nvidia" / name).read_bytes()))


def measured(vectors_dir: Path, name: str) -> tuple[bytes, ...]:
    """Cut the 64 values out of a recorded report: a request of 37 bytes, 8 bytes, then blocks of 55."""
    report = bytes.fromhex((vectors_dir / "nvidia" / name / "report.hex").read_text().strip())
    starts = list(range(37 + 8, 37 + 8 + 64 * 55 + 1, 55))
    return tuple(report[begin + 7 : end] for begin, end in pairwise(starts))


def report(**changes: bytes) -> tuple[bytes, ...]:
    """64 measurements that match the made RIM, but for those named `m35=…`."""
    values = {index: alternatives[-1] for index, alternatives in VALUES.items()}
    values |= {int(name[1:]): value for name, value in changes.items()}
    return tuple(values.get(index, bytes(48)) for index in range(64))


def rim(values: dict[int, tuple[bytes, ...]] | None = None) -> ParsedRim:
    return read_rim(made(body(VALUES if values is None else values)))


# -- recorded


def test_the_complete_recorded_case_matches_everywhere(vectors_dir: Path) -> None:
    driver, vbios = (recorded(vectors_dir, f"gh100-545.00/{name}-rim.xml") for name in ("driver", "vbios"))
    comparison = compare(measured(vectors_dir, "gh100-545.00"), driver=driver, vbios=vbios, nvdec0=DISABLED)
    assert (comparison.compared, comparison.matched) == (33, 33)
    assert comparison.mismatches == ()
    assert comparison.waived == ()
    assert conflicts(driver, vbios) == ()
    assert [result.source for result in comparison.results] == ["driver"] * 21 + ["vbios"] * 12


def test_recorded_comparisons_differ_where_the_manifest_says(vectors_dir: Path) -> None:
    compared = 0
    for case in json.loads((vectors_dir / "nvidia/MANIFEST.json").read_text())["cases"]:
        wanted: dict[str, Any] = case["expected"]
        files = case["files"]
        for kind in ("driver", "vbios"):
            indices = wanted.get(f"{kind}_mismatches", wanted.get(f"{kind}_mismatches_if_compared"))
            if indices is None or f"{kind}_rim" not in files:
                continue
            parsed = recorded(vectors_dir, files[f"{kind}_rim"])
            values = measured(vectors_dir, files["report"].partition("/")[0])
            driver, vbios = (parsed, None) if kind == "driver" else (None, parsed)
            comparison = compare(values, driver=driver, vbios=vbios, nvdec0=DISABLED)
            waived = [result.index for result in comparison.waived]
            assert [mismatch.index for mismatch in comparison.mismatches] + waived == indices, case["id"]
            assert {mismatch.source for mismatch in comparison.mismatches} <= {kind}
            compared += 1
    assert compared >= 3


def test_two_issues_of_one_recorded_id_have_other_values(vectors_dir: Path) -> None:
    driver = recorded(vectors_dir, "gh100-545.00/driver-rim.xml")
    other = recorded(vectors_dir, "gh100-535.86.09/vbios-rim.xml")
    comparison = compare(measured(vectors_dir, "gh100-545.00"), driver=driver, vbios=other, nvdec0=DISABLED)
    assert [(mismatch.index, mismatch.source) for mismatch in comparison.mismatches] == [
        (index, "vbios") for index in (1, 2, 3, 9)
    ]


def test_one_recorded_rim_for_both_conflicts_with_itself(vectors_dir: Path) -> None:
    driver = recorded(vectors_dir, "gh100-545.00/driver-rim.xml")
    assert conflicts(driver, driver) == (7, *range(21, 41))


def test_a_tampered_recorded_rim_is_not_compared(vectors_dir: Path) -> None:
    tampered = recorded(vectors_dir, "gh100-535.86.09/driver-rim-tampered.xml")
    with pytest.raises(SignatureError) as caught:
        compare(measured(vectors_dir, "gh100-535.86.09"), driver=tampered, vbios=None, nvdec0=DISABLED)
    assert caught.value.code == "rim-signature-invalid"


# -- rules


def test_any_alternative_matches_and_nothing_else_does() -> None:
    for alternative in VALUES[1]:
        assert compare(report(m1=alternative), driver=rim(), vbios=None, nvdec0=None).mismatches == ()
    (mismatch,) = compare(report(m1=OTHER), driver=rim(), vbios=None, nvdec0=None).mismatches
    assert (mismatch.index, mismatch.source, mismatch.expected, mismatch.got) == (1, "driver", VALUES[1], OTHER)


@pytest.mark.parametrize("got", [b"", bytes(48), VALUES[0][0][:-1], VALUES[0][0] + b"\0", VALUES[1][0]])
def test_another_length_or_the_value_of_another_index_does_not_match(got: bytes) -> None:
    comparison = compare(report(m0=got), driver=rim(), vbios=None, nvdec0=None)
    assert [mismatch.index for mismatch in comparison.mismatches] == [0]


def test_measurements_that_no_rim_names_are_not_judged() -> None:
    assert compare(report(m2=OTHER, m63=OTHER), driver=None, vbios=rim(), nvdec0=None).mismatches == ()


@pytest.mark.parametrize("length", [0, 1, 2, 35])
def test_an_index_that_the_report_does_not_have_differs_and_no_waiver_is_about_it(length: int) -> None:
    waived = tuple(WaivedMeasurement(index=index, reason="test") for index in VALUES)
    short = report()[:length]
    comparison = compare(short, driver=rim(), vbios=None, nvdec0=DISABLED, waived=waived)
    assert [mismatch.index for mismatch in comparison.mismatches] == [index for index in VALUES if index >= length]
    assert all(mismatch.got is None for mismatch in comparison.mismatches)
    assert comparison.waived == ()


@pytest.mark.parametrize("status", [ENABLED, None, 0, 0x54])
def test_index_35_counts_unless_the_decoder_is_disabled(status: int | None) -> None:
    comparison = compare(report(m35=OTHER), driver=rim(), vbios=None, nvdec0=status)
    assert [mismatch.index for mismatch in comparison.mismatches] == [35]


def test_a_mismatch_at_35_with_the_decoder_disabled_is_waived_and_shown_and_no_match() -> None:
    comparison = compare(report(m35=OTHER), driver=rim(), vbios=None, nvdec0=DISABLED)
    assert comparison.mismatches == ()
    (waived,) = comparison.waived
    assert (waived.index, waived.waived, waived.matched, waived.got) == (35, NVDEC_WAIVER, False, OTHER)
    assert (comparison.compared, comparison.matched) == (3, 2)


def test_the_rule_about_35_is_about_no_other_index() -> None:
    comparison = compare(report(m0=OTHER, m1=OTHER), driver=rim(), vbios=None, nvdec0=DISABLED)
    assert [mismatch.index for mismatch in comparison.mismatches] == [0, 1]


def test_a_match_at_35_is_a_match_whatever_the_decoder_does() -> None:
    comparison = compare(report(), driver=rim(), vbios=None, nvdec0=DISABLED)
    assert (comparison.matched, comparison.waived) == (3, ())


def test_a_waiver_by_name_is_shown_and_waives_only_its_index() -> None:
    waived = (WaivedMeasurement(index=0, reason="developer tools"),)
    comparison = compare(report(m0=OTHER, m1=OTHER), driver=None, vbios=rim(), nvdec0=None, waived=waived)
    assert [mismatch.index for mismatch in comparison.mismatches] == [1]
    assert [(result.index, result.waived) for result in comparison.waived] == [(0, "developer tools")]
    assert comparison.matched == 1


def test_a_waiver_of_what_matches_is_not_shown() -> None:
    waived = (WaivedMeasurement(index=0, reason="test"),)
    assert compare(report(), driver=rim(), vbios=None, nvdec0=None, waived=waived).waived == ()


def test_both_rims_are_compared_and_what_both_name_is_a_conflict() -> None:
    driver, vbios = rim(), rim({0: (OTHER,), 5: (OTHER,)})
    comparison = compare(report(), driver=driver, vbios=vbios, nvdec0=None)
    assert [(result.source, result.index) for result in comparison.results] == [
        *(("driver", index) for index in VALUES),
        ("vbios", 0),
        ("vbios", 5),
    ]
    assert [mismatch.index for mismatch in comparison.mismatches] == [0, 5]
    assert conflicts(driver, vbios) == (0,)
    assert conflicts(driver, None) == conflicts(None, vbios) == ()


def test_a_rim_whose_signature_does_not_hold_is_never_compared() -> None:
    forged = read_rim(made(sign=lambda signed: raw_signature(signed, STRANGER_KEY)))
    for driver, vbios in ((forged, rim()), (rim(), forged)):
        with pytest.raises(SignatureError):
            compare(report(), driver=driver, vbios=vbios, nvdec0=None)


def test_without_a_rim_there_is_no_comparison() -> None:
    with pytest.raises(ValueError, match="nothing to compare"):
        compare(report(), driver=None, vbios=None, nvdec0=None)


def test_a_comparison_is_neither_true_nor_false() -> None:
    comparison = compare(report(), driver=rim(), vbios=None, nvdec0=None)
    with pytest.raises(TypeError, match="mismatches"):
        bool(comparison)


@given(st.integers(0, 63), st.binary(min_size=48, max_size=48))
def test_changing_a_named_measurement_never_helps(index: int, value: bytes) -> None:
    comparison = compare(report(**{f"m{index}": value}), driver=rim(), vbios=None, nvdec0=None)
    bad = index in VALUES and value not in VALUES[index]
    assert [mismatch.index for mismatch in comparison.mismatches] == ([index] if bad else [])


# -- tolerances


def test_nothing_is_tolerated_by_default() -> None:
    assert GpuTolerances(waived_measurements=(), held_rim_signers=None) == NO_TOLERANCES


@pytest.mark.parametrize("index", [-1, 64])
def test_a_waiver_names_an_index_that_exists(index: int) -> None:
    with pytest.raises(ValueError, match="0 to 63"):
        WaivedMeasurement(index=index, reason="test")


@pytest.mark.parametrize("reason", ["", " \n"])
def test_a_tolerance_has_a_reason(reason: str) -> None:
    with pytest.raises(ValueError, match="reason"):
        WaivedMeasurement(index=7, reason=reason)
    with pytest.raises(ValueError, match="reason"):
        GpuTolerances(held_rim_signers=reason)
    assert GpuTolerances(held_rim_signers="the driver is old").held_rim_signers == "the driver is old"


def test_one_index_is_waived_once() -> None:
    once = WaivedMeasurement(index=7, reason="a")
    assert GpuTolerances(waived_measurements=(once,)).waived_measurements == (once,)
    with pytest.raises(ValueError, match="twice"):
        GpuTolerances(waived_measurements=(once, WaivedMeasurement(index=7, reason="b")))
