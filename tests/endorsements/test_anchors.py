"""Whose root keys are accepted, and how an operator changes that."""

import tomllib
from hashlib import sha256
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import given
from hypothesis import strategies as st

from attest.endorsements.anchors import Anchor, AnchorRole, TrustAnchors, amd_name, intel_name, read_anchor_file
from attest.endorsements.chains import require_issued
from attest.endorsements.roots import AMD_ARK_MODULI
from attest.endorsements.signatures import SignatureAlgorithm, load_public_key
from attest.endorsements.x509 import parse_certificate, pem_blocks
from attest.errors import ConfigurationError
from attest.evidence.snp.tcb import SnpProduct
from attest_simulator.intel.keys import IntelAuthority, authority_key, spki_of
from attest_simulator.keys import CaRole, simulated_ca_key
from attest_simulator.nvidia import DEVICE_ROOT, RIM_ROOT
from tests.endorsements import made

# specs: AMD's key distribution service, measured from the DER of each root.
PUBLISHED_PINS = {
    "ARK-Milan": "9f056bee44377e29308cb5ffa895bdfb62d18881fa6bed8d6f075b0204089cb9",
    "ARK-Genoa": "429a69c9422aa258ee4d8db5fcda9c6470ef15f8cd5a9cebd6cbc7d90b863831",
    "ARK-Turin": "4f125410563a2ab9a50356f9243f6fe0b6f73de98603f53f90339c70e9d7ad08",
    # specs/intel-tdx-sgx.md, section 7.
    "Intel SGX Root CA": "a0af031289f5d5d4132f9186068a7fc13628633ba235777472e29b6b6c67a49e",
    # specs/nvidia-gpu.md, section 6.2.
    "NVIDIA Device Identity CA": "a90c4eb5acfd3e3d03a25db6a26b84f720ad0503196c627c21ddd48dd85b06a4",
    "NVIDIA CoRIM signing Root CA": "dec1dc316477aa851eebdf51327ae9f864bc8d89254657ed1e7eb9168af1e1a3",
}
ROLES = ("amd-ark", "intel-sgx-root", "nvidia-device-root", "nvidia-rim-root")
NVIDIA_ROOTS: tuple[tuple[AnchorRole, str], ...] = (
    ("nvidia-device-root", "nvidia-device-identity-ca.pem"),
    ("nvidia-rim-root", "nvidia-corim-signing-root-ca.pem"),
)
VENDORS = TrustAnchors.vendors()
SIMULATION = TrustAnchors.simulation()


def test_the_vendor_set_is_the_published_pins_and_nothing_else() -> None:
    assert {anchor.name: anchor.spki_sha256.hex() for anchor in VENDORS.anchors} == PUBLISHED_PINS
    assert {anchor.role for anchor in VENDORS.anchors} == set(ROLES)


@pytest.mark.parametrize("anchor", VENDORS.of_role("amd-ark"), ids=lambda anchor: anchor.name)
def test_a_held_key_is_the_key_that_is_pinned(anchor: Anchor) -> None:
    assert anchor.spki is not None
    assert sha256(anchor.spki).digest() == anchor.spki_sha256
    key = load_public_key(anchor.spki)
    assert isinstance(key, rsa.RSAPublicKey)
    numbers = key.public_numbers()
    assert (key.key_size, numbers.e, numbers.n) == (4096, 65537, int(AMD_ARK_MODULI[anchor.product], 16))
    issuer = anchor.held_issuer()
    assert issuer is not None
    assert (issuer.name, issuer.subject, issuer.spki) == (anchor.name, amd_name(anchor.name), anchor.spki)


def test_the_held_root_of_intel_is_its_published_certificate(vectors_dir: Path) -> None:
    (anchor,) = VENDORS.of_role("intel-sgx-root")
    root = parse_certificate((vectors_dir / "collateral" / "intel-sgx-root-ca.der").read_bytes())
    assert (anchor.spki_sha256, anchor.spki, anchor.subject) == (root.spki_sha256, root.spki, root.subject)
    assert (anchor.not_before, anchor.not_after) == (root.not_before, root.not_after)
    issuer = anchor.held_issuer()
    assert issuer is not None
    require_issued(root, issuer, algorithm=SignatureAlgorithm.ECDSA_SHA256)


def test_the_held_root_of_intel_is_the_key_that_is_pinned() -> None:
    (anchor,) = VENDORS.of_role("intel-sgx-root")
    assert anchor.spki is not None
    assert sha256(anchor.spki).digest() == anchor.spki_sha256
    assert isinstance(load_public_key(anchor.spki), ec.EllipticCurvePublicKey)
    assert anchor.subject == intel_name("Intel SGX Root CA")


@pytest.mark.parametrize(("role", "file"), NVIDIA_ROOTS, ids=["device", "RIM"])
def test_a_held_root_of_nvidia_is_its_published_certificate(vectors_dir: Path, role: AnchorRole, file: str) -> None:
    (anchor,) = VENDORS.of_role(role)
    ((_, der),) = pem_blocks((vectors_dir / "nvidia" / "roots" / file).read_bytes())
    root = parse_certificate(der)
    assert (anchor.spki_sha256, anchor.spki, anchor.subject) == (root.spki_sha256, root.spki, root.subject)
    assert (anchor.not_before, anchor.not_after) == (root.not_before, root.not_after)
    issuer = anchor.held_issuer()
    assert issuer is not None
    require_issued(root, issuer, algorithm=SignatureAlgorithm.ECDSA_SHA384)


@pytest.mark.parametrize("role", ["nvidia-device-root", "nvidia-rim-root"])
def test_the_held_root_of_nvidia_is_the_key_that_is_pinned(role: AnchorRole) -> None:
    (anchor,) = VENDORS.of_role(role)
    assert anchor.spki is not None
    assert sha256(anchor.spki).digest() == anchor.spki_sha256
    assert isinstance(load_public_key(anchor.spki), ec.EllipticCurvePublicKey)


@pytest.mark.parametrize("anchor", VENDORS.of_role("amd-ark"), ids=lambda anchor: anchor.name)
def test_a_held_key_counts_for_twenty_five_years(anchor: Anchor) -> None:
    assert anchor.not_before is not None
    assert anchor.not_after == anchor.not_before.replace(year=anchor.not_before.year + 25)


def test_a_held_root_counts_for_as_long_as_its_certificate_says() -> None:
    assert {
        anchor.name: tuple(f"{moment:%Y-%m-%d %H:%M:%S}" for moment in (anchor.not_before, anchor.not_after) if moment)
        for anchor in VENDORS.anchors
    } == {
        "ARK-Milan": ("2020-10-22 17:23:05", "2045-10-22 17:23:05"),
        "ARK-Genoa": ("2022-01-26 15:34:37", "2047-01-26 15:34:37"),
        "ARK-Turin": ("2023-05-15 20:03:12", "2048-05-15 20:03:12"),
        "Intel SGX Root CA": ("2018-05-21 10:45:10", "2049-12-31 23:59:59"),
        "NVIDIA Device Identity CA": ("2021-11-05 00:00:00", "9999-12-31 23:59:59"),
        "NVIDIA CoRIM signing Root CA": ("2023-03-16 15:37:34", "2053-03-08 15:37:34"),
    }


def test_the_vendor_set_never_leads_to_the_simulation() -> None:
    assert not any(anchor.simulated for anchor in VENDORS.anchors)
    assert all(anchor.simulated for anchor in SIMULATION.anchors)
    for anchor in SIMULATION.anchors:
        assert VENDORS.pinned(anchor.spki_sha256, role=anchor.role) is None
        assert anchor.name.startswith("SIMULATED ")
    assert not {a.spki_sha256 for a in VENDORS.anchors} & {a.spki_sha256 for a in SIMULATION.anchors}


def test_the_simulation_pins_are_the_simulators_roots() -> None:
    pins = {anchor.product: anchor.spki_sha256 for anchor in SIMULATION.anchors}
    roots = {str(line): sha256(simulated_ca_key(line, CaRole.ARK).spki).digest() for line in SnpProduct}
    roots["SGX"] = sha256(spki_of(authority_key(IntelAuthority.ROOT))).digest()
    roots |= {
        "NVIDIA": sha256(DEVICE_ROOT.template.spki).digest(),
        "NVIDIA RIM": sha256(RIM_ROOT.template.spki).digest(),
    }
    assert pins == roots


def test_a_pinned_key_is_found_by_its_digest_and_role() -> None:
    milan = VENDORS.anchors[0]
    assert VENDORS.pinned(milan.spki_sha256, role="amd-ark") is milan
    assert VENDORS.pinned(bytes(32), role="amd-ark") is None
    assert VENDORS.pinned(milan.spki_sha256, role="intel-sgx-root") is None
    assert VENDORS.of_role("amd-ark") == VENDORS.anchors[:3]


def test_the_empty_set_accepts_nobody() -> None:
    nobody = TrustAnchors(anchors=())
    assert nobody.of_role("amd-ark") == ()
    assert nobody.pinned(VENDORS.anchors[0].spki_sha256, role="amd-ark") is None


def test_anchors_are_taken_out_by_name_and_an_unknown_name_is_an_error() -> None:
    fewer = VENDORS.without(["ARK-Milan"])
    assert [anchor.name for anchor in fewer.anchors] == list(PUBLISHED_PINS)[1:]
    assert [anchor.name for anchor in VENDORS.anchors] == list(PUBLISHED_PINS)
    with pytest.raises(ConfigurationError) as refusal:
        fewer.without(["ARK-Milan"])
    assert refusal.value.code == "anchor-unknown"
    assert refusal.value.expected == ", ".join(list(PUBLISHED_PINS)[1:])


def test_an_anchor_that_is_held_by_its_digest_alone_is_no_signer() -> None:
    assert Anchor(name="x", role="amd-ark", product="Milan", spki_sha256=bytes(32)).held_issuer() is None
    half = Anchor(name="x", role="amd-ark", product="Milan", spki_sha256=bytes(32), spki=b"key")
    assert half.held_issuer() is None


# -- the operator's file

GOOD = """
schema = "attest.anchors/1"
remove = ["ARK-Milan"]
[[add]]
name = "ARK-Next"
role = "amd-ark"
product = "Genoa"
spki_sha256 = "%s"
""" % ("ab" * 32)


def test_an_anchor_file_removes_and_adds() -> None:
    changed = read_anchor_file(GOOD.encode(), base=VENDORS)
    assert [anchor.name for anchor in changed.anchors] == [*list(PUBLISHED_PINS)[1:], "ARK-Next"]
    added = changed.pinned(bytes.fromhex("ab" * 32), role="amd-ark")
    assert added == Anchor(name="ARK-Next", role="amd-ark", product="Genoa", spki_sha256=bytes.fromhex("ab" * 32))
    assert read_anchor_file(b'schema = "attest.anchors/1"', base=VENDORS) == VENDORS


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"\xff\xfe", "not TOML"),
        (b"schema = ", "not TOML"),
        (b"", "schema: expected 'attest.anchors/1'"),
        (b'schema = "attest.anchors/2"', "schema: expected 'attest.anchors/1'"),
        (GOOD.encode() + b'colour = "red"\n', r"add\[0\]: expected the texts"),
        (b'colour = "red"\n' + GOOD.encode(), "unknown key 'colour'"),
        (b'schema = "attest.anchors/1"\nremove = "ARK-Milan"', "remove: expected a list of names"),
        (b'schema = "attest.anchors/1"\nremove = [1]', "remove: expected a list of names"),
        (b'schema = "attest.anchors/1"\nadd = "ARK"', r"add: expected \[\[add\]\] tables"),
        (b'schema = "attest.anchors/1"\nadd = ["ARK"]', r"add: expected \[\[add\]\] tables"),
        (GOOD.replace('name = "ARK-Next"\n', "").encode(), r"add\[0\]: expected the texts"),
        (GOOD.replace('"Genoa"', "7").encode(), r"add\[0\]: expected the texts"),
        (
            GOOD.replace('"amd-ark"', '"intel"').encode(),
            rf"add\[0\].role: expected one of {', '.join(ROLES)}, got 'intel'",
        ),
        (GOOD.replace("ab" * 32, "ab" * 31).encode(), r"add\[0\].spki_sha256: expected 32 bytes"),
        (GOOD.replace("ab" * 32, "xy" * 32).encode(), r"add\[0\].spki_sha256: expected pairs of hex"),
    ],
    ids=made.label,
)
def test_an_anchor_file_with_anything_wrong_in_it_is_refused_as_a_whole(text: bytes, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words) as refusal:
        read_anchor_file(text, base=VENDORS)
    assert refusal.value.code == "anchor-file-invalid"
    assert refusal.value.exit_code == 2


@pytest.mark.parametrize("anchor", SIMULATION.anchors, ids=lambda anchor: anchor.name)
def test_a_root_of_the_simulator_cannot_be_added_as_a_genuine_one(anchor: Anchor) -> None:
    text = GOOD.replace("ab" * 32, anchor.spki_sha256.hex()).encode()
    with pytest.raises(ConfigurationError, match="root of the simulator") as refusal:
        read_anchor_file(text, base=VENDORS)
    assert refusal.value.code == "anchor-file-invalid"


def test_removing_an_anchor_that_is_not_there_is_an_error_and_not_a_wish_come_true() -> None:
    with pytest.raises(ConfigurationError) as refusal:
        read_anchor_file(b'schema = "attest.anchors/1"\nremove = ["ARK-Naples"]', base=VENDORS)
    assert refusal.value.code == "anchor-unknown"


@given(st.binary(max_size=100) | st.text(max_size=100).map(str.encode))
def test_any_bytes_are_a_file_of_anchors_or_a_documented_refusal(text: bytes) -> None:
    with pytest.raises(ConfigurationError):
        read_anchor_file(text, base=VENDORS)


def test_the_example_in_the_documentation_is_read() -> None:
    page = (Path(__file__).parents[2] / "docs" / "trust-anchors.md").read_text()
    (example,) = [part.partition("```")[0] for part in page.split("```toml\n")[1:]]
    assert tomllib.loads(example)["schema"] == "attest.anchors/1"
    changed = read_anchor_file(example.encode(), base=VENDORS)
    assert {anchor.name for anchor in changed.anchors} != {anchor.name for anchor in VENDORS.anchors}
