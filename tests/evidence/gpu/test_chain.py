"""From the attestation key to the pinned root: every link, every place, every date."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import permutations

import pytest

from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import NO_ENDORSEMENTS, Endorsements
from attest.endorsements.x509 import Extension, parse_certificate
from attest.errors import AttestError, ChainError, EndorsementError, SignatureError
from attest.evidence.gpu.chain import MAX_LEAVES, find_path, report_signed_by, require_linked
from attest.evidence.gpu.evidence import parse_nvidia_device
from attest_simulator.nvidia import SimulatedGpu
from tests.endorsements.made import AUTHORITY, BEGINS, CA_CONSTRAINTS, CA_USAGE, ECDSA_SHA256, ENDS, spki
from tests.evidence.gpu.made_chain import (
    AT,
    BLACKWELL,
    DEVICE,
    DEVICE_KEY,
    DIGITAL_SIGNATURE,
    L2,
    L2_KEY,
    L3,
    L3_KEY,
    LEAF,
    P256_KEY,
    ROOT,
    ROOT_KEY,
    STRANGER_KEY,
    SWITCH,
    MadeDevice,
    composite,
    held,
    name,
    pinned,
    verify,
)

SECOND = timedelta(seconds=1)
UNKNOWN = Extension(oid="1.2.3.4", critical=True, value=b"")
OTHER = MadeDevice(
    leaf={"issuer": name("GH100 A01 GSP BROM", "410000000000000001"), "serial": 9, "key": STRANGER_KEY},
    device={"subject": name("GH100 A01 GSP BROM", "410000000000000001"), "serial": 0x410000000000000001},
)
"""Another device under the same issuers."""


def code(found: MadeDevice, *, anchors: TrustAnchors | None = None, pool: Endorsements = NO_ENDORSEMENTS) -> str:
    """Return code and check of the refusal of a device's JSON evidence."""
    with pytest.raises(AttestError) as refusal:
        verify(found.evidence(), pool, anchors=anchors)
    assert refusal.value.check == "nvidia.chain"
    assert refusal.value.exit_code == 4
    return refusal.value.code


def without(pool: Endorsements, *gone: int) -> Endorsements:
    """Leave out the certificates of these places in a chain, the leaf's being 0."""
    left_out = [(LEAF, DEVICE, L3, L2, ROOT)[place] for place in gone]
    return Endorsements(certificates=tuple(c for c in pool.certificates if c.subject not in left_out))


# -- what passes


@pytest.mark.parametrize("made", [MadeDevice(), SWITCH, BLACKWELL], ids=["hopper", "ls10", "blackwell"])
@pytest.mark.parametrize("anchors", [held(), pinned()], ids=["by its key", "by its digest"])
def test_an_honest_chain_reaches_the_pinned_root(made: MadeDevice, anchors: TrustAnchors) -> None:
    for parsed, pool in ((made.evidence(), NO_ENDORSEMENTS), (made.raw(), made.pool())):
        chain = verify(parsed, pool, anchors=anchors).chain
        assert [chain.leaf.certificate, chain.device, *chain.issuers] == list(made.certificates()[:4])
        assert chain.anchor == anchors.anchors[0]
        assert chain.root.spki == spki(ROOT_KEY)


def test_a_firmware_id_that_is_marked_critical_is_understood() -> None:
    critical = replace(composite(), critical=True)
    made = MadeDevice(leaf={"extensions": (DIGITAL_SIGNATURE, critical)})
    for parsed, pool in ((made.evidence(), NO_ENDORSEMENTS), (made.raw(), made.pool())):
        assert verify(parsed, pool).fwid_matched


def test_what_a_chain_says_of_a_device() -> None:
    chain = verify(SWITCH.evidence()).chain
    assert (chain.kind, chain.architecture, chain.product) == ("nvidia-switch", "ls10", "LS10")
    assert chain.identity.text == "500102030405060708"


def test_a_chain_without_its_root_reaches_a_root_that_is_held() -> None:
    made = MadeDevice()
    assert verify(made.evidence(chain=made.certificates()[:4])).chain.anchor.name == "made"
    assert verify(made.raw(), without(made.pool(), 4)).chain.anchor.name == "made"


def test_a_root_from_the_evidence_is_dropped_whatever_it_is() -> None:
    stranger = MadeDevice(root={"key": STRANGER_KEY, "signer": STRANGER_KEY, "subject": L2, "issuer": L2})
    assert verify(stranger.evidence()).chain.root.spki == spki(ROOT_KEY)


def test_the_root_of_a_pinned_digest_may_lie_among_the_endorsements() -> None:
    made = MadeDevice()
    parsed, root = made.evidence(chain=made.certificates()[:4]), made.certificates()[4:]
    assert verify(parsed, Endorsements(certificates=root), anchors=pinned()).simulated


def test_of_many_leaves_the_one_that_signed_is_taken() -> None:
    made = MadeDevice()
    pool = OTHER.pool().merged(made.pool())
    assert verify(made.raw(), pool).chain.leaf.certificate is made.certificates()[0]
    assert verify(replace(OTHER, key=STRANGER_KEY).raw(), pool).chain.identity.text == "410000000000000001"


def test_of_several_issuers_of_one_name_the_one_that_signed_is_taken() -> None:
    made = MadeDevice()
    namesake = MadeDevice(l3={"key": STRANGER_KEY}).certificates()[2]
    pool = Endorsements(certificates=(namesake, *made.certificates()))
    assert verify(made.raw(), pool).chain.issuers[0] is made.certificates()[2]


# -- length and order


def test_the_order_of_a_presented_chain_counts() -> None:
    made = MadeDevice()
    chain = made.certificates()
    for order in permutations(range(4)):
        if order == (0, 1, 2, 3):
            continue
        with pytest.raises(ChainError):
            verify(made.evidence(chain=(*(chain[i] for i in order), chain[4])))


@pytest.mark.parametrize("gone", [0, 1, 2, 3])
@pytest.mark.parametrize("root", [True, False], ids=["with root", "without root"])
def test_a_presented_chain_of_another_length_is_refused(gone: int, root: bool) -> None:
    made = MadeDevice()
    kept = tuple(c for i, c in enumerate(made.certificates()[: 5 if root else 4]) if i != gone)
    with pytest.raises(ChainError) as refusal:
        verify(made.evidence(chain=kept))
    assert refusal.value.code == "gpu-chain-length"


def test_a_certificate_too_many_no_certificate_and_a_root_alone_are_refused() -> None:
    made = MadeDevice()
    chain = made.certificates()
    for wrong in ((*chain[:4], chain[3], chain[4]), (), chain[4:], (*chain, chain[4]), (chain[0],)):
        with pytest.raises(ChainError) as refusal:
            verify(made.evidence(chain=wrong))
        assert refusal.value.code == "gpu-chain-length"


def test_a_missing_leaf_is_not_made_up_for_by_another_ca() -> None:
    made = MadeDevice()
    chain = made.certificates()
    with pytest.raises(ChainError) as refusal:
        verify(made.evidence(chain=(chain[1], chain[1], *chain[2:])))
    assert refusal.value.code == "gpu-leaf-malformed"


@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_every_certificate_of_another_device_in_its_place_is_refused(place: int) -> None:
    made = MadeDevice()
    strangers = MadeDevice(
        leaf={"key": STRANGER_KEY}, device={"key": STRANGER_KEY}, l3={"key": STRANGER_KEY}, l2={"key": STRANGER_KEY}
    ).certificates()
    chain = list(made.certificates())
    chain[place] = strangers[place]
    with pytest.raises((ChainError, SignatureError)):
        verify(made.evidence(chain=tuple(chain)))


# -- links and flags

BROKEN: Mapping[str, tuple[MadeDevice, str]] = {
    "leaf signed by another": (MadeDevice(leaf={"signer": STRANGER_KEY}), "certificate-signature-invalid"),
    "device signed by another": (MadeDevice(device={"signer": STRANGER_KEY}), "certificate-signature-invalid"),
    "L3 signed by another": (MadeDevice(l3={"signer": STRANGER_KEY}), "certificate-signature-invalid"),
    "L2 signed by another": (MadeDevice(l2={"signer": STRANGER_KEY}), "certificate-signature-invalid"),
    "leaf names another": (MadeDevice(leaf={"issuer": L2}), "issuer-name-mismatch"),
    "device names another": (MadeDevice(device={"issuer": ROOT}), "issuer-name-mismatch"),
    "L3 names another": (MadeDevice(l3={"issuer": DEVICE}), "issuer-name-mismatch"),
    "L2 names another": (MadeDevice(l2={"issuer": DEVICE}), "root-not-trusted"),
    "device is no CA": (MadeDevice(device={"extensions": (DIGITAL_SIGNATURE,)}), "ca-flags-missing"),
    "L3 is no CA": (MadeDevice(l3={"extensions": (CA_USAGE,)}), "ca-flags-missing"),
    "L2 is no CA": (MadeDevice(l2={"extensions": (CA_CONSTRAINTS,)}), "ca-flags-missing"),
    "leaf is a CA": (MadeDevice(leaf={"extensions": (*AUTHORITY, composite())}), "gpu-leaf-malformed"),
    "leaf with another critical extension": (
        MadeDevice(leaf={"extensions": (DIGITAL_SIGNATURE, composite(), UNKNOWN)}),
        "critical-extension-unknown",
    ),
    "device with a critical firmware id": (
        MadeDevice(device={"extensions": (*AUTHORITY, replace(composite(), critical=True))}),
        "critical-extension-unknown",
    ),
    "leaf without firmware id": (MadeDevice(leaf={"extensions": (DIGITAL_SIGNATURE,)}), "gpu-leaf-malformed"),
    "device without serial": (
        MadeDevice(device={"subject": name("GH100"), "serial": 5}, leaf={"issuer": name("GH100")}),
        "gpu-identity-malformed",
    ),
    "SHA-256": (
        MadeDevice(l3={"inner": ECDSA_SHA256, "outer": ECDSA_SHA256}),
        "certificate-algorithm-unexpected",
    ),
}


@pytest.mark.parametrize(("made", "expected"), BROKEN.values(), ids=BROKEN.keys())
def test_each_link_and_flag_counts(made: MadeDevice, expected: str) -> None:
    assert code(made) == expected


@pytest.mark.parametrize(
    ("made", "issuer"),
    [
        (MadeDevice(device={"key": P256_KEY}, leaf={"signer": P256_KEY}), "device"),
        (MadeDevice(l3={"key": P256_KEY}, device={"signer": P256_KEY}), "L3"),
        (MadeDevice(l2={"key": P256_KEY}, l3={"signer": P256_KEY}), "L2"),
    ],
    ids=["device", "L3", "L2"],
)
def test_keys_of_another_curve_are_refused_though_they_sign_well(made: MadeDevice, issuer: str) -> None:
    assert code(made) == "public-key-invalid", issuer


def test_a_key_of_another_curve_makes_a_leaf_that_signed_nothing() -> None:
    made = MadeDevice(leaf={"key": P256_KEY})
    assert not report_signed_by(made.raw().report, made.certificates()[0])
    with pytest.raises(ChainError) as refusal:
        verify(made.evidence())
    assert refusal.value.code == "public-key-invalid"
    assert {c.id for c in refusal.value.checks if c.outcome == "fail"} >= {"nvidia.chain", "nvidia.signature"}


# -- the root


def test_a_root_that_nobody_pinned_is_refused() -> None:
    assert code(MadeDevice(), anchors=TrustAnchors(anchors=())) == "root-not-trusted"
    assert code(MadeDevice(), anchors=TrustAnchors.vendors()) == "root-not-trusted"
    forged = MadeDevice(
        l2={"issuer": name("Evil CA"), "signer": STRANGER_KEY},
        root={"subject": name("Evil CA"), "issuer": name("Evil CA"), "key": STRANGER_KEY, "signer": STRANGER_KEY},
    )
    assert code(forged) == "root-not-trusted"
    assert code(forged, anchors=pinned()) == "root-not-trusted"


def test_a_root_in_the_name_of_the_held_one_with_another_key_is_refused() -> None:
    forged = MadeDevice(l2={"signer": STRANGER_KEY}, root={"key": STRANGER_KEY, "signer": STRANGER_KEY})
    assert code(forged) == "certificate-signature-invalid"


def test_an_anchor_of_another_role_is_no_device_root() -> None:
    rim = TrustAnchors(anchors=(replace(held().anchors[0], role="nvidia-rim-root"),))
    assert code(MadeDevice(), anchors=rim) == "root-not-trusted"


def test_without_a_root_certificate_a_pinned_digest_cannot_be_reached() -> None:
    made = MadeDevice()
    with pytest.raises(EndorsementError) as refusal:
        verify(made.evidence(chain=made.certificates()[:4]), anchors=pinned())
    assert (refusal.value.code, refusal.value.exit_code) == ("gpu-root-missing", 5)
    with pytest.raises(ChainError) as forged:
        verify(made.evidence(chain=made.certificates()[:4]), anchors=TrustAnchors(anchors=()))
    assert forged.value.code == "root-not-trusted"


@pytest.mark.parametrize(
    "root",
    [{"extensions": (DIGITAL_SIGNATURE,)}, {"signer": STRANGER_KEY}, {"issuer": L2}],
    ids=["no CA", "signed by another", "issued by another"],
)
def test_a_root_certificate_of_a_pinned_digest_must_hold_itself(root: Mapping[str, object]) -> None:
    made = MadeDevice()
    wrong = MadeDevice(root=root).certificates()[4:]
    parsed = made.evidence(chain=made.certificates()[:4])
    with pytest.raises(ChainError):
        verify(parsed, Endorsements(certificates=wrong), anchors=pinned())


def test_the_simulators_root_is_called_by_its_name_where_hardware_is_expected() -> None:
    parsed = parse_nvidia_device(SimulatedGpu.of().device_item(bytes(32)))
    for anchors in (TrustAnchors.vendors(), held()):
        with pytest.raises(ChainError) as refusal:
            verify(parsed, anchors=anchors)
        assert refusal.value.code == "simulated-root-refused"
    assert verify(parsed, anchors=TrustAnchors.simulation()).simulated


# -- a raw report


def test_a_raw_report_without_its_leaf_lacks_an_endorsement() -> None:
    made = MadeDevice()
    for pool in (NO_ENDORSEMENTS, without(made.pool(), 0)):
        with pytest.raises(EndorsementError) as refusal:
            verify(made.raw(), pool)
        assert (refusal.value.code, refusal.value.exit_code) == ("gpu-leaf-missing", 5)


@pytest.mark.parametrize("gone", [1, 2, 3])
def test_a_raw_report_without_an_issuer_lacks_an_endorsement(gone: int) -> None:
    made = MadeDevice()
    with pytest.raises(EndorsementError) as refusal:
        verify(made.raw(), without(made.pool(), gone))
    assert (refusal.value.code, refusal.value.exit_code) == ("gpu-issuer-missing", 5)
    passed = {check.id for check in refusal.value.checks if check.outcome == "pass"}
    assert {"nvidia.signature", "nvidia.chain_validity"} <= passed


@pytest.mark.parametrize("pools", [1, 2], ids=["one leaf", "two leaves"])
def test_a_raw_report_that_no_leaf_signed_is_forged_and_not_incomplete(pools: int) -> None:
    pool = OTHER.pool() if pools == 1 else OTHER.pool().merged(MadeDevice().pool())
    forged = replace(MadeDevice(), key=DEVICE_KEY).raw()
    for endorsements in (pool, without(pool, 2)):
        with pytest.raises(SignatureError) as refusal:
            verify(forged, endorsements)
        assert refusal.value.code == "gpu-signature-invalid"


def test_an_issuer_of_the_right_name_that_did_not_sign_is_a_forgery() -> None:
    made = MadeDevice()
    namesake = MadeDevice(l3={"key": STRANGER_KEY}).certificates()[2]
    pool = Endorsements(certificates=(namesake, *without(made.pool(), 2).certificates))
    with pytest.raises(ChainError) as refusal:
        verify(made.raw(), pool)
    assert refusal.value.code == "certificate-signature-invalid"


@pytest.mark.parametrize("place", range(5), ids=["leaf", "device", "L3", "L2", "root"])
@pytest.mark.parametrize("anchors", [held(), pinned()], ids=["by its key", "by its digest"])
def test_damaged_copies_beside_the_good_certificate_decide_nothing(place: int, anchors: TrustAnchors) -> None:
    made = MadeDevice()
    good = made.certificates()[place].der
    damaged = tuple(parse_certificate(good[:-1] + bytes([good[-1] ^ (1 + n)])) for n in range(20))
    found = verify(made.raw(), Endorsements(certificates=(*damaged, *made.certificates())), anchors=anchors)
    assert (found.chain.leaf.certificate, found.chain.device, *found.chain.issuers) == made.certificates()[:4]


@pytest.mark.parametrize("place", ["device", "l3", "l2"])
def test_of_two_certificates_with_one_key_the_valid_one_counts(place: str) -> None:
    made = MadeDevice()
    expired = MadeDevice(**{place: {"ends": AT - SECOND}})  # type: ignore[arg-type]  # one of the places
    assert verify(made.raw(), made.pool().merged(expired.pool())).chain.device == made.certificates()[1]
    with pytest.raises(ChainError) as refusal:
        verify(made.raw(), expired.pool())
    assert refusal.value.code == "certificate-expired"


def test_certificates_that_name_each_other_in_a_circle_end() -> None:
    made = MadeDevice()
    circle = MadeDevice(l2={"issuer": L3, "signer": L3_KEY}).certificates()[3]
    with pytest.raises(EndorsementError) as refusal:
        verify(made.raw(), Endorsements(certificates=(*without(made.pool(), 2, 3).certificates, circle)))
    assert refusal.value.code == "gpu-issuer-missing"


def test_a_root_in_the_place_of_an_issuer_is_no_issuer() -> None:
    short = MadeDevice(l3={"issuer": ROOT, "signer": ROOT_KEY})
    with pytest.raises(EndorsementError) as refusal:
        verify(short.raw(), short.pool())
    assert refusal.value.code == "gpu-issuer-missing"


def test_only_so_many_leaves_are_tried() -> None:
    made = MadeDevice()
    made_leaves = (MadeDevice(leaf={"serial": 1000 + n, "key": STRANGER_KEY}).certificates()[0] for n in range(400))
    strangers = [leaf for leaf in made_leaves if leaf.der < made.certificates()[0].der][:MAX_LEAVES]  # in their order
    assert len(strangers) == MAX_LEAVES
    with pytest.raises(SignatureError):
        verify(made.raw(), Endorsements(certificates=(*strangers, *made.certificates())))
    verify(made.raw(), Endorsements(certificates=(*strangers[1:], *made.certificates())))


# -- dates


@pytest.mark.parametrize("place", ["leaf", "device", "l3", "l2"])
@pytest.mark.parametrize(
    ("at", "problem"),
    [
        (BEGINS, None),
        (ENDS, None),
        (BEGINS - SECOND, "certificate-not-yet-valid"),
        (ENDS + SECOND, "certificate-expired"),
    ],
    ids=["at its beginning", "at its end", "before", "after"],
)
def test_every_certificate_counts_within_its_dates_only(place: str, at: datetime, problem: str | None) -> None:
    wide = {"begins": BEGINS - timedelta(days=9), "ends": ENDS + timedelta(days=9)}
    others = {other: wide for other in ("leaf", "device", "l3", "l2", "root") if other != place}
    made = MadeDevice(**others)  # type: ignore[arg-type]  # changes of certificates
    anchors = held(wide["begins"], wide["ends"])
    if problem is None:
        verify(made.evidence(), anchors=anchors, at=at)
        return
    for parsed, pool in ((made.evidence(), NO_ENDORSEMENTS), (made.raw(), made.pool())):
        with pytest.raises(ChainError) as refusal:
            verify(parsed, pool, anchors=anchors, at=at)
        assert (refusal.value.code, refusal.value.check) == (problem, "nvidia.chain_validity")


@pytest.mark.parametrize("anchors", [held(), pinned()], ids=["by its key", "by its digest"])
def test_the_root_counts_within_its_dates_only(anchors: TrustAnchors) -> None:
    wide = {"begins": BEGINS - timedelta(days=9), "ends": ENDS + timedelta(days=9)}
    made = MadeDevice(leaf=wide, device=wide, l3=wide, l2=wide)
    for at, problem in ((BEGINS - SECOND, "certificate-not-yet-valid"), (ENDS + SECOND, "certificate-expired")):
        with pytest.raises(ChainError) as refusal:
            verify(made.evidence(), anchors=anchors, at=at)
        assert refusal.value.code == problem
    for at in (BEGINS, ENDS):
        verify(made.evidence(), anchors=anchors, at=at)


def test_a_root_that_is_held_without_dates_has_none() -> None:
    verify(MadeDevice().evidence(), anchors=held(None, None), at=AT)


def test_nested_validity_is_not_asked_for() -> None:
    old = {"begins": BEGINS - timedelta(days=900)}
    verify(MadeDevice(leaf=old, device=old).evidence())


def test_linking_is_a_question_of_its_own() -> None:
    require_linked(find_path(MadeDevice().evidence(), NO_ENDORSEMENTS))
    with pytest.raises(ChainError):
        require_linked(find_path(MadeDevice(l3={"signer": L2_KEY, "key": L2_KEY}).evidence(), NO_ENDORSEMENTS))
    assert L3_KEY is not L2_KEY
