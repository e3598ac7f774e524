"""`attest seal`, `unseal` and `sealed`: what people and programs are told, and what is left on the disk."""

import io
import json
import os
import stat
from pathlib import Path

import pytest

from attest.sealed import open_directory
from attest.sealed.staging import is_memory
from attest.terminal.progress import byte_count, shown_progress
from tests.cli.conftest import Attest, Ran
from tests.sealed.made import FILES, KEY, OTHER_KEY, OWNER, STRANGER, private_pem, public_pem, read_files, write_files

IDENTITY = "kms.example/prod"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_files(tmp_path / "model", dict(FILES))
    for name, key in (("model.key", KEY), ("other.key", OTHER_KEY), ("short.key", KEY[:16])):
        (tmp_path / name).write_bytes(key)
        (tmp_path / name).chmod(0o600)
    for name, owner in (("owner", OWNER), ("stranger", STRANGER)):
        (tmp_path / f"{name}.pem").write_bytes(private_pem(owner))
        (tmp_path / f"{name}.pem").chmod(0o600)
        (tmp_path / f"{name}.pub").write_bytes(public_pem(owner))
    return tmp_path


def seal(attest: Attest, *more: object) -> Ran:
    return attest(
        *("seal", "model", "sealed", "--key", "model@1", "--key-file", "model.key", "--signing-key", "owner.pem"), *more
    )


def unseal(attest: Attest, *more: object) -> Ran:
    return attest("unseal", "sealed", "plain", "--key-file", "model.key", "--trust", "owner.pub", "--allow-disk", *more)


def test_a_model_is_sealed_verified_and_unsealed(attest: Attest, folder: Path) -> None:
    made = seal(attest, "--at", "2026-06-01T00:00:00Z", "--creator", "Alice", "--json")
    assert made.code == 0, made.err
    assert made.err == ""
    document = made.document
    assert (document["schema"], document["outcome"], document["key"]) == ("attest.sealed-model/1", "sealed", "model@1")
    assert (document["files"], document["bytes"], document["kept"]) == (4, sum(map(len, FILES.values())), 0)
    assert (document["creator"], document["created_at"]) == ("Alice", "2026-06-01T00:00:00Z")
    verified = attest("sealed", "verify", "sealed", "--trust", "owner.pub", "--json")
    assert (verified.code, verified.document["outcome"], verified.document["digests"]) == (0, "verified", "compared")
    back = unseal(attest, "--json", "--verify-digests")
    assert (back.code, back.document["outcome"]) == (0, "unsealed")
    assert read_files(folder / "plain") == FILES
    assert KEY.hex() not in made.out + made.err + back.out + back.err


def test_a_page_says_the_same(attest: Attest, folder: Path) -> None:
    made = seal(attest)
    assert (made.code, "sealed_bytes" in made.out, "model@1" in made.out) == (0, True, True)
    assert seal(attest, "--quiet").out == ""


def test_a_dry_run_changes_nothing_and_takes_no_key(attest: Attest, folder: Path) -> None:
    (folder / "model.key").unlink()
    before = read_files(folder)
    planned = seal(attest, "--dry-run", "--json")
    assert (planned.code, planned.document["outcome"]) == (0, "would seal")
    assert [one["path"] for one in planned.document["list"]] == sorted(FILES)
    assert read_files(folder) == before
    bare = attest("seal", "model", "sealed", "--key", "model", "--signing-key", "owner.pem", "--dry-run", "--quiet")
    assert (bare.code, bare.out) == (0, "")
    (folder / "model.key").write_bytes(KEY)
    (folder / "model.key").chmod(0o600)
    seal(attest)
    (folder / "model.key").unlink()
    before = read_files(folder)
    planned = unseal(attest, "--dry-run", "--json")
    assert (planned.code, planned.document["outcome"], planned.document["key"]) == (0, "would unseal", "model@1")
    assert attest("unseal", "sealed", "plain", "--trust", "owner.pub", "--allow-disk", "--dry-run").code == 0
    assert read_files(folder) == before


def test_a_target_that_is_there_is_refused_before_a_key_is_read(attest: Attest, folder: Path) -> None:
    (folder / "sealed").mkdir()
    (folder / "model.key").unlink()
    refused = seal(attest)
    assert (refused.code, "already exists" in refused.err, "hint:" in refused.err) == (2, True, True)
    assert seal(attest, "--dry-run").code == 2


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ((), "name the key's source"),
        (("--key-file", "model.key", "--key-fd", "0"), "name the key's source"),
        (("--key-file", "short.key"), "32 bytes, not 16"),
        (("--key-file", "absent.key"), "cannot be read"),
        (("--key-fd", "99"), "--key-fd 99 cannot be read"),
        (("--kms", "https://kms.example"), "--kms and --identity go together"),
        (("--key-file", "model.key", "--kms", "https://kms.example"), "--kms and --identity go together"),
        (("--key-file", "model.key", "--identity", "x"), "verifier key"),
    ],
)
def test_a_key_that_cannot_be_had_is_wrong_usage(
    attest: Attest, folder: Path, more: tuple[str, ...], expected: str
) -> None:
    refused = attest("seal", "model", "sealed", "--key", "model@1", "--signing-key", "owner.pem", *more)
    assert (refused.code, expected in refused.err) == (2, True), refused.err
    assert not (folder / "sealed").exists()


def test_a_key_from_a_file_has_a_version(attest: Attest, folder: Path) -> None:
    refused = seal(attest, "--key", "model")
    assert (refused.code, "--key model@1" in refused.err) == (2, True)


def test_a_key_comes_from_a_descriptor_or_from_standard_input(attest: Attest, folder: Path) -> None:
    descriptor = os.open(folder / "model.key", os.O_RDONLY)
    try:
        made = attest(
            *("seal", "model", "sealed", "--key", "model@1", "--key-fd", descriptor, "--signing-key", "owner.pem")
        )
    finally:
        os.close(descriptor)
    assert made.code == 0, made.err
    back = attest("unseal", "sealed", "plain", "--key-file", "-", "--trust", "owner.pub", "--allow-disk", stdin=KEY)
    assert back.code == 0, back.err


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644])
@pytest.mark.parametrize("name", ["model.key", "owner.pem"])
def test_a_secret_file_that_others_may_use_is_refused(attest: Attest, folder: Path, name: str, mode: int) -> None:
    (folder / name).chmod(mode)
    refused = seal(attest)
    assert refused.code == 2
    assert f"error: the secret in {name} is open to other users (mode {mode:04o})" in refused.err
    assert f"hint: chmod 600 {name}" in refused.err
    assert not (folder / "sealed").exists()
    (folder / name).chmod(0o400)
    assert seal(attest).code == 0


@pytest.mark.parametrize("name", ["owner.pub", "model.key", "absent.pem"])
def test_what_is_no_signing_key_is_wrong_usage(attest: Attest, folder: Path, name: str) -> None:
    refused = seal(attest, "--signing-key", name)
    assert (refused.code, "hint:" in refused.err) == (2, True)
    assert not (folder / "sealed").exists()


def test_a_private_key_is_not_trusted_by_mistake(attest: Attest, folder: Path) -> None:
    seal(attest)
    refused = attest("sealed", "verify", "sealed", "--trust", "owner.pem")
    assert (refused.code, "public key" in refused.err) == (2, True)


def test_who_keeps_the_key_is_written_down_without_asking(attest: Attest, folder: Path) -> None:
    from attest.release.notes import VerifierKey

    identity = VerifierKey(name=IDENTITY, public=bytes(range(32))).text
    made = seal(attest, "--kms", "https://kms.example", "--identity", identity, "--policy-digest", "ab" * 32, "--json")
    assert (made.document["kms"], made.document["kms_url"]) == (identity, "https://kms.example")
    assert made.document["policy_sha256"] == "ab" * 32
    other = VerifierKey(name=IDENTITY, public=bytes(32)).text
    refused = unseal(attest, "--identity", other)
    assert (refused.code, "another service" in refused.err) == (2, True)
    assert unseal(attest, "--identity", identity).code == 0


def test_a_stranger_key_and_a_changed_file_are_exit_4(attest: Attest, folder: Path) -> None:
    seal(attest)
    assert attest("sealed", "verify", "sealed", "--trust", "stranger.pub").code == 4
    assert unseal(attest, "--key-file", "other.key").code == 4
    path = folder / "sealed" / "config.json.sealed"
    path.write_bytes(bytes(path.stat().st_size))
    verified = attest("sealed", "verify", "sealed", "--trust", "owner.pub")
    assert (verified.code, "config.json.sealed is not the file that was signed" in verified.err) == (4, True)
    quick = attest("sealed", "verify", "sealed", "--trust", "owner.pub", "--sizes-only", "--json")
    assert (quick.code, quick.document["digests"]) == (0, "not evaluated")
    assert unseal(attest).code == 4 or unseal(attest).code == 3
    assert not (folder / "plain").exists()


def test_a_pinned_model_is_that_one_or_exit_4(attest: Attest, folder: Path) -> None:
    identity = seal(attest, "--json").document["model"]
    check = ("sealed", "verify", "sealed", "--trust", "owner.pub", "--model-id")
    assert attest(*check, identity).code == 0
    refused = attest(*check, "00" * 16)
    assert (refused.code, "another model" in refused.err) == (4, True)
    assert unseal(attest, "--model-id", "00" * 16).code == 4
    assert unseal(attest, "--model-id", identity, "--verify-digests").code == 0


def test_a_folder_that_is_no_sealed_model_is_said_so(attest: Attest, folder: Path) -> None:
    for command in (("sealed", "info", "model"), ("sealed", "verify", "model", "--trust", "owner.pub")):
        refused = attest(*command)
        assert (refused.code, refused.out) == (6, "")


@pytest.mark.parametrize("target", [".", "/", "", "./", ".."])
def test_a_folder_without_a_name_of_its_own_is_no_target(attest: Attest, folder: Path, target: str) -> None:
    seal(attest)
    for command in (
        ("seal", "model", target, "--key", "model@1", "--signing-key", "owner.pem"),
        ("unseal", "sealed", target, "--trust", "owner.pub", "--allow-disk"),
    ):
        ran = attest(*command, "--key-file", "model.key")
        assert (ran.code, ran.out) == (2, "")


def test_a_model_is_rewrapped_from_within_its_folder(
    attest: Attest, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seal(attest)
    monkeypatch.chdir(folder / "sealed")
    keys = ("--key-file", "../model.key", "--new-key", "model@2", "--new-key-file", "../model.key")
    ran = attest("sealed", "rewrap", ".", *keys, "--signing-key", "../owner.pem", "--trust", "../owner.pub")
    assert ran.code == 0, ran.err
    assert attest("sealed", "verify", ".", "--trust", "../owner.pub").code == 0


def test_a_disk_is_refused_for_plaintext(attest: Attest, folder: Path) -> None:
    if is_memory(folder):
        pytest.skip("temporary files are kept in memory here")
    seal(attest)
    refused = attest("unseal", "sealed", "plain", "--key-file", "model.key", "--trust", "owner.pub")
    assert (refused.code, "/dev/shm" in refused.err, "--allow-disk" in refused.err) == (2, True, True)  # noqa: S108
    assert not (folder / ".plain.unsealing").exists()


def test_links_and_folders_of_git_are_said(attest: Attest, folder: Path) -> None:
    (folder / "model" / "link").symlink_to(folder / "model.key")
    refused = seal(attest)
    assert (refused.code, "'link' is a link" in refused.err, "--follow-symlinks" in refused.err) == (2, True, True)
    (folder / "model" / ".git").mkdir()
    assert ".git is not part of a model" in seal(attest, "--follow-symlinks").err


def test_an_interrupted_run_is_announced_and_goes_on(attest: Attest, folder: Path) -> None:
    from attest.sealed import seal_directory
    from tests.sealed.made import NAMES, stream
    from tests.sealed.test_interrupted import Stopped, stop_after

    with pytest.raises(Stopped):
        seal_directory(
            folder / "model",
            folder / "sealed",
            key=KEY,
            names=NAMES,
            signer=OWNER,
            random=stream(),
            at=None,
            threads=1,
            progress=stop_after(2),
        )
    made = seal(attest, "--json")
    assert (made.code, made.document["kept"]) == (0, 2)
    assert "continuing an interrupted sealing" in made.err


def test_fingerprints_can_be_left_out(attest: Attest, folder: Path) -> None:
    seal(attest, "--no-fingerprints")
    shown = attest("sealed", "info", "sealed", "--json")
    assert all(one["sha256"] is None for one in shown.document["list"])
    assert unseal(attest, "--verify-digests").code == 2


def test_info_says_that_nothing_is_verified_or_verifies(attest: Attest, folder: Path) -> None:
    seal(attest)
    shown = attest("sealed", "info", "sealed", "--json")
    assert (shown.code, shown.document["verified"], "nothing is verified" in shown.err) == (0, False, True)
    first = shown.document["list"][0]
    assert bytes.fromhex(first["associated_data"]).startswith(b"attest sealed v1\0")
    assert bytes.fromhex(first["associated_data"]).endswith(b"\0config.json")
    sure = attest("sealed", "info", "sealed", "--trust", "owner.pub", "--json")
    assert (sure.code, sure.document["verified"], sure.err) == (0, True, "")
    assert attest("sealed", "info", "sealed", "--trust", "stranger.pub").code == 4


def test_the_keyset_opens_the_files_in_tink(attest: Attest, folder: Path) -> None:
    from tink import json_proto_keyset_format, secret_key_access, streaming_aead

    seal(attest)
    made = attest("sealed", "keyset", "sealed", "--trust", "owner.pub", "--key-file", "model.key", "-o", "keyset.json")
    assert (made.code, made.out) == (0, "")
    assert stat.S_IMODE((folder / "keyset.json").stat().st_mode) == 0o600
    streaming_aead.register()
    handle = json_proto_keyset_format.parse((folder / "keyset.json").read_text(), secret_key_access.TOKEN)
    primitive = handle.primitive(streaming_aead.StreamingAead)
    for one in attest("sealed", "info", "sealed", "--json").document["list"]:
        sealed = io.BytesIO((folder / "sealed" / one["sealed"]).read_bytes())
        with primitive.new_decrypting_stream(sealed, bytes.fromhex(one["associated_data"])) as opened:
            assert opened.read() == FILES[one["path"]]
    again = attest("sealed", "keyset", "sealed", "--trust", "owner.pub", "--key-file", "model.key", "-o", "keyset.json")
    assert again.code == 2
    out = attest("sealed", "keyset", "sealed", "--trust", "owner.pub", "--key-file", "model.key", "-o", "-")
    assert out.document["primaryKeyId"] == 1


def test_keys_are_made_and_nothing_is_overwritten(attest: Attest, tmp_path: Path) -> None:
    names = ("--signing-key", "a.pem", "--public-key", "a.pub", "--model-key", "a.key")
    made = attest("sealed", "keygen", *names, "--json")
    assert (made.code, made.document["model_key"]) == (0, "a.key")
    modes = {name: stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("a.pem", "a.key")}
    assert set(modes.values()) == {0o600}
    assert len((tmp_path / "a.key").read_bytes()) == 32
    before = read_files(tmp_path)
    assert attest("sealed", "keygen", *names).code == 2
    assert attest("sealed", "keygen", *names[:-2], "--model-key", "b.key").code == 2
    assert read_files(tmp_path) == before
    write_files(tmp_path / "model", {"x": b"x"})
    sealed = attest(
        *("seal", "model", "sealed", "--key", "m@1", "--key-file", "a.key", "--signing-key", "a.pem", "--quiet")
    )
    assert sealed.code == 0
    assert attest("sealed", "verify", "sealed", "--trust", "a.pub").code == 0


@pytest.mark.parametrize("given", [(), ("--signing-key", "a.pem"), ("--public-key", "a.pub")])
def test_half_a_pair_of_keys_is_wrong_usage(attest: Attest, tmp_path: Path, given: tuple[str, ...]) -> None:
    assert attest("sealed", "keygen", *given).code == 2
    assert list(tmp_path.iterdir()) == []


def rewrap(attest: Attest, *more: object) -> Ran:
    return attest(
        *("sealed", "rewrap", "sealed", "--trust", "owner.pub", "--signing-key", "owner.pem"),
        *("--key-file", "model.key", "--new-key", "model@2"),
        *more,
    )


def test_an_older_model_is_not_put_under_the_key_of_the_newer_one(attest: Attest, folder: Path) -> None:
    seal(attest)
    before = read_files(folder / "sealed")
    refused = rewrap(attest, "--new-key-file", "other.key", "--model-id", bytes(16).hex())
    assert (refused.code, "another model" in refused.err, read_files(folder / "sealed")) == (4, True, before)
    own = json.loads(before["sealed.json"])["model"]
    assert rewrap(attest, "--new-key-file", "other.key", "--model-id", own).code == 0


def test_a_model_is_put_under_another_key(attest: Attest, folder: Path) -> None:
    seal(attest, "--creator", "Alice")
    before = read_files(folder / "sealed")
    made = rewrap(attest, "--new-key-file", "other.key", "--json")
    assert made.code == 0, made.err
    assert (made.document["key_before"], made.document["key"], made.document["creator"]) == (
        "model@1",
        "model@2",
        "Alice",
    )
    after = read_files(folder / "sealed")
    assert {name for name in after if after[name] != before[name]} == {"sealed.json", "model.sig"}
    assert unseal(attest).code == 4
    assert unseal(attest, "--key-file", "other.key").code == 0


def test_a_rewrapping_without_a_new_key_is_wrong_usage(attest: Attest, folder: Path) -> None:
    seal(attest)
    assert rewrap(attest).code == 2
    assert rewrap(attest, "--new-key-file", "short.key").code == 2
    open_directory(folder / "sealed", key=KEY, trusted=(OWNER.public_key(),)).close()


def test_a_signature_over_the_plaintext_is_demanded(attest: Attest, folder: Path) -> None:
    seal(attest)
    refused = unseal(attest, "--verify-plaintext-key", "stranger.pub")
    assert refused.code == 6
    assert not (folder / "plain").exists()


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (90_900_000, "90.9 MB"),
        (3e11, "300.0 GB"),
        (2e12, "2.0 TB"),
    ],
)
def test_a_number_of_bytes_is_written_for_people(count: float, text: str) -> None:
    assert byte_count(count) == text


def test_progress_is_two_lines_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with shown_progress("sealing", 100_000_000) as tell:
        tell("a", 60_000_000)
        tell("b", 40_000_000)
    said = capsys.readouterr()
    assert said.out == ""
    first, last = said.err.splitlines()
    assert first == "sealing 100.0 MB"
    assert last.startswith("sealing: 100.0 MB in ")
    assert last.endswith("/s")
    for total, quiet in ((1000, False), (100_000_000, True)):
        with shown_progress("sealing", total, quiet=quiet) as tell:
            tell("a", total)
        assert capsys.readouterr().err == ""
    with shown_progress("wrapping anew", 3, unit="keys") as tell:
        tell("a", 3)
    first, last = capsys.readouterr().err.splitlines()
    assert first == "wrapping anew 3 keys"
    assert last.startswith("wrapping anew: 3 keys in ")


def test_progress_is_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    with shown_progress("unsealing", 1000) as tell:
        tell("a", 1000)
    drawn, cleared = screen.getvalue()[:-4], screen.getvalue()[-4:]
    assert drawn.startswith("\r\x1b[K[########################] unsealing 1.0 kB of 1.0 kB, ")
    assert drawn.endswith("/s")
    assert cleared == "\r\x1b[K"
    screen.truncate(0)
    seconds = iter((0.0, 0.01, 2.0, 2.0, 2.0))  # began, too soon to draw again, drawn with its rate and what is left
    with shown_progress("unsealing", 4_000_000, clock=seconds.__next__) as tell:
        tell("a", 1_000_000)
        tell("b", 1_000_000)
    lines = screen.getvalue().split("\r\x1b[K")
    assert lines[1:] == ["[############............] unsealing 2.0 MB of 4.0 MB, 1.0 MB/s, 0:02 left", ""]
    monkeypatch.setenv("TERM", "dumb")
    screen.truncate(0)
    with shown_progress("unsealing", 1000) as tell:
        tell("a", 1000)
    assert screen.getvalue() == ""


def test_every_document_names_its_schema(attest: Attest, folder: Path) -> None:
    seen = {
        json.loads(ran.out)["schema"]
        for ran in (
            seal(attest, "--json"),
            unseal(attest, "--json"),
            attest("sealed", "info", "sealed", "--json"),
            attest("sealed", "verify", "sealed", "--trust", "owner.pub", "--json"),
            rewrap(attest, "--new-key-file", "other.key", "--json"),
        )
    }
    assert seen == {
        "attest.sealed-model/1",
        "attest.unsealed-model/1",
        "attest.sealed-info/1",
        "attest.sealed-verification/1",
        "attest.sealed-rewrapped/1",
    }
