"""Reading a transparency log: the Certificate Transparency tree, C2SP's examples, and every proof that is none."""

from base64 import b64decode, b64encode
from collections.abc import Sequence
from itertools import pairwise

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import AttestError, ConfigurationError, EvidenceError, SignatureError, VerificationError
from attest.release import VerifierKey, sign_note, verifier_key
from attest.release.tlog import (
    EMPTY_ROOT,
    LogProof,
    WitnessKey,
    WitnessPolicy,
    cosign,
    leaf_hash,
    node_hash,
    read_checkpoint,
    sign_checkpoint,
    verify_consistency,
    verify_inclusion,
    verify_logged,
)
from attest.release.tlog.checkpoints import unverified_checkpoint

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
LOG = verifier_key("kms.example/prod", KEY.public_key())

# The reference tree of Certificate Transparency.
ENTRIES = [
    bytes.fromhex(text)
    for text in (
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
INCLUSION_5_IN_7 = [
    "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
    "b08693ec2e721597130641e8211e7eedccb4c26413963eee6c1e2ed16ffb1a5f",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
]
CONSISTENCY_6_TO_8 = [
    "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
    "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
]


def root_of(leaves: Sequence[bytes]) -> bytes:
    """The definition of RFC 9162, word for word; slow."""
    if len(leaves) <= 1:
        return leaves[0] if leaves else EMPTY_ROOT
    split = 1 << (len(leaves) - 1).bit_length() - 1
    return node_hash(root_of(leaves[:split]), root_of(leaves[split:]))


def path_of(index: int, leaves: Sequence[bytes]) -> list[bytes]:
    if len(leaves) <= 1:
        return []
    split = 1 << (len(leaves) - 1).bit_length() - 1
    if index < split:
        return [*path_of(index, leaves[:split]), root_of(leaves[split:])]
    return [*path_of(index - split, leaves[split:]), root_of(leaves[:split])]


def proof_of(size: int, leaves: Sequence[bytes], *, whole: bool = True) -> list[bytes]:
    if size == len(leaves):
        return [] if whole else [root_of(leaves)]
    split = 1 << (len(leaves) - 1).bit_length() - 1
    if size <= split:
        return [*proof_of(size, leaves[:split], whole=whole), root_of(leaves[split:])]
    return [*proof_of(size - split, leaves[split:], whole=False), root_of(leaves[:split])]


def test_the_reference_tree_of_certificate_transparency() -> None:
    leaves = [leaf_hash(entry) for entry in ENTRIES]
    assert [root_of(leaves[: n + 1]).hex() for n in range(8)] == ROOTS
    assert EMPTY_ROOT.hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert leaf_hash(b"hello world") == b64decode("TszzRgjTG6xce+z2AG31kAXYKBgQVtCSCE40HmuwBb0=")
    inclusion, consistency = ([bytes.fromhex(one) for one in each] for each in (INCLUSION_5_IN_7, CONSISTENCY_6_TO_8))
    verify_inclusion(inclusion, index=5, size=7, leaf=leaves[5], root=bytes.fromhex(ROOTS[6]))
    old, new = bytes.fromhex(ROOTS[5]), bytes.fromhex(ROOTS[7])
    verify_consistency(consistency, old_size=6, old_root=old, new_size=8, new_root=new)


def wrong_proofs(proof: list[bytes]) -> list[list[bytes]]:
    flipped = [[*proof[:at], bytes(32), *proof[at + 1 :]] for at in range(len(proof))]
    swapped = [[*proof[:at], proof[at + 1], proof[at], *proof[at + 2 :]] for at in range(len(proof) - 1)]
    return [*flipped, *swapped, proof[:-1] if proof else [bytes(32)], [*proof, bytes(32)], [*proof, b""], proof * 64]


def test_every_inclusion_proof_up_to_40_leaves_holds_and_nothing_near_it_does() -> None:
    leaves = [leaf_hash(bytes([n])) for n in range(40)]
    for size in range(1, 41):
        root = root_of(leaves[:size])
        for index in range(size):
            proof, leaf = path_of(index, leaves[:size]), leaves[index]
            verify_inclusion(proof, index=index, size=size, leaf=leaf, root=root)
            cases = [(wrong, index, size, leaf, root) for wrong in wrong_proofs(proof) if wrong != proof]
            cases += [(proof, other, size, leaf, root) for other in (-1, index ^ 1, size)]
            cases += [(proof, index, size, leaf_hash(b"x"), root), (proof, index, size, leaf, bytes(32))]
            for wrong, place, length, what, top in cases:
                with pytest.raises(VerificationError) as caught:
                    verify_inclusion(wrong, index=place, size=length, leaf=what, root=top)
                assert caught.value.code == "log-inclusion-invalid"


def test_every_consistency_proof_up_to_40_leaves_holds_and_nothing_near_it_does() -> None:
    leaves = [leaf_hash(bytes([n])) for n in range(40)]
    roots = [root_of(leaves[:size]) for size in range(41)]
    for new in range(41):
        for old in range(new + 1):
            proof = proof_of(old, leaves[:new]) if old else []
            verify_consistency(proof, old_size=old, old_root=roots[old], new_size=new, new_root=roots[new])
            cases = [(wrong, old, roots[old], new, roots[new]) for wrong in wrong_proofs(proof) if wrong != proof]
            cases += [(proof, old, bytes(32), new, roots[new]), (proof, new + 1, roots[old], new, roots[new])]
            cases += [(proof, -1, roots[old], new, roots[new])]
            if old:  # anything at all extends the empty tree
                cases += [(proof, old, roots[old], new, bytes(32))]
            for wrong, before, first, after, last in cases:
                with pytest.raises(VerificationError) as caught:
                    verify_consistency(wrong, old_size=before, old_root=first, new_size=after, new_root=last)
                assert caught.value.code == "log-consistency-invalid"


def test_a_proof_that_stops_early_and_one_that_goes_on_are_told_apart() -> None:
    leaves = [leaf_hash(bytes([n])) for n in range(9)]
    proof, roots = proof_of(3, leaves), [root_of(leaves[:size]) for size in range(10)]
    for wrong, text in ((proof[:-1], "too short"), ([*proof, bytes(32)], "too long")):
        with pytest.raises(VerificationError, match=text):
            verify_consistency(wrong, old_size=3, old_root=roots[3], new_size=9, new_root=roots[9])
    with pytest.raises(VerificationError, match="too long"):
        verify_inclusion([*path_of(8, leaves), bytes(32)], index=8, size=9, leaf=leaves[8], root=roots[9])


# -- checkpoints


def test_a_checkpoint_reads_back() -> None:
    note = sign_checkpoint(origin=LOG.name, size=7, root=bytes.fromhex(ROOTS[6]), key=KEY)
    read = read_checkpoint(note, log=LOG)
    assert (read.origin, read.size, read.root.hex(), read.note) == (LOG.name, 7, ROOTS[6], note)
    assert note.startswith(f"{LOG.name}\n7\n{b64encode(read.root).decode()}\n\n— {LOG.name} ")


ROOT_TEXT = b64encode(bytes(32)).decode()


def test_lines_of_extensions_are_accepted_and_kept() -> None:
    note = sign_note(f"{LOG.name}\n0\n{ROOT_TEXT}\nextension\n", name=LOG.name, key=KEY)
    assert "extension" in read_checkpoint(note, log=LOG).note


@pytest.mark.parametrize(
    "text",
    [
        f"{LOG.name}\n",
        f"{LOG.name}\n7\n",
        f"{LOG.name}\n07\n{ROOT_TEXT}\n",
        f"{LOG.name}\n+7\n{ROOT_TEXT}\n",
        f"{LOG.name}\n-7\n{ROOT_TEXT}\n",
        f"{LOG.name}\n\u0667\n{ROOT_TEXT}\n",
        f"{LOG.name}\n{2**63}\n{ROOT_TEXT}\n",
        f"{LOG.name}\n{10**19}\n{ROOT_TEXT}\n",
        f"{LOG.name}\n7\n{ROOT_TEXT[:-1]}\n",
        f"{LOG.name}\n7\nAAAA\n",
        f"{LOG.name}\n7\n{ROOT_TEXT}\n" + "x" * 70_000 + "\n",
    ],
)
def test_a_signed_text_that_is_no_checkpoint_is_refused(text: str) -> None:
    with pytest.raises(EvidenceError) as caught:
        read_checkpoint(sign_note(text, name=LOG.name, key=KEY), log=LOG)
    assert caught.value.code == "checkpoint-invalid"


def test_a_checkpoint_of_another_log_or_another_key_is_refused() -> None:
    other = sign_note(f"kms.example/other\n7\n{ROOT_TEXT}\n", name=LOG.name, key=KEY)
    with pytest.raises(VerificationError) as caught:
        read_checkpoint(other, log=LOG)
    assert caught.value.code == "checkpoint-origin-mismatch"
    stranger = Ed25519PrivateKey.from_private_bytes(bytes(32))
    with pytest.raises(SignatureError):
        read_checkpoint(sign_checkpoint(origin=LOG.name, size=7, root=bytes(32), key=stranger), log=LOG)


@given(st.text())
def test_any_text_is_no_checkpoint_and_no_proof(text: str) -> None:
    with pytest.raises(EvidenceError):
        unverified_checkpoint(text)
    with pytest.raises(EvidenceError):
        LogProof.parse(text)


# -- witnesses

WITNESS_KEYS = [Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32) for n in (1, 2, 3)]
WITNESSES = tuple(
    WitnessKey(name=f"witness.example/{n}", public=key.public_key().public_bytes_raw())
    for n, key in enumerate(WITNESS_KEYS)
)
NOTE = sign_checkpoint(origin=LOG.name, size=7, root=bytes.fromhex(ROOTS[6]), key=KEY)


def cosigned(*numbers: int, at: int = 1_700_000_000) -> str:
    return NOTE + "".join(cosign(NOTE, name=WITNESSES[n].name, key=WITNESS_KEYS[n], at=at) for n in numbers)


def test_a_cosignature_is_found_under_a_checkpoint_that_still_is_the_logs() -> None:
    note = cosigned(0, 2)
    assert read_checkpoint(note, log=LOG).size == 7
    assert [one.cosigned_at(note) for one in WITNESSES] == [1_700_000_000, None, 1_700_000_000]


def test_a_witness_key_is_one_line_of_text_and_no_key_of_a_log() -> None:
    assert WitnessKey.parse(WITNESSES[0].text) == WITNESSES[0]
    for parse, text in ((WitnessKey.parse, LOG.text), (VerifierKey.parse, WITNESSES[0].text)):
        with pytest.raises(ConfigurationError) as caught:
            parse(text)
        assert caught.value.code == "verifier-key-invalid"


def test_so_many_witnesses_as_are_demanded_and_not_one_less() -> None:
    policy = WitnessPolicy(witnesses=WITNESSES, quorum=2)
    policy.require(cosigned(0, 1))
    policy.require(cosigned(0, 1, 2))
    for note in (NOTE, cosigned(0), cosigned(0, 0)):
        with pytest.raises(VerificationError) as caught:
            policy.require(note)
        assert caught.value.code == "log-witnesses-missing"
    WitnessPolicy(witnesses=WITNESSES, quorum=0).require(NOTE)


@pytest.mark.parametrize(
    ("witnesses", "quorum"),
    [
        ((), 1),
        (WITNESSES, -1),
        (WITNESSES, 4),
        ((WITNESSES[0], WITNESSES[0]), 1),
        ((WITNESSES[0], WitnessKey(name="other", public=WITNESSES[0].public)), 1),
        ((WITNESSES[0], WitnessKey(name=WITNESSES[0].name, public=WITNESSES[1].public)), 1),
    ],
)
def test_a_policy_that_counts_a_witness_twice_or_cannot_be_met_is_refused(
    witnesses: tuple[WitnessKey, ...], quorum: int
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        WitnessPolicy(witnesses=witnesses, quorum=quorum)
    assert caught.value.code == "witness-policy-invalid"


def test_a_cosignature_that_was_altered_or_is_of_another_checkpoint_makes_the_note_invalid() -> None:
    line = cosigned(0).removeprefix(NOTE)
    head, _, encoded = line.rstrip("\n").rpartition(" ")
    blob = b64decode(encoded)
    changed = [blob[:4] + bytes([blob[4] ^ 1]) + blob[5:], blob[:-1] + bytes([blob[-1] ^ 1]), blob[:-1], blob[:5]]
    later = sign_checkpoint(origin=LOG.name, size=8, root=bytes.fromhex(ROOTS[7]), key=KEY)
    notes = [NOTE + f"{head} {b64encode(one).decode()}\n" for one in changed]
    for note in [*notes, later + line, cosigned(0) + notes[0].removeprefix(NOTE)]:
        with pytest.raises(SignatureError):
            WITNESSES[0].cosigned_at(note)


@pytest.mark.parametrize("at", [0, -1, 2**63])
def test_a_cosignature_has_a_moment(at: int) -> None:
    with pytest.raises(ValueError, match="moment"):
        cosign(NOTE, name="w", key=WITNESS_KEYS[0], at=at)


def test_a_witness_has_a_name_that_a_note_can_carry() -> None:
    with pytest.raises(ConfigurationError):
        cosign(NOTE, name="two words", key=WITNESS_KEYS[0], at=1)


# -- proofs


def logged(index: int) -> LogProof:
    leaves = [leaf_hash(entry) for entry in ENTRIES[:7]]
    return LogProof(index=index, hashes=tuple(path_of(index, leaves)), checkpoint=NOTE)


def test_a_proof_reads_back_and_shows_that_the_entry_is_in_the_log() -> None:
    for index in range(7):
        proof = LogProof.parse(logged(index).to_text())
        assert proof == logged(index)
        assert verify_logged(ENTRIES[index], proof, log=LOG).size == 7
        with pytest.raises(VerificationError) as caught:
            verify_logged(ENTRIES[index] + b"x", proof, log=LOG)
        assert caught.value.code == "log-inclusion-invalid"
    text = logged(3).to_text()
    assert text.startswith("c2sp.org/tlog-proof@v1\nindex 3\n")
    assert LogProof.parse(text.replace("index 3", "extra AAAA\nindex 3")) == logged(3)


def test_a_proof_needs_as_many_witnesses_as_the_reader_says() -> None:
    policy = WitnessPolicy(witnesses=WITNESSES, quorum=1)
    proof = logged(3)
    with pytest.raises(VerificationError) as caught:
        verify_logged(ENTRIES[3], proof, log=LOG, witnesses=policy)
    assert caught.value.code == "log-witnesses-missing"
    witnessed = LogProof(index=3, hashes=proof.hashes, checkpoint=cosigned(1))
    verify_logged(ENTRIES[3], witnessed, log=LOG, witnesses=policy)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("@v1", "@v2"),
        ("index 3", "index 03"),
        ("index 3", "index -3"),
        ("index 3", f"index {2**63}"),
        ("index 3", "index 3\n!!!!"),
        ("index 3", "index 3\nAAAA"),
        ("index 3", "index 3" + f"\n{ROOT_TEXT}" * 64),
        ("index 3\n", ""),
        ("\n\n", "\n"),
    ],
)
def test_a_text_that_is_no_proof_is_refused(old: str, new: str) -> None:
    text = logged(3).to_text()
    assert old in text
    with pytest.raises(EvidenceError) as caught:
        LogProof.parse(text.replace(old, new))
    assert caught.value.code == "log-proof-invalid"
    with pytest.raises(EvidenceError):
        LogProof.parse("c2sp.org/tlog-proof@v1\n\n")


def test_every_character_of_a_proof_counts() -> None:
    text = logged(3).to_text()
    for before, after in pairwise(range(len(text) + 1)):
        changed = text[:before] + chr(ord(text[before]) ^ 1) + text[after:]
        with pytest.raises(AttestError):
            verify_logged(ENTRIES[3], LogProof.parse(changed), log=LOG)
