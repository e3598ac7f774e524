"""A key-encryption key in a PKCS#11 token: it never leaves, and the token may go away and come back."""

import os
import threading
from pathlib import Path

import pytest

from attest.errors import ConfigurationError
from kms.domain.errors import UnavailableError
from kms.keys.wrapping import backends
from kms.keys.wrapping.backend import SingleKek
from kms.keys.wrapping.backends import create_backend, open_backend
from kms.keys.wrapping.definitions import definition_of
from kms.keys.wrapping.tokens import library_at
from tests.kms.softhsm import PIN, SoftHsm, find_module
from tests.kms.support import FakeRandom, Harness, Workload
from tests.kms.test_wrapping import CONTEXT, SECRET
from tests.kms.wrapping import definition, flattened, made


@pytest.fixture
def hsm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SoftHsm:
    return SoftHsm(tmp_path, monkeypatch)


@pytest.fixture
def kek(hsm: SoftHsm) -> SingleKek:
    return made(hsm)[0]


def refused_code(kek: SingleKek) -> str:
    with pytest.raises(UnavailableError) as caught:
        kek.wrap(SECRET, context=CONTEXT)
    assert caught.value.retryable
    return caught.value.code


def attributes(key: str) -> dict[str, object]:
    """What the token says of a key, by a session of its own."""
    from pkcs11 import Attribute, ObjectClass
    from pkcs11.exceptions import AttributeSensitive

    module = find_module()
    assert module is not None
    library = library_at(module)
    with library.exclusive():
        session = library.token("kms").open()
        found = session.get_key(object_class=ObjectClass.SECRET_KEY, label=key)
        with pytest.raises(AttributeSensitive):
            _ = found[Attribute.VALUE]
        names = ("SENSITIVE", "ALWAYS_SENSITIVE", "EXTRACTABLE", "NEVER_EXTRACTABLE", "PRIVATE", "WRAP", "DERIVE")
        return {name: found[Attribute[name]] for name in names}


def test_mc_27_a_key_that_is_made_never_leaves_the_token(kek: SingleKek) -> None:
    assert kek.id
    assert attributes("kek") == {
        "SENSITIVE": True,
        "ALWAYS_SENSITIVE": True,
        "EXTRACTABLE": False,
        "NEVER_EXTRACTABLE": True,
        "PRIVATE": True,
        "WRAP": False,
        "DERIVE": False,
    }


def test_mc_31_a_key_that_is_there_is_used_and_not_replaced(hsm: SoftHsm, kek: SingleKek) -> None:
    wrapped = kek.wrap(SECRET, context=CONTEXT)
    create_backend(definition(hsm), random=FakeRandom("again"))
    assert kek.unwrap(wrapped, context=CONTEXT) == SECRET


@pytest.mark.parametrize(
    "change", [{"EXTRACTABLE": True}, {"SENSITIVE": False, "EXTRACTABLE": True}, {"DECRYPT": False}, {"VALUE_LEN": 16}]
)
def test_a_key_that_could_leave_or_is_of_another_kind_is_refused(hsm: SoftHsm, change: dict[str, object]) -> None:
    from pkcs11 import Attribute, KeyType, MechanismFlag

    module = find_module()
    assert module is not None
    library = library_at(module)
    length = change.get("VALUE_LEN", 32)
    assert isinstance(length, int)
    rest = {Attribute[name]: value for name, value in change.items() if name != "VALUE_LEN"}
    template = {Attribute.SENSITIVE: True, Attribute.EXTRACTABLE: False} | rest
    with library.exclusive():
        library.restart()
        session = library.token("kms").open(rw=True, user_pin=PIN)
        flags = MechanismFlag.ENCRYPT | MechanismFlag.DECRYPT
        session.generate_key(KeyType.AES, length * 8, label="kek", store=True, capabilities=flags, template=template)
        session.close()
    for make in (create_backend, open_backend):
        with pytest.raises(ConfigurationError) as caught:
            make(definition(hsm), random=FakeRandom())
        assert caught.value.code == "kek-unfit"


def test_a_token_that_goes_away_is_unavailable_and_comes_back_without_a_restart(hsm: SoftHsm, tmp_path: Path) -> None:
    (tmp_path / "service").mkdir()
    harness = Harness.make(tmp_path / "service", **flattened(hsm.settings()))
    harness.add_key("model")
    workload, challenge = Workload(), harness.releases.challenge()
    request = workload.request(challenge, "model")
    hsm.go_away()
    for _ in range(2):
        with pytest.raises(UnavailableError) as caught:
            harness.releases.release(request)
        assert caught.value.code == "kek-unavailable"
        assert caught.value.retryable
        assert str(hsm.folder) not in str(caught.value.context())
    with pytest.raises(UnavailableError):
        harness.add_key("another")
    assert harness.decisions() == []
    with harness.services.store.writing():  # nobody holds it, and nothing of it was left behind
        pass
    hsm.come_back()
    assert harness.releases.release(request).keys  # the same challenge: nothing was used up
    harness.close()


def test_a_token_of_the_same_name_with_another_key_is_told_from_the_one_before(hsm: SoftHsm, kek: SingleKek) -> None:
    wrapped = kek.wrap(SECRET, context=CONTEXT)
    hsm.go_away()
    hsm.make_token("kms")
    create_backend(definition(hsm), random=FakeRandom("impostor"))
    assert refused_code(kek) == "kek-replaced"
    with pytest.raises(UnavailableError) as caught:
        kek.unwrap(wrapped, context=CONTEXT)
    assert caught.value.code == "kek-replaced"
    hsm.come_back()
    library_at(hsm_module()).restart()
    assert kek.unwrap(wrapped, context=CONTEXT) == SECRET


def hsm_module() -> Path:
    module = find_module()
    assert module is not None
    return module


def test_a_wrong_pin_is_tried_once_and_not_until_the_token_locks(hsm: SoftHsm, kek: SingleKek) -> None:
    hsm.write_pin("0000-wrong")
    library_at(hsm_module()).restart()
    assert [refused_code(kek) for _ in range(30)] == ["kek-refused"] * 30
    hsm.write_pin(PIN)
    kek.wrap(SECRET, context=CONTEXT)


def test_a_key_that_is_not_in_the_token_is_unavailable(hsm: SoftHsm, kek: SingleKek) -> None:
    for name, token in (("none", "kms"), ("kek", "none")):
        members = hsm.settings(name, token=token)
        with pytest.raises(UnavailableError) as caught:
            open_backend(definition_of(members, source="a test"), random=FakeRandom())
        assert caught.value.code == "kek-unavailable"
    kek.wrap(SECRET, context=CONTEXT)


def test_a_file_that_is_no_library_is_refused(hsm: SoftHsm, tmp_path: Path) -> None:
    for module in (tmp_path / "none.so", hsm.pin_file):
        members = hsm.settings() | {"module": module}
        with pytest.raises(ConfigurationError) as caught:
            open_backend(definition_of(members, source="a test"), random=FakeRandom())
        assert caught.value.code == "kek-library-unusable"


@pytest.mark.parametrize("content", [b"", b"\n", b"a b\n", b"a\nb\n", b"\xff\n", b"a" * 5000])
def test_mc_33_a_pin_that_is_no_line_is_refused_and_not_shown(hsm: SoftHsm, content: bytes) -> None:
    hsm.pin_file.write_bytes(content)
    with pytest.raises(ConfigurationError) as caught:
        open_backend(definition(hsm), random=FakeRandom())
    assert caught.value.code == "kek-credential-unusable"


def test_mc_34_a_pin_that_others_may_read_or_that_is_missing_is_refused(hsm: SoftHsm) -> None:
    hsm.pin_file.chmod(0o640)
    with pytest.raises(ConfigurationError) as caught:
        open_backend(definition(hsm), random=FakeRandom())
    assert caught.value.code == "kek-credential-exposed"
    assert PIN not in str(caught.value.context())
    hsm.pin_file.unlink()
    with pytest.raises(ConfigurationError) as caught:
        open_backend(definition(hsm), random=FakeRandom())
    assert caught.value.code == "kek-credential-missing"


def test_many_threads_and_two_keys_share_the_library(hsm: SoftHsm, kek: SingleKek) -> None:
    other, _ = made(hsm, "other")
    hsm.make_token("second")
    failures: list[object] = []

    def work(one: SingleKek) -> None:
        came = [one.unwrap(one.wrap(SECRET, context=CONTEXT), context=CONTEXT) for _ in range(20)]
        failures.extend(secret for secret in came if secret != SECRET)

    threads = [threading.Thread(target=work, args=(one,)) for one in (kek, other, kek, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_library_that_hangs_does_not_take_every_thread_with_it(
    kek: SingleKek, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kms.keys.wrapping.tokens.PATIENCE_SECONDS", 0.05)
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with library_at(hsm_module()).exclusive():
            held.set()
            done.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(60)
    assert refused_code(kek) == "kek-unavailable"
    done.set()
    holder.join()
    kek.wrap(SECRET, context=CONTEXT)


def test_a_process_that_was_forked_logs_in_for_itself(kek: SingleKek) -> None:
    wrapped = kek.wrap(SECRET, context=CONTEXT)
    child = os.fork()
    if child == 0:
        try:
            code = 0 if kek.unwrap(wrapped, context=CONTEXT) == SECRET else 1
        except BaseException:  # noqa: BLE001  a child of a test ends here, whatever happens
            code = 2
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert kek.unwrap(wrapped, context=CONTEXT) == SECRET


@pytest.mark.parametrize("backend", ["pkcs11", "transit"])
def test_a_missing_package_is_told_with_what_to_install(
    backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, f"kms.keys.wrapping.{backend}", None)
    members: dict[str, object] = {
        "pkcs11": {"module": tmp_path / "m", "token": "t", "key": "k", "pin_file": tmp_path / "p"},
        "transit": {"url": "https://kms.test", "key": "k", "token_file": tmp_path / "t"},
    }[backend]
    with pytest.raises(ConfigurationError) as caught:
        backends.open_backend(definition_of({"backend": backend, **members}, source="a test"), random=FakeRandom())
    assert caught.value.code == "kek-extra-missing"
    assert f"attest-kms[{backend}]" in (caught.value.hint or "")
