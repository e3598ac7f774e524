"""Whoever is killed leaves the old state, or one that the next run ends; never a folder that looks whole and is not."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from attest.errors import AttestError, ConfigurationError, SealedSourceError, SealedTamperError
from attest.release.names import KeyReference
from attest.sealed import SealingNames, rewrap, seal_directory, unseal_directory
from tests.sealed.made import FILES, KEY, NAMES, OTHER_KEY, OWNER, STRANGER, Place, read_files, stream

REPOSITORY = Path(__file__).resolve().parents[2]
TRUSTED = (OWNER.public_key(),)


def rounds(kind: str, folder: Path, *, step: int) -> Counter[str]:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.sealed.killed", kind, str(folder), str(step)],
        cwd=REPOSITORY,
        capture_output=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr.decode()
    return Counter(json.loads(ran.stdout))


@pytest.mark.parametrize(("kind", "states"), [("seal", 3), ("unseal", 3), ("rewrap", 2)])
def test_a_kill_at_any_step_leaves_what_was_or_what_the_next_run_ends(kind: str, states: int, tmp_path: Path) -> None:
    left = rounds(kind, tmp_path, step=6)
    assert left["whole"] >= 1
    assert sum(left.values()) >= states


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["seal", "unseal", "rewrap"])
def test_a_kill_at_every_step_leaves_what_was_or_what_the_next_run_ends(kind: str, tmp_path: Path) -> None:
    left = rounds(kind, tmp_path, step=1)
    expected = {"old", "resumable", "whole"} if kind == "rewrap" else {"absent", "resumable", "whole"}
    assert set(left) == expected


@pytest.mark.slow
def test_hundreds_of_kills_at_random_moments_leave_no_model_that_looks_whole(tmp_path: Path) -> None:
    import random
    import signal
    import time

    place = Place(tmp_path, files={f"{n}.bin": bytes([n]) * 3_000_000 for n in range(12)})
    script = (
        "from pathlib import Path; from tests.sealed.made import Place; import sys;"
        "print('go', flush=True); Place(Path(sys.argv[1]), files={}).seal()"
    )
    moments, kills = random.Random(20261122), 0
    while kills < 200:
        process = subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path)],
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        with process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(moments.random() * 0.03)
            process.send_signal(signal.SIGKILL)
        kills += 1
        if place.sealed.exists():
            with place.open(digests=True) as model:
                assert {path: bytes(model.read(path)) for path in model.entries} == place.files
            place.sealed.rename(tmp_path / f"done-{kills}")
    assert kills == 200


class Stopped(Exception):  # noqa: N818  not an error of anything
    """Raised by a test in the middle of a run."""


def stop_after(files: int) -> Callable[[str, int], None]:
    seen: set[str] = set()

    def progress(name: str, count: int) -> None:
        seen.add(name)
        if len(seen) > files:
            raise Stopped

    return progress


def interrupted(place: Place, *, files: int = 2) -> Path:
    with pytest.raises(Stopped):
        seal_directory(
            place.model,
            place.sealed,
            key=KEY,
            names=NAMES,
            signer=OWNER,
            random=stream("first"),
            at=None,
            threads=1,
            progress=stop_after(files),
        )
    assert not place.sealed.exists()
    return place.folder / ".sealed.sealing"


def sealed_files(folder: Path) -> dict[str, bytes]:
    return {name: data for name, data in read_files(folder).items() if name.endswith(".sealed")}


def test_what_is_done_is_kept_and_the_rest_is_sealed_under_new_headers(tmp_path: Path) -> None:
    place = Place(tmp_path)
    work = interrupted(place, files=2)
    before = sealed_files(work / "model")
    assert len(before) == 2
    made = place.seal(seed="second")
    assert made.kept == 2
    after = sealed_files(place.sealed)
    assert {name: after[name] for name in before} == before
    headers = [data[:40] for data in after.values()]
    assert len(set(headers)) == len(headers)
    assert not work.exists()
    with place.open(digests=True) as model:
        assert {path: bytes(model.read(path)) for path in model.entries} == FILES


def test_no_key_in_the_clear_is_in_what_an_interrupted_run_leaves(tmp_path: Path) -> None:
    place = Place(tmp_path)
    work = interrupted(place)
    left = b"".join(read_files(work).values())
    place.seal()
    with place.open() as model:
        for secret in (model.data_key(), KEY):
            for form in (secret, secret.hex().encode(), secret.hex().upper().encode()):
                assert form not in left


def test_a_file_that_changed_meanwhile_is_sealed_again_under_a_new_header(tmp_path: Path) -> None:
    place = Place(tmp_path)
    work = interrupted(place, files=2)
    before = sealed_files(work / "model")
    (place.model / "config.json").write_bytes(b'{"hidden": 385}')
    place.files["config.json"] = b'{"hidden": 385}'
    assert place.seal(seed="second").kept == 1
    after = sealed_files(place.sealed)
    assert after["config.json.sealed"][:40] != before["config.json.sealed"][:40]
    with place.open(digests=True) as model:
        assert bytes(model.read("config.json")) == b'{"hidden": 385}'


def test_what_an_interrupted_run_had_sealed_is_not_what_was_signed_in_the_end(tmp_path: Path) -> None:
    place = Place(tmp_path)
    work = interrupted(place, files=2)
    kept_by_the_storage = sealed_files(work / "model")["config.json.sealed"]
    (place.model / "config.json").write_bytes(b'{"hidden": 385}')
    place.seal(seed="second")
    (place.sealed / "config.json.sealed").write_bytes(kept_by_the_storage)
    # The same key, name and size: only the header tells the two apart before every byte is compared.
    with place.open() as model, pytest.raises(SealedTamperError) as refused:
        model.open("config.json")
    assert refused.value.code == "sealed-header-mismatch"


def test_a_file_that_is_gone_or_new_meanwhile_is_left_out_or_added(tmp_path: Path) -> None:
    place = Place(tmp_path)
    interrupted(place, files=2)
    (place.model / "config.json").unlink()
    (place.model / "new").write_bytes(b"new")
    place.seal(seed="second")
    with place.open(digests=True) as model:
        assert list(model.entries) == ["empty", "model.safetensors", "new", "tokenizer/vocab.txt"]


@pytest.mark.parametrize("change", ["cut", "gone", "flipped"])
def test_a_sealed_file_that_is_no_longer_whole_is_made_again(tmp_path: Path, change: str) -> None:
    place = Place(tmp_path)
    work = interrupted(place, files=2)
    path = work / "model" / "config.json.sealed"
    data = path.read_bytes()
    path.unlink()
    if change != "gone":
        path.write_bytes(data[:-1] if change == "cut" else data[:50] + b"?" + data[51:])
    assert place.seal(seed="second").kept == 1
    place.open(digests=True).close()


@pytest.mark.parametrize(
    "names",
    [
        SealingNames(key=KeyReference.parse("model@2")),
        SealingNames(key=KeyReference.parse("model@1"), creator="Mallory"),
        SealingNames(key=KeyReference.parse("model@1"), policy_digest=bytes(32)),
    ],
)
def test_an_interrupted_run_does_not_go_on_under_other_names(tmp_path: Path, names: SealingNames) -> None:
    place = Place(tmp_path)
    interrupted(place)
    with pytest.raises(ConfigurationError) as refused:
        place.seal(names=names)
    assert refused.value.code == "sealed-work-differs"
    with pytest.raises(ConfigurationError):
        place.seal(fingerprints=False)
    place.seal()


def test_an_interrupted_run_does_not_go_on_under_another_key(tmp_path: Path) -> None:
    place = Place(tmp_path)
    interrupted(place)
    with pytest.raises(SealedTamperError) as refused:
        place.seal(key=OTHER_KEY)
    assert refused.value.code == "sealed-key-mismatch"


def test_every_flipped_byte_of_a_journal_is_refused_or_makes_work_be_done_again(tmp_path: Path) -> None:
    place = Place(tmp_path, files={"a": b"A", "b": b"B"})
    work = interrupted(place, files=1)
    journal = work / "journal"
    good = journal.read_bytes()
    ciphertext = read_files(work / "model")
    for at in range(0, len(good), 2):
        journal.write_bytes(good[:at] + bytes((good[at] ^ (1, 0x20)[at % 4 // 2],)) + good[at + 1 :])
        for name, data in ciphertext.items():
            (work / "model" / name).write_bytes(data)
        try:
            made = place.seal(seed="second")
        except AttestError as exc:
            assert exc.code in {"sealed-journal-invalid", "sealed-work-differs", "sealed-key-mismatch"}  # noqa: PT017
            continue
        # Only the end of the last line: it is then half a line.
        assert made.kept == 0
        assert good[at : at + 1] == b"\n"
        break


def test_a_journal_that_ends_in_half_a_line_loses_that_line_only(tmp_path: Path) -> None:
    place = Place(tmp_path)
    work = interrupted(place, files=2)
    journal = work / "journal"
    journal.write_bytes(journal.read_bytes()[:-5])
    assert place.seal(seed="second").kept == 1
    place.open(digests=True).close()


def test_two_runs_do_not_work_in_one_place(tmp_path: Path) -> None:
    place = Place(tmp_path)
    codes = []

    def progress(name: str, count: int) -> None:
        with pytest.raises(ConfigurationError) as refused:
            place.seal()
        codes.append(refused.value.code)

    seal_directory(
        place.model,
        place.sealed,
        key=KEY,
        names=NAMES,
        signer=OWNER,
        random=stream(),
        at=None,
        threads=1,
        progress=progress,
    )
    assert set(codes) == {"sealed-work-in-use"}


def test_an_unsealing_goes_on_with_what_is_done_and_does_again_what_was_touched(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.seal()
    target = tmp_path / "plain"
    with place.open() as model:
        with pytest.raises(Stopped):
            unseal_directory(model, target, random=os.urandom, allow_disk=True, progress=stop_after(2))
        assert not target.exists()
        (tmp_path / ".plain.unsealing" / "model" / "config.json").write_bytes(b"x" * len(FILES["config.json"]))
        made = unseal_directory(model, target, random=os.urandom, allow_disk=True, verify_digests=True)
    assert made.kept == 1
    assert read_files(target) == FILES


def test_a_file_that_was_written_to_is_unsealed_again_also_where_its_time_was_set_back(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.seal()
    target = tmp_path / "plain"
    with place.open() as model:
        with pytest.raises(Stopped):
            unseal_directory(model, target, random=os.urandom, allow_disk=True, progress=stop_after(2))
        touched = tmp_path / ".plain.unsealing" / "model" / "config.json"
        before = touched.stat()
        with touched.open("r+b") as file:
            file.write(b"x")
        os.utime(touched, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert unseal_directory(model, target, random=os.urandom, allow_disk=True).kept == 1
    assert read_files(target) == FILES


def test_an_unsealing_does_not_go_on_with_another_model(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    place, other = Place(tmp_path), Place(tmp_path / "other")
    place.seal(seed=1)
    other.seal(seed=2)
    target = tmp_path / "plain"
    with place.open() as model, pytest.raises(Stopped):
        unseal_directory(model, target, random=os.urandom, allow_disk=True, progress=stop_after(1))
    with other.open() as model, pytest.raises(ConfigurationError) as refused:
        unseal_directory(model, target, random=os.urandom, allow_disk=True)
    assert refused.value.code == "sealed-work-differs"


def test_a_rewrapping_that_somebody_else_prepared_is_not_ended(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.seal()
    good = read_files(place.sealed)
    work = tmp_path / ".sealed.rewrapping"
    work.mkdir()
    theirs = Place(tmp_path / "theirs")
    theirs.seal(signer=STRANGER)
    for name in ("sealed.json", "model.sig"):
        (work / name).write_bytes((theirs.sealed / name).read_bytes())
    with pytest.raises(AttestError) as refused:
        rewrap(place.sealed, key=KEY, new_key=OTHER_KEY, names=NAMES, signer=OWNER, trusted=TRUSTED, random=os.urandom)
    assert refused.value.code == "model-signature-untrusted"
    assert read_files(place.sealed) == good


def test_a_file_that_is_written_to_while_it_is_sealed_ends_the_run(tmp_path: Path) -> None:
    place = Place(tmp_path, files={"a": b"x" * 3_000_000, "b": b"y"})

    def progress(name: str, count: int) -> None:
        (place.model / "a").write_bytes(b"z" * 3_000_000)

    with pytest.raises(SealedSourceError) as refused:
        seal_directory(
            place.model,
            place.sealed,
            key=KEY,
            names=NAMES,
            signer=OWNER,
            random=stream(),
            at=None,
            threads=1,
            progress=progress,
        )
    assert refused.value.code == "sealed-source-changed"
    assert not place.sealed.exists()


def test_a_file_that_appears_while_the_last_ones_are_sealed_ends_the_run(tmp_path: Path) -> None:
    place = Place(tmp_path)

    def progress(name: str, count: int) -> None:
        (place.model / "late").write_bytes(b"z")

    with pytest.raises(SealedSourceError) as refused:
        seal_directory(
            place.model,
            place.sealed,
            key=KEY,
            names=NAMES,
            signer=OWNER,
            random=stream(),
            at=None,
            threads=1,
            progress=progress,
        )
    assert refused.value.code == "sealed-source-changed"
    assert not place.sealed.exists()
    place.seal()
