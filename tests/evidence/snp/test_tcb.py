"""A TCB is a vector with a partial order, in one of two layouts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import EvidenceError, UnsupportedError
from attest.evidence.snp.tcb import SnpProduct, SnpTcbVersion, product_of_cpuid, tcb_from_bytes

LEVEL = st.integers(0, 255)
LEGACY = st.builds(SnpTcbVersion, bootloader=LEVEL, tee=LEVEL, snp=LEVEL, microcode=LEVEL)
TURIN = st.builds(SnpTcbVersion, bootloader=LEVEL, tee=LEVEL, snp=LEVEL, microcode=LEVEL, fmc=LEVEL)
SMALL = st.integers(0, 2)
SMALL_LEGACY = st.builds(SnpTcbVersion, bootloader=SMALL, tee=SMALL, snp=SMALL, microcode=SMALL)
SMALL_TURIN = st.builds(SnpTcbVersion, bootloader=SMALL, tee=SMALL, snp=SMALL, microcode=SMALL, fmc=SMALL)
ANY = SMALL_LEGACY | SMALL_TURIN

# -- layouts


def test_before_turin_the_layout_has_four_components() -> None:
    raw = bytes.fromhex("03 00 00000000 08 73".replace(" ", ""))
    tcb = tcb_from_bytes(raw, SnpProduct.MILAN, field="REPORTED_TCB")
    assert tcb == SnpTcbVersion(bootloader=3, tee=0, snp=8, microcode=0x73)
    assert tcb.components() == {"bootloader": 3, "tee": 0, "snp": 8, "microcode": 115}
    assert str(tcb) == "bootloader 3 tee 0 snp 8 microcode 115"
    assert tcb.to_bytes() == raw


def test_turin_moves_every_component_by_one_for_its_fmc() -> None:
    raw = bytes.fromhex("01 02 03 04 000000 05".replace(" ", ""))
    tcb = tcb_from_bytes(raw, SnpProduct.TURIN, field="REPORTED_TCB")
    assert tcb == SnpTcbVersion(fmc=1, bootloader=2, tee=3, snp=4, microcode=5)
    assert str(tcb) == "fmc 1 bootloader 2 tee 3 snp 4 microcode 5"
    assert tcb.to_bytes() == raw


def test_the_same_bytes_mean_two_things() -> None:
    raw = bytes.fromhex("0102000000000005")
    assert tcb_from_bytes(raw, SnpProduct.GENOA, field="X") == SnpTcbVersion(bootloader=1, tee=2, snp=0, microcode=5)
    assert tcb_from_bytes(raw, SnpProduct.TURIN, field="X") == SnpTcbVersion(
        fmc=1, bootloader=2, tee=0, snp=0, microcode=5
    )


@pytest.mark.parametrize(
    ("product", "spare"),
    [(SnpProduct.MILAN, range(2, 6)), (SnpProduct.GENOA, range(2, 6)), (SnpProduct.TURIN, range(4, 7))],
)
def test_a_reserved_byte_that_is_not_zero_is_refused(product: SnpProduct, spare: range) -> None:
    for index in range(8):
        raw = bytearray(8)
        raw[index] = 0x10
        if index not in spare:
            assert tcb_from_bytes(bytes(raw), product, field="LAUNCH_TCB").to_bytes() == raw
            continue
        with pytest.raises(EvidenceError, match=f"in the layout of {product}") as caught:
            tcb_from_bytes(bytes(raw), product, field="LAUNCH_TCB")
        assert (caught.value.code, caught.value.field, caught.value.got) == (
            *("reserved-not-zero", "LAUNCH_TCB"),
            raw.hex(),
        )


@given(st.binary(min_size=8, max_size=8), st.sampled_from(list(SnpProduct)))
def test_what_is_accepted_is_written_again_byte_for_byte(raw: bytes, product: SnpProduct) -> None:
    spare = raw[4:7] if product is SnpProduct.TURIN else raw[2:6]
    if any(spare):
        with pytest.raises(EvidenceError):
            tcb_from_bytes(raw, product, field="X")
    else:
        assert tcb_from_bytes(raw, product, field="X").to_bytes() == raw


@given(LEGACY | TURIN)
def test_a_tcb_reads_as_it_was_written(tcb: SnpTcbVersion) -> None:
    product = SnpProduct.GENOA if tcb.fmc is None else SnpProduct.TURIN
    assert tcb_from_bytes(tcb.to_bytes(), product, field="X") == tcb


# -- order


@given(ANY)
def test_a_tcb_covers_itself(a: SnpTcbVersion) -> None:
    assert a.covers(a)


@given(ANY, ANY)
def test_two_tcbs_that_cover_each_other_are_equal(a: SnpTcbVersion, b: SnpTcbVersion) -> None:
    assert (a.covers(b) and b.covers(a)) is (a == b)


@given(ANY, ANY, ANY)
def test_covering_is_transitive(a: SnpTcbVersion, b: SnpTcbVersion, c: SnpTcbVersion) -> None:
    if a.covers(b) and b.covers(c):
        assert a.covers(c)


@given(ANY, ANY)
def test_covering_is_component_by_component(a: SnpTcbVersion, b: SnpTcbVersion) -> None:
    comparable = a.components().keys() == b.components().keys()
    every = comparable and all(level >= b.components()[name] for name, level in a.components().items())
    assert a.covers(b) is every


@given(LEGACY | TURIN, st.data())
def test_raising_a_component_never_loses_cover(tcb: SnpTcbVersion, data: st.DataObject) -> None:
    parts = tcb.components()
    name = data.draw(st.sampled_from(sorted(parts)))
    higher = SnpTcbVersion(**(parts | {name: data.draw(st.integers(parts[name], 255))}))
    assert higher.covers(tcb)
    assert tcb.covers(higher) is (higher == tcb)


def test_some_tcbs_are_incomparable_though_one_is_the_larger_integer() -> None:
    a = SnpTcbVersion(bootloader=3, tee=0, snp=8, microcode=115)
    b = SnpTcbVersion(bootloader=4, tee=0, snp=7, microcode=209)
    assert not a.covers(b)
    assert not b.covers(a)
    assert int.from_bytes(b.to_bytes(), "little") > int.from_bytes(a.to_bytes(), "little")


@pytest.mark.parametrize("name", ["fmc", "bootloader", "tee", "snp", "microcode"])
def test_one_component_that_is_lower_by_one_is_enough(name: str) -> None:
    level = SnpTcbVersion(fmc=1, bootloader=1, tee=1, snp=1, microcode=1)
    lower = SnpTcbVersion(**(level.components() | {name: 0}))
    assert level.covers(lower)
    assert not lower.covers(level)


def test_tcbs_of_different_layouts_never_cover_each_other() -> None:
    legacy, turin = (
        SnpTcbVersion(bootloader=9, tee=9, snp=9, microcode=9),
        SnpTcbVersion(fmc=0, bootloader=0, tee=0, snp=0, microcode=0),
    )
    assert not legacy.covers(turin)
    assert not turin.covers(legacy)


# -- product lines


@pytest.mark.parametrize(
    ("family", "models", "product"),
    [
        (0x19, (0x00, 0x01, 0x0F), SnpProduct.MILAN),
        (0x19, (0x10, 0x11, 0x1F), SnpProduct.GENOA),
        (0x19, (0xA0, 0xAF), SnpProduct.GENOA),
        (0x1A, (0x00, 0x02, 0x11), SnpProduct.TURIN),
    ],
)
def test_a_family_and_model_of_the_table_has_a_product_line(
    family: int, models: tuple[int, ...], product: SnpProduct
) -> None:
    assert [product_of_cpuid(family, model) for model in models] == [product] * len(models)


@pytest.mark.parametrize(
    ("family", "model"),
    [(0x19, 0x20), (0x19, 0x9F), (0x19, 0xB0), (0x1A, 0x12), (0x1A, 0x50), (0x1A, 0xC0), (0x17, 0x31), (0, 0)],
)
def test_a_family_and_model_outside_the_table_is_not_guessed(family: int, model: int) -> None:
    with pytest.raises(UnsupportedError, match="of an unknown product line") as caught:
        product_of_cpuid(family, model)
    assert (caught.value.code, caught.value.exit_code) == ("snp-product-unknown", 3)
    assert caught.value.got == f"family {family:#04x} model {model:#04x}"


def test_only_turin_has_an_fmc_and_a_short_hwid() -> None:
    assert [(product.has_fmc, product.hwid_bytes) for product in SnpProduct] == [(False, 64), (False, 64), (True, 8)]
