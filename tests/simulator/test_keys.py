"""Keys come from public labels, fit the table, and sign so that the real verifiers agree."""

from hashlib import sha256

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

from attest.endorsements.anchors import TrustAnchors
from attest.evidence.snp.tcb import SnpProduct, SnpTcbVersion
from attest_simulator import CaRole, simulated_ca_key
from attest_simulator import keys as simulator_keys
from attest_simulator.keys import (
    PUBLIC_EXPONENT,
    SimulatedRsaKey,
    expand_prime_candidate,
    find_prime_counter,
    is_probable_prime,
    prime_label,
    vcek_key,
    vlek_key,
)

AUTHORITIES = [(product, role) for product in SnpProduct for role in CaRole]
TCB = SnpTcbVersion(bootloader=4, tee=0, snp=24, microcode=219)
PSS = padding.PSS(mgf=padding.MGF1(hashes.SHA384()), salt_length=48)


@pytest.mark.parametrize(("product", "role"), AUTHORITIES)
def test_every_counter_of_the_table_stands_for_two_primes_of_an_rsa_key_of_4096_bits(
    product: SnpProduct, role: CaRole
) -> None:
    key = simulated_ca_key(product, role)
    assert (key.p * key.q).bit_length() == 4096
    for prime in (key.p, key.q):
        assert prime.bit_length() == 2048
        assert prime % PUBLIC_EXPONENT != 1
        assert is_probable_prime(prime, rounds=1)


def test_openssl_finds_a_key_consistent() -> None:
    key = simulated_ca_key(SnpProduct.MILAN, CaRole.ARK)
    private = pow(PUBLIC_EXPONENT, -1, (key.p - 1) * (key.q - 1))
    numbers = rsa.RSAPrivateNumbers(
        p=key.p,
        q=key.q,
        d=private,
        dmp1=rsa.rsa_crt_dmp1(private, key.p),
        dmq1=rsa.rsa_crt_dmq1(private, key.q),
        iqmp=rsa.rsa_crt_iqmp(key.p, key.q),
        public_numbers=key.public_key().public_numbers(),
    )
    assert numbers.private_key().public_key() == key.public_key()


@pytest.mark.slow
@pytest.mark.parametrize(("product", "role"), AUTHORITIES)
def test_the_search_finds_the_counters_of_the_table_again(product: SnpProduct, role: CaRole) -> None:
    found = tuple(find_prime_counter(prime_label(product, role, prime)) for prime in "pq")
    assert found == simulator_keys._COUNTERS[product, role]  # noqa: SLF001  the table is what is tested


@pytest.mark.parametrize("composite", [561, 3215031751, (1 << 61) + 1, 1000003 * 1000033])
def test_a_composite_number_is_no_probable_prime(composite: int) -> None:
    assert not is_probable_prime(composite)


@pytest.mark.parametrize("prime", [5, 257, 65537, (1 << 61) - 1, (1 << 127) - 1])
def test_a_prime_is_a_probable_prime(prime: int) -> None:
    assert is_probable_prime(prime)


def test_candidates_are_odd_of_full_length_and_all_different() -> None:
    candidates = [expand_prime_candidate("label", counter) for counter in range(50)]
    assert all(number & 1 and number >> 2046 == 3 for number in candidates)
    assert len({*candidates, expand_prime_candidate("another", 0)}) == 51


def test_no_two_authorities_share_a_key() -> None:
    assert len({simulated_ca_key(product, role).spki for product, role in AUTHORITIES}) == 9


def test_the_simulation_anchors_are_the_keys_of_the_simulated_arks() -> None:
    pins = {anchor.product: anchor.spki_sha256 for anchor in TrustAnchors.simulation().of_role("amd-ark")}
    expected = {p: sha256(simulated_ca_key(p, CaRole.ARK).spki).digest() for p in SnpProduct}
    assert pins == {str(product): digest for product, digest in expected.items()}


@pytest.mark.parametrize(("product", "role"), AUTHORITIES)
def test_the_vendor_anchors_pin_no_simulated_key(product: SnpProduct, role: CaRole) -> None:
    digest = sha256(simulated_ca_key(product, role).spki).digest()
    assert TrustAnchors.vendors().pinned(digest, role="amd-ark") is None


@pytest.mark.parametrize("message", [b"", b"message", bytes(5000)])
def test_a_pss_signature_verifies_and_is_the_same_each_time(message: bytes) -> None:
    key = simulated_ca_key(SnpProduct.TURIN, CaRole.ASK)
    signature = key.sign(message)
    assert len(signature) == 512
    assert key.sign(message) == signature
    key.public_key().verify(signature, message, PSS, hashes.SHA384())
    with pytest.raises(InvalidSignature):
        key.public_key().verify(signature, message + b"!", PSS, hashes.SHA384())


def test_the_repr_of_a_key_does_not_spill_its_primes() -> None:
    assert repr(simulated_ca_key(SnpProduct.MILAN, CaRole.ARK)) == "SimulatedRsaKey(label='ARK Milan')"
    assert isinstance(simulated_ca_key(SnpProduct.MILAN, CaRole.ARK), SimulatedRsaKey)


def test_the_order_of_p384_is_that_of_the_library() -> None:
    assert ec.SECP384R1().group_order == simulator_keys._ORDER_P384  # noqa: SLF001  one constant, twice


def test_a_leaf_key_depends_on_product_owner_kind_and_every_component_of_the_tcb() -> None:
    older = SnpTcbVersion(bootloader=4, tee=0, snp=24, microcode=218)
    keys = [
        vcek_key(product=SnpProduct.MILAN, hwid=bytes(64), tcb=TCB),
        vcek_key(product=SnpProduct.GENOA, hwid=bytes(64), tcb=TCB),
        vcek_key(product=SnpProduct.MILAN, hwid=bytes(63) + b"\1", tcb=TCB),
        vcek_key(product=SnpProduct.MILAN, hwid=bytes(64), tcb=older),
        vlek_key(product=SnpProduct.MILAN, csp_id="CN=a.example", tcb=TCB),
        vlek_key(product=SnpProduct.MILAN, csp_id="CN=b.example", tcb=TCB),
        vlek_key(product=SnpProduct.MILAN, csp_id="CN=a.example", tcb=older),
    ]
    assert len({key.private_numbers().private_value for key in keys}) == len(keys)
    again = vcek_key(product=SnpProduct.MILAN, hwid=bytes(64), tcb=TCB)
    assert again.private_numbers() == keys[0].private_numbers()
