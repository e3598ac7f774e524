"""Programs of others verify with what the mirror gives them: dcap-qvl, NVIDIA's Python verifier, and curl."""

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

import pytest

from attest.clock import this_second
from attest.endorsements.bundle_records import BundleEntry
from attest.endorsements.intel_answers import intel_answer_bytes
from attest.endorsements.rims import parse_rim_answer
from attest.nvsdk import find_environment
from attest_simulator.nvidia import SimulatedGpu, SimulatedNvidiaService
from tests.compat.endorsements.conftest import Mirror, absent
from tests.conftest import vectors_root
from tests.fetch.mirror_entries import VCEKS, amd_entries, rim_entries

NOW = this_second()
pytestmark = pytest.mark.loopback


def recorded_entries(collateral: Mapping[str, str]) -> list[BundleEntry]:
    """Return recorded collateral of Intel's as the entries of a bundle."""

    def document(member: str, name: str) -> bytes:
        return f'{{"{member}":{collateral[name]},"signature":"{collateral[name + "_signature"]}"}}'.encode()

    def chain(name: str) -> bytes:
        return collateral[f"{name}_issuer_chain"].encode()

    tcb, identity = document("tcbInfo", "tcb_info"), document("enclaveIdentity", "qe_identity")
    crl, root = bytes.fromhex(collateral["pck_crl"]), bytes.fromhex(collateral["root_ca_crl"])
    parts: list[tuple[str, bytes]] = [
        ("intel-tcb-info", intel_answer_bytes(tcb, issuer_chain=chain("tcb_info"))),
        ("intel-qe-identity", intel_answer_bytes(identity, issuer_chain=chain("qe_identity"))),
        ("intel-crl", intel_answer_bytes(crl, issuer_chain=chain("pck_crl"))),
        ("intel-crl", intel_answer_bytes(root, issuer_chain=b"")),
    ]
    return [BundleEntry(kind=kind, source="recorded", data=data) for kind, data in parts]  # type: ignore[arg-type]


def test_dcap_qvl_verifies_a_recorded_quote_with_the_mirrors_collateral(mirror: Mirror) -> None:
    if find_spec("dcap_qvl") is None:
        absent("dcap-qvl is not installed: pip install dcap-qvl")
    vectors = vectors_root()
    if vectors is None:
        absent("there is no recorded evidence here; set ATTEST_VECTORS to its folder")
    assert vectors is not None
    import dcap_qvl  # type: ignore[import-untyped]  # its stubs are not marked as such

    collateral = json.loads((vectors / "collateral/tdx-b0c06f000000-2025-06.json").read_bytes())
    quote = (vectors / "tdx/v4-b0c06f000000-uptodate/quote.bin").read_bytes()
    address = mirror(recorded_entries(collateral))

    async def fetch() -> object:
        return await dcap_qvl.get_collateral(address, quote)

    fetched = asyncio.run(fetch())
    at = int(datetime(2025, 6, 20, tzinfo=UTC).timestamp())
    assert dcap_qvl.verify(quote, fetched, at).status == "UpToDate"


def test_curl_gets_the_bytes_of_the_bundle(mirror: Mirror, tmp_path: Path) -> None:
    curl = shutil.which("curl")
    if curl is None:
        absent("there is no curl")
    assert curl is not None
    (entry,) = amd_entries(NOW, VCEKS[:1])
    levels = "&".join(f"{name}={level:02d}" for name, level in VCEKS[0].spls)
    url = f"{mirror([entry])}/vcek/v1/{VCEKS[0].product}/{VCEKS[0].hwid.hex()}?{levels}"
    run = [curl, "--silent", "--fail", "--noproxy", "*", "--output", str(tmp_path / "vcek.der"), url]
    subprocess.run(run, check=True, timeout=60)
    assert (tmp_path / "vcek.der").read_bytes() == entry.data
    missing = subprocess.run([*run[:-1], url.replace("v1/", "v1/Turin/")], check=False, timeout=60)
    assert missing.returncode == 22  # --fail: 404


NVIDIA = """
import json, socket, sys
address, rims, chain = json.load(sys.stdin)
real = socket.socket.connect
def connect(self, to):
    if to[0] != "127.0.0.1":
        raise OSError("the network is denied")
    return real(self, to)
socket.socket.connect = connect
from OpenSSL import crypto
from verifier.cc_admin_utils import CcAdminUtils
from verifier.config import BaseSettings, HopperSettings
BaseSettings.set_rim_service_base_url(address + "/v1/rim/")
BaseSettings.set_ocsp_url(address)
BaseSettings.OCSP_NONCE_DISABLED = True
found = [CcAdminUtils.fetch_rim_file(name) for name in rims]
certificates = [crypto.load_certificate(crypto.FILETYPE_PEM, pem) for pem in chain]
modes = BaseSettings.Certificate_Chain_Verification_Mode
good = CcAdminUtils.ocsp_certificate_chain_validation(certificates, HopperSettings(), modes.GPU_ATTESTATION)
sys.stderr.flush()
print("\\n" + json.dumps([found, good[0], good[2]]))
"""


def test_nvidias_python_verifier_gets_rims_and_revocation_from_the_mirror_alone(mirror: Mirror, tmp_path: Path) -> None:
    named = os.environ.get("ATTEST_NVSDK")
    if not named:
        absent("NVIDIA's Python SDK is not here; 'attest nvsdk install --yes --dir DIR', then ATTEST_NVSDK=DIR")
    gpu, nvidia = SimulatedGpu.of("gpu 0"), SimulatedNvidiaService.of(NOW)
    statuses = [
        BundleEntry(kind="nvidia-ocsp", source="recorded", data=nvidia.ocsp.template(issuer, serial).issue())
        for issuer, serial in gpu.questions(at=NOW)
    ]
    rims = rim_entries(NOW)
    names = [parse_rim_answer(entry.data).id for entry in rims]
    text = gpu.chain_pem.decode() if isinstance(gpu.chain_pem, bytes) else str(gpu.chain_pem)
    chain = [
        f"{part}-----END CERTIFICATE-----\n" for part in text.split("-----END CERTIFICATE-----") if "BEGIN" in part
    ]
    ran = subprocess.run(
        [find_environment(Path(str(named)).resolve()).python, "-c", NVIDIA],
        input=json.dumps([mirror([*rims, *statuses]), names, chain]),
        env={"no_proxy": "*"},
        cwd=tmp_path,  # it writes a log where it stands
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    found, good, status = json.loads(ran.stdout.splitlines()[-1])
    assert [one.encode() for one in found] == [parse_rim_answer(entry.data).document.xml for entry in rims]
    assert (good, status) == (True, "good"), ran.stdout[-2000:]
