"""The quote: each form is read whole, and nothing that does not add up is read at all."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import AttestError, EvidenceError, UnsupportedError
from attest.evidence.intel.quote import MAX_QUOTE_BYTES, SIGNATURE_HEADS, parse_quote
from attest.evidence.sgx.structure import ParsedEnclaveReport
from attest.evidence.tdx.structure import ParsedTdReport
from tests.evidence.intel.made_quotes import FORMS, SGX_V3, MadeQuote
from tests.evidence.intel.recorded import RECORDED, Recorded

NUMBERS = ("td_attributes", "xfam", "misc_select")


def refused(data: bytes) -> EvidenceError:
    with pytest.raises(EvidenceError) as caught:
        parse_quote(data)
    error = caught.value
    assert error.exit_code == 3
    assert error.code.startswith("quote-")
    assert error.field
    assert error.offset is not None
    assert error.expected
    assert error.got
    assert error.clause
    return error


# -- what is accepted


@pytest.mark.parametrize("name", FORMS)
def test_every_form_is_read_and_encodes_again(name: str) -> None:
    made = FORMS[name]
    data = made.to_bytes()
    quote = parse_quote(data)
    assert quote.to_bytes() == data == quote.raw
    assert quote.version == made.version
    assert quote.tee == name[:3].lower()
    assert quote.signed_bytes == made.signed()
    assert quote.body.raw == made.signed()[-len(quote.body.raw) :]
    assert quote.attestation_key == made.attestation_key
    assert quote.qe_report.raw == made.made_qe_report()
    assert quote.qe_auth_data == made.auth_data
    assert (quote.certification_type, quote.certification_data) == (5, made.certification_data)
    assert (quote.qe_svn, quote.pce_svn, len(quote.padding)) == (1, 2, 0)


@pytest.mark.parametrize(
    ("name", "body", "body_type"),
    [
        ("SGX version 3", ParsedEnclaveReport, 1),
        ("SGX version 5", ParsedEnclaveReport, 1),
        ("TDX version 4", ParsedTdReport, 2),
        ("TDX 1.0 version 5", ParsedTdReport, 2),
        ("TDX 1.5 version 5", ParsedTdReport, 3),
    ],
)
def test_the_body_follows_from_version_tee_and_type(name: str, body: type, body_type: int) -> None:
    quote = parse_quote(FORMS[name].to_bytes())
    assert isinstance(quote.body, body)
    assert quote.body_type == body_type


@pytest.mark.parametrize("padding", [b"\0", bytes(3065), b"\1" * 39])
def test_padding_is_counted_and_may_be_anything(padding: bytes) -> None:
    data = MadeQuote(padding=padding).to_bytes()
    quote = parse_quote(data)
    assert quote.padding == padding
    assert quote.to_bytes() == data


@pytest.mark.parametrize("auth_data", [b"", bytes(1), bytes(0xFFF)])
def test_qe_authentication_data_may_have_any_length(auth_data: bytes) -> None:
    for made in (SGX_V3, MadeQuote()):
        data = replace(made, auth_data=auth_data).to_bytes()
        assert parse_quote(data).qe_auth_data == auth_data
        assert parse_quote(data).to_bytes() == data


@pytest.mark.parametrize(("kind", "size"), [(1, 36), (2, 276), (3, 404), (4, 9), (5, 0)])
def test_certification_data_without_a_chain_is_kept_with_its_type(kind: int, size: int) -> None:
    made = MadeQuote(certification_type=kind, certification_data=bytes(size))
    quote = parse_quote(made.to_bytes())
    assert (quote.certification_type, quote.certification_data) == (kind, bytes(size))
    assert quote.to_bytes() == made.to_bytes()


@pytest.mark.parametrize("vector", RECORDED, ids=lambda v: v.id)
def test_a_recorded_quote_says_what_its_manifest_says(vector: Recorded, vectors_dir: Path) -> None:
    data = vector.read(vectors_dir)
    quote = parse_quote(data)
    header, facts = vector.facts["header"], vector.facts
    assert quote.to_bytes() == data
    assert len(data) == header["total_length"]
    assert quote.version == header["version"]
    assert quote.tee == ("tdx" if header["tee_type"] == 129 else "sgx")
    assert (quote.qe_svn, quote.pce_svn) == (header["header_qe_svn"], header["header_pce_svn"])
    assert quote.user_data.hex() == header["header_user_data"]
    assert len(quote.signed_bytes) == header["signed_length"]
    assert len(quote.padding) == header["trailing_bytes"]
    assert any(quote.padding) is header["trailing_nonzero"]
    assert quote.certification_type == header["certification_data_type"]
    assert quote.qe_auth_data.hex() == header["qe_auth_data"]
    assert quote.body_type == header.get("body_type", 2 if quote.tee == "tdx" else 1)
    for part, said in ((quote.body, facts["body"]), (quote.qe_report, facts["qe_report"])):
        for name, value in said.items():
            found = getattr(part, name)
            if name in NUMBERS:
                found = found.to_bytes(len(value) // 2, "little")
            assert (found.hex() if isinstance(found, bytes) else found) == value, name


# -- what is refused


@pytest.mark.parametrize(
    ("made", "code", "offset"),
    [
        (MadeQuote(version=2), "quote-version-unsupported", 0),
        (MadeQuote(version=6), "quote-version-unsupported", 0),
        (MadeQuote(key_type=3), "quote-key-type-unsupported", 2),
        (MadeQuote(key_type=0), "quote-key-type-unsupported", 2),
        (MadeQuote(tee_type=0x82), "quote-tee-type-unsupported", 4),
        (MadeQuote(version=3), "quote-tee-type-unsupported", 4),
        (MadeQuote(vendor=bytes(16)), "quote-vendor-unsupported", 12),
        (MadeQuote(version=5, body_type=5), "quote-body-type-unsupported", 48),
        (MadeQuote(version=5, body_type=0), "quote-body-type-unsupported", 48),
        (MadeQuote(version=5, body_type=1), "quote-body-type-unsupported", 48),
        (MadeQuote(version=5, tee_type=0, body_type=2), "quote-body-type-unsupported", 48),
        (MadeQuote(outer_type=5), "quote-certification-data-unsupported", 764),
        (MadeQuote(certification_type=0), "quote-certification-data-unsupported", 1252),
        (MadeQuote(certification_type=6), "quote-certification-data-unsupported", 1252),
        (MadeQuote(certification_type=7), "quote-certification-data-unsupported", 1252),
        (replace(SGX_V3, certification_type=6), "quote-certification-data-unsupported", 1046),
    ],
)
def test_another_kind_of_quote_is_unsupported(made: MadeQuote, code: str, offset: int) -> None:
    error = refused(made.to_bytes())
    assert isinstance(error, UnsupportedError)
    assert (error.code, error.offset) == (code, offset)


SIZES = [
    (MadeQuote(version=5, body_size=647), "quote-length-mismatch"),
    (MadeQuote(version=5, body_type=2, body_size=648), "quote-length-mismatch"),
    (MadeQuote(version=5, body_size=0), "quote-length-mismatch"),
    (MadeQuote(length=0), "quote-truncated"),
    (MadeQuote(length=583), "quote-truncated"),
    (MadeQuote(length=0xFFFFFFFF), "quote-truncated"),
    (MadeQuote(outer_size=0), "quote-length-mismatch"),
    (MadeQuote(outer_size=0xFFFFFFFF), "quote-truncated"),
    (MadeQuote(auth_size=0xFFFF), "quote-truncated"),
    (MadeQuote(certification_size=0), "quote-length-mismatch"),
    (MadeQuote(certification_size=0xFFFFFFFF), "quote-truncated"),
    (MadeQuote(slack=b"\0"), "quote-length-mismatch"),
    (replace(SGX_V3, slack=b"\0"), "quote-length-mismatch"),
    (replace(SGX_V3, certification_size=1), "quote-length-mismatch"),
    (replace(SGX_V3, certification_size=0xFFFFFFFF), "quote-truncated"),
    (MadeQuote(certification_type=1, certification_data=bytes(35)), "quote-length-mismatch"),
    (MadeQuote(certification_type=1, certification_data=bytes(37)), "quote-length-mismatch"),
    (MadeQuote(certification_type=2, certification_data=bytes(404)), "quote-length-mismatch"),
    (MadeQuote(certification_type=3, certification_data=b""), "quote-length-mismatch"),
]


@pytest.mark.parametrize(("made", "code"), SIZES)
def test_a_length_that_does_not_fit_its_container_is_refused(made: MadeQuote, code: str) -> None:
    assert refused(made.to_bytes()).code == code


@pytest.mark.parametrize("step", [-1, 1])
@pytest.mark.parametrize("name", ["length", "outer_size", "certification_size", "auth_size"])
@pytest.mark.parametrize("padding", [b"", bytes(64)])
def test_no_nested_length_may_be_off_by_one(name: str, step: int, padding: bytes) -> None:
    honest = MadeQuote(padding=padding)
    quote = parse_quote(honest.to_bytes())
    sizes = {"certification_size": len(quote.certification_data), "auth_size": len(quote.qe_auth_data)}
    sizes["outer_size"] = 456 + sizes["certification_size"] + sizes["auth_size"]
    sizes["length"] = sizes["outer_size"] + 134
    refused(replace(honest, **{name: sizes[name] + step}).to_bytes())  # type: ignore[arg-type]  # sizes are ints


def test_two_lengths_that_cheat_together_are_refused() -> None:
    """The outer size takes in the padding, and so does the inner: the signature data's length still binds."""
    data = parse_quote(MadeQuote().to_bytes()).certification_data
    cheat = MadeQuote(outer_size=456 + 32 + len(data) + 8, certification_size=len(data) + 8, padding=bytes(8))
    assert refused(cheat.to_bytes()).code == "quote-truncated"


def test_a_quote_may_be_as_long_as_the_limit_and_no_longer() -> None:
    longest = MadeQuote(padding=bytes(MAX_QUOTE_BYTES - len(MadeQuote().to_bytes()))).to_bytes()
    assert len(longest) == MAX_QUOTE_BYTES
    assert parse_quote(longest).to_bytes() == longest
    assert refused(longest + b"\0").code == "quote-too-large"


@pytest.mark.parametrize("name", FORMS)
def test_a_quote_cut_at_any_length_is_truncated(name: str) -> None:
    data = FORMS[name].to_bytes()
    for length in {*range(0, len(data), 7), *range(40, 70), *range(1000, 1300), len(data) - 1}:
        assert refused(data[:length]).code == "quote-truncated", length


@pytest.mark.parametrize("vector", RECORDED, ids=lambda v: v.id)
def test_a_recorded_quote_cut_anywhere_is_truncated(vector: Recorded, vectors_dir: Path) -> None:
    data = vector.read(vectors_dir)
    for length in range(len(data) - len(parse_quote(data).padding)):
        assert refused(data[:length]).code == "quote-truncated", length


def test_the_tables_name_each_part_of_the_signature_data_once() -> None:
    assert [head.size for head in SIGNATURE_HEADS.values()] == [578, 584, 584]
    assert SIGNATURE_HEADS[3].names == tuple(n for n in SIGNATURE_HEADS[4].names if not n.startswith("outer"))


# -- any bytes at all


@given(st.binary(max_size=2048))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        quote = parse_quote(data)
    except AttestError as exc:
        assert exc.exit_code == 3  # noqa: PT017  either outcome is fine, each has its law
    else:
        assert quote.to_bytes() == data


@given(
    st.sampled_from(sorted(FORMS)),
    st.lists(st.tuples(st.integers(0, 1400), st.integers(0, 255)), max_size=6),
    st.integers(0, 5000),
)
def test_a_changed_quote_is_read_or_refused(name: str, changes: list[tuple[int, int]], length: int) -> None:
    data = bytearray(FORMS[name].to_bytes())
    for at, value in changes:
        data[at] = value
    altered = bytes(data)[: max(length, 600)]
    try:
        quote = parse_quote(altered)
    except AttestError as exc:
        assert exc.exit_code == 3  # noqa: PT017  as above
    else:
        assert quote.to_bytes() == altered
