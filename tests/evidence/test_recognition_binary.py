"""Binary forms: the first and last bytes by which each is told, and what is next to them."""

import pytest

from attest.evidence.recognition_binary import binary_kind
from attest.evidence.snp.certificate_table import KINDS
from attest.evidence.snp.structure import REPORT_BYTES

GUID = next(iter(KINDS)).bytes
SNP = b"\2\0\0\0".ljust(REPORT_BYTES, b"\1")
CCEL_HEAD = b"\1\0\0\0" + b"\3".ljust(24, b"\0") + b"\x2d\0\0\0" + b"Spec ID Event03\0"


def table(begin: int, length: int, size: int) -> bytes:
    """A table of one entry of an unknown kind, and what stands behind a report of this size."""
    return (b"\x77" * 16 + begin.to_bytes(4, "little") + length.to_bytes(4, "little")).ljust(size, b"\1")


def quote(version: int, key_type: int, tee: int, size: int = 48) -> bytes:
    head = version.to_bytes(2, "little") + key_type.to_bytes(2, "little") + tee.to_bytes(4, "little")
    return head.ljust(size, b"\1")


def nitro(place: int) -> bytes:
    head = b"\xd2\x84\x44\xa1\x01\x38\x22\xa0\x59\x01\x00\xa9"
    return head.ljust(place, b"\1") + b"module_id"


@pytest.mark.parametrize(
    ("data", "label"),
    [
        (SNP, "SEV-SNP report"),
        (b"\xff" + SNP[1:], "SEV-SNP report"),
        (b"\2\0\0\1" + SNP[4:], None),
        (b"\2\1\0\0" + SNP[4:], None),
        (b"\0" + SNP[1:], None),
        (SNP[:-1], None),
        (SNP + b"\1", None),
        (SNP + GUID, "SEV-SNP extended report"),
        (SNP + GUID[:-1], None),
        (SNP + bytes(24), "SEV-SNP extended report"),
        (SNP + bytes(23), None),
        (SNP + table(48, 0, 48), "SEV-SNP extended report"),
        (SNP + table(47, 0, 48), None),
        (SNP + table(49, 0, 48), None),
        (SNP + table(48, 12, 60), "SEV-SNP extended report"),
        (SNP + table(48, 13, 60), None),
        (SNP + table(60, 0, 60), "SEV-SNP extended report"),
        (b"\0" + SNP[1:] + GUID, None),
        (GUID, "SEV-SNP certificate table"),
        (GUID[:-1], None),
        (bytes(24), "SEV-SNP certificate table"),
        (bytes(23), None),
        (bytes(23) + b"\1", None),
        (b"\x0a\x80\x01\x08", "go-sev-guest attestation (protobuf)"),
        (b"\x0a\xff\xff\x7f\x08", "go-sev-guest attestation (protobuf)"),
        (b"\x0a\x7f\x01\x08", None),
        (b"\x0a\x80\x00\x08", None),
        (b"\x0a\x80\x80\x80\x01\x08", None),
        (b"\x0a\x80\x01\x10", None),
        (b"\x30\x05\x30\x03\xa0", "X.509 certificate"),
        (b"\x30\x81\x85\x30\x82\x01\x02\xa0", "X.509 certificate"),
        (b"\x30\x83\1\1\1\x30\x7f\xa0", "X.509 certificate"),
        (b"\x30\x80\x30\x03\xa0", None),
        (b"\x30\x05\x30\x03\xa1", None),
        (b"\x30\x05\x30\x03\x02\x01\x01\x30", "certificate revocation list"),
        (b"\x30\x05\x30\x03\x02\x01\x00\x30", None),
        (quote(4, 2, 0x81), "TDX quote"),
        (quote(5, 3, 0x81), "TDX quote"),
        (quote(3, 2, 0x81), None),
        (quote(6, 2, 0x81), None),
        (quote(4, 1, 0x81), None),
        (quote(4, 4, 0x81), None),
        (quote(4, 2, 0x80), None),
        (quote(4, 2, 0x82), None),
        (quote(4, 2, 0x81, 47), None),
        (quote(3, 2, 0), "SGX quote"),
        (quote(4, 2, 0), "SGX quote"),
        (quote(5, 2, 0), "SGX quote"),
        (quote(2, 2, 0), None),
        (quote(6, 2, 0), None),
        (quote(3, 2, 1), None),
        (b"HCLA\1\0\0\0", "Azure HCL report"),
        (b"HCLB\1\0\0\0", None),
        (b"HCLA\1\1\0\0", None),
        (b"HCLA\1\0\0\1", None),
        (CCEL_HEAD, "TCG event log"),
        (CCEL_HEAD[:-1], None),
        (CCEL_HEAD[:4] + b"\4" + CCEL_HEAD[5:], None),
        (CCEL_HEAD[:27] + b"\1" + CCEL_HEAD[28:], None),
        (b"\x11\xe0", "NVIDIA attestation report"),
        (b"\x11\xe1", None),
        (b"\xd9\x01\x8f", "Arm CCA attestation token"),
        (b"\xd9\x03\x8b", "Arm CCA attestation token"),
        (b"\xd9\x01\x8b", None),
        (nitro(12), "AWS Nitro Enclaves attestation document"),
        (nitro(12)[1:], "AWS Nitro Enclaves attestation document"),
        (nitro(503), "AWS Nitro Enclaves attestation document"),
        (nitro(504), None),
        (b"\x81", None),
        (b"\x82", "evidence envelope (CBOR)"),
        (b"\x83", "evidence envelope (CBOR)"),
        (b"\x84", None),
        (b"\x9f", None),
        (b"\xa0", "evidence envelope (CBOR)"),
        (b"\xbb", "evidence envelope (CBOR)"),
        (b"\xbc", None),
        (b"", None),
    ],
)
def test_a_binary_form_is_told_by_its_first_bytes_and_its_length(data: bytes, label: str | None) -> None:
    kind = binary_kind(data)
    assert (None if kind is None else kind.label) == label
