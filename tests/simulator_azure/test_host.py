"""The paravisor's report is right in every byte, and the CPU in it vouches for any key that it is given."""

import base64
import json
from dataclasses import replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.x509 import parse_certificate, pem_blocks
from attest.errors import AttestError
from attest.evidence.azure.forms import ParsedAzureEvidence, parse_azure_evidence
from attest.evidence.azure.runtime import parse_runtime_claims
from attest.evidence.azure.structure import HclReportType, parse_hcl_report
from attest.evidence.intel.quote import ParsedQuote, parse_quote
from attest.evidence.intel.verify import verify_intel_quote
from attest.evidence.snp.evidence import ParsedSnpEvidence
from attest.evidence.snp.structure import parse_report
from attest.evidence.snp.tcb import SnpProduct, SnpTcbVersion
from attest.evidence.snp.verify import verify_snp_evidence
from attest.evidence.tdx.structure import ParsedTdReport
from attest_simulator import SimulatedChip
from attest_simulator.azure import (
    AzureHost,
    HclTemplate,
    SimulatedSnpHost,
    SimulatedTdxHost,
    VmConfiguration,
    keys,
    runtime_claims,
    tpm_key,
)
from attest_simulator.azure.hcl import committed
from attest_simulator.intel import SimulatedPlatform, SimulatedTd
from attest_simulator.intel.td_report import quote_of_td_report, td_report
from tests.samples import AT

AK, EK = tpm_key("VM 0", "AK").public_key(), tpm_key("VM 0", "EK").public_key()
USER_DATA = bytes(range(100, 164))
SNP, TDX = SimulatedSnpHost.of(), SimulatedTdxHost.of()
HOSTS = pytest.mark.parametrize("host", [SNP, TDX], ids=["snp", "tdx"])
SIMULATION = TrustAnchors.simulation()


def hcl(host: AzureHost, **changes: Any) -> bytes:  # noqa: ANN401
    return host.hcl_report(AK, EK, **{"user_data": USER_DATA, **changes})


# -- keys


def test_a_key_is_rsa_of_2048_bits_and_the_same_whenever_it_is_made() -> None:
    key = tpm_key("a test", "AK")
    assert key.key_size == 2048
    assert key.public_key().public_numbers().e == 65537
    tpm_key.cache_clear()
    assert tpm_key("a test", "AK").private_numbers() == key.private_numbers()
    assert tpm_key("a test", "EK").public_key() != key.public_key()


@pytest.mark.slow
@pytest.mark.parametrize("labels", sorted(keys._COUNTERS), ids="-".join)  # noqa: SLF001  the table is what is tested
def test_the_search_finds_the_counters_of_the_table_again(labels: tuple[str, ...]) -> None:
    assert keys.search_counters(*labels) == keys._COUNTERS[labels]  # noqa: SLF001


# -- the report


@HOSTS
def test_the_report_of_an_old_paravisor_names_the_attestation_key_alone_and_is_shorter(host: AzureHost) -> None:
    template = host.hcl_template(AK, None, user_data=USER_DATA)
    report = parse_hcl_report(template.to_bytes(size=2048))
    assert [key["kid"] for key in json.loads(report.runtime_data)["keys"]] == ["HCLAkPub"]
    claims = parse_runtime_claims(report.runtime_data)
    assert (claims.ak, claims.user_data, len(report.raw)) == (AK, USER_DATA, 2048)


@HOSTS
def test_the_report_commits_to_keys_user_data_and_configuration(host: AzureHost) -> None:
    configuration = VmConfiguration(vm_unique_id="ab" * 18, secure_boot=False, console_enabled=False)
    report = parse_hcl_report(hcl(host, configuration=configuration))
    claims = parse_runtime_claims(report.runtime_data)
    assert (len(report.raw), report.report_type.platform) == (2600, host.platform)
    assert (claims.ak, claims.user_data, claims.unknown) == (AK, USER_DATA, {})
    assert claims.vm_configuration["secure_boot"] is False
    assert claims.vm_configuration["console_enabled"] is False
    assert claims.vm_configuration["tpm_enabled"] is True
    assert report.to_bytes() == report.raw
    assert hcl(host) == hcl(host)


@HOSTS
def test_the_ordinary_vm_has_secure_boot_and_an_id(host: AzureHost) -> None:
    configuration = parse_runtime_claims(parse_hcl_report(hcl(host)).runtime_data).vm_configuration
    assert configuration["secure_boot"] is True
    assert len(str(configuration["vm_unique_id"])) == 36


def test_an_snp_report_inside_is_amds_at_vmpl_0_with_an_id_block() -> None:
    report = parse_hcl_report(hcl(SNP))
    cpu = parse_report(report.hardware_report)
    found = verify_snp_evidence(
        ParsedSnpEvidence(report=cpu, leaves=(), issuers=(), crls=()),
        endorsements=SNP.endorsements(at=AT),
        anchors=SIMULATION,
        at=AT,
    )
    assert found.simulated
    assert cpu.report_data == report.runtime_digest
    assert (cpu.vmpl, cpu.policy, cpu.version, cpu.guest_svn) == (0, 0x3001F, 3, 10)
    assert any(cpu.id_key_digest)
    assert cpu.image_id[:1] == b"\x02"


def test_the_quote_of_the_tdreport_inside_is_intels_and_says_the_same() -> None:
    report = parse_hcl_report(hcl(TDX))
    quote = parse_quote(TDX.td_quote(report.raw))
    verify_intel_quote(quote, endorsements=TDX.endorsements(at=AT), anchors=SIMULATION, at=AT)
    assert quote.body.raw[120:520] == report.td_info
    assert quote.body.report_data == report.td_report_data == report.runtime_digest
    assert quote.body.raw[328:520] == bytes(192)  # RTMR0 to RTMR3
    assert len(quote.raw) > 4000


@HOSTS
def test_what_the_cpu_says_can_be_replaced_before_it_signs(host: AzureHost) -> None:
    field = {"vmpl": 1} if host.platform == "az-snp" else {"mr_td": b"\x07" * 48}
    changed, plain = hcl(host, override=field), hcl(host)
    assert changed != plain
    assert changed[0x4C0:] == plain[0x4C0:]


def test_user_data_and_claims_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="user data has 64 bytes, got 63"):
        hcl(SNP, user_data=bytes(63))
    huge = rsa.RSAPublicNumbers(65537, (1 << 8192) - 1).public_key()
    with pytest.raises(ValueError, match="more than the 2600"):
        SNP.hcl_report(huge, huge)


@pytest.mark.parametrize(("kind", "size"), [(1, 32), (2, 48), (3, 64)])
def test_the_commitment_is_left_aligned_by_every_hash(kind: int, size: int) -> None:
    claims = parse_hcl_report(hcl(SNP)).runtime_data
    template = HclTemplate(version=1, report_type=2, hardware_report=bytes(1184), runtime_data=claims, hash_type=kind)
    assert parse_hcl_report(template.to_bytes()).runtime_digest == committed(claims, hash_type=kind)
    assert committed(claims, hash_type=kind)[size:] == bytes(64 - size)


# -- what the services know


def test_thim_tells_vcek_tcb_and_issuers() -> None:
    host = SimulatedSnpHost.of(SimulatedChip.of(SnpProduct.MILAN))
    answer = json.loads(host.certification())
    assert set(answer) == {"vcekCert", "tcbm", "certificateChain", "cacheControl"}
    assert answer["tcbm"] == "DB18000000000004"
    ((_, vcek),) = pem_blocks(answer["vcekCert"].encode())
    issuers = [parse_certificate(der).common_name for _, der in pem_blocks(answer["certificateChain"].encode())]
    assert vcek == host.guest.chip.leaf_certificate() == host.vcek()
    assert issuers == ["SEV-Milan", "ARK-Milan"]


def test_a_host_that_was_updated_since_hands_out_another_vcek() -> None:
    old = SnpTcbVersion(bootloader=9, tee=0, snp=20, microcode=60)
    chip = replace(SNP.guest.chip, reported_tcb=old)
    host = SimulatedSnpHost.of(chip)
    assert host.vcek() != chip.leaf_certificate()
    assert json.loads(host.certification())["tcbm"] == SNP.guest.chip.current_tcb.to_bytes()[::-1].hex().upper()


# -- TDREPORT


def test_a_tdreport_is_quoted_on_its_own_platform_alone() -> None:
    report = td_report(TDX.td, bytes(64))
    with pytest.raises(ValueError, match="not made on this platform"):
        quote_of_td_report(SimulatedPlatform.of("another"), report)
    for offset in (0, 16, 40, 100, 130, 230, 260, 300, 600, 1000):
        changed = bytearray(report)
        changed[offset] ^= 1
        with pytest.raises(ValueError, match="or was changed"):
            TDX.quote(bytes(changed))
    for size in (0, 1023, 1025):
        with pytest.raises(ValueError, match="1024 bytes"):
            TDX.quote(report.ljust(size, b"\0")[:size])


def test_a_quote_by_way_of_a_tdreport_is_the_quote_of_the_td() -> None:
    td = replace(TDX.td, mr_config_id=b"\x05" * 48)
    data = sha256(b"data").digest() * 2
    assert quote_of_td_report(td.platform, td_report(td, data)) == td.quote(data)


def test_a_tdreport_names_the_svn_of_a_module_that_was_updated_since() -> None:
    td = replace(TDX.td, tee_tcb_svn_2=b"\x09" * 16)
    assert td_report(td, bytes(64))[384:400] == b"\x09" * 16


# -- like the real ones


@cache
def recorded(root: Path, name: str) -> ParsedAzureEvidence:
    return parse_azure_evidence((root / "azure" / name / "evidence.json").read_bytes())


@pytest.mark.parametrize("name", ["az-snp-milan-v2", "az-snp-milan-v3", "az-snp-coco-v0", "az-tdx-v4"])
def test_a_recorded_report_is_written_again_from_what_it_says(vectors_dir: Path, name: str) -> None:
    report = recorded(vectors_dir, name).hcl
    said = json.loads(report.runtime_data)
    keys = [rsa.RSAPublicNumbers(65537, number(key["n"])).public_key() for key in said["keys"]]
    values = said["vm-configuration"]
    configuration = VmConfiguration(vm_unique_id=values["vmUniqueId"], console_enabled=values["console-enabled"])
    claims = runtime_claims(
        ak_public=keys[0],
        ek_public=keys[1],
        user_data=bytes.fromhex(said["user-data"]),
        configuration=configuration,
        version=report.version,
    )
    assert claims == report.runtime_data
    template = HclTemplate(
        version=report.version,
        report_type=int(report.report_type),
        hardware_report=report.hardware_report,
        runtime_data=claims,
    )
    assert template.to_bytes() == report.raw


def test_a_recorded_tdreport_is_made_again_but_for_its_mac(vectors_dir: Path) -> None:
    evidence = recorded(vectors_dir, "az-tdx-v4")
    assert evidence.hcl.report_type is HclReportType.TDX
    assert isinstance(evidence.cpu, ParsedQuote)
    real, body = evidence.hcl.hardware_report[:1024], evidence.cpu.body
    assert isinstance(body, ParsedTdReport)
    platform = SimulatedPlatform.of(components=tuple(real[16:32]))
    td = SimulatedTd(platform=platform, log=(), tee_tcb_svn_2=body.tee_tcb_svn)
    override = {name: getattr(body, name) for name in ("tee_tcb_svn", "mr_seam", "td_attributes", "xfam", "mr_td")}
    made = td_report(td, body.report_data, override=override)
    assert (made[:224], made[256:]) == (real[:224], real[256:])


def number(text: str) -> int:
    return int.from_bytes(base64.urlsafe_b64decode(text + "=="), "big")


def test_simulated_evidence_is_refused_under_the_vendors_roots() -> None:
    quote = parse_quote(TDX.td_quote(hcl(TDX)))
    with pytest.raises(AttestError):
        verify_intel_quote(quote, endorsements=TDX.endorsements(at=AT), anchors=TrustAnchors.vendors(), at=AT)
