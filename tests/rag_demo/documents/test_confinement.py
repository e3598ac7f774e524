"""A reader that a document has taken over gets nowhere, and nothing that it says is believed."""

import errno
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rag_demo.enclave.documents import (
    DocumentError,
    DocumentKind,
    DocumentLimitError,
    DocumentLimits,
    DocumentReaderError,
    Reading,
    parse,
)
from rag_demo.enclave.documents.child import Child, command
from rag_demo.enclave.documents.seccomp import MACHINES, program

HOSTILE = Path(__file__).with_name("hostile_reader.py")
ROOT = Path(__file__).resolve().parents[3]
UNBELIEVABLE = """
    garbage kind characters long again utf-8 control bidi count more total totals total-late total-large beyond
    fewer number pages problem problem-text problem-list problem-reason problem-hashless problem-what
    problem-number problem-deep
"""


def hostile(
    attempt: str,
    *more: str,
    unconfined: str | None = None,
    limits: DocumentLimits | None = None,
    promised: DocumentKind = DocumentKind.TEXT,
) -> Reading:
    """Start a reader that tries something, as ``parse`` starts the real one."""
    allowed = limits or DocumentLimits()
    order = command(limits=allowed, promised=DocumentKind.TEXT, size=len(attempt), unconfined=unconfined)
    document = attempt.encode()
    child = Child(
        [sys.executable, "-I", str(HOSTILE), order[-1], *more],
        source=lambda offset, count: document[offset : offset + count],
        size=len(document),
        limits=allowed,
    )
    return Reading(child, name="a.txt", promised=promised, limits=allowed)


def refusal(attempt: str, limits: DocumentLimits | None = None) -> DocumentError:
    with hostile(attempt, limits=limits) as reading, pytest.raises(DocumentError) as caught:
        list(reading)
    return caught.value


@pytest.mark.parametrize(
    "attempt",
    ["read", "write", "list", "stat", "unlink", "executable-memory", "pipe", "dup", "dumpable", "write-input"],
)
def test_a_reader_is_refused_files_descriptors_and_code(attempt: str) -> None:
    with hostile(attempt) as reading:
        assert [page.text for page in reading] == [f"refused {errno.EPERM}"]


def test_a_reader_has_no_descriptor_but_its_two_pipes() -> None:
    with hostile("inherited") as reading:
        (page,) = reading
    assert page.text in {f"refused {errno.EPERM}", f"refused {errno.EBADF}"}


@pytest.mark.parametrize(
    "attempt",
    ["socket", "unix-socket", "fork", "exec", "kill", "signal-thread", "ptrace", "other-memory"]
    + (["x32"] if os.uname().machine == "x86_64" else []),
)
def test_a_reader_that_tries_what_none_needs_is_ended(attempt: str) -> None:
    error = refusal(attempt)
    assert error.code == "document-reader-forbidden-call"
    assert not isinstance(error, DocumentReaderError)  # trying again would not help


def test_the_same_attempts_succeed_where_nothing_is_confined() -> None:
    # Or the tests above would prove nothing.
    assert os.uname().machine in MACHINES
    os.close(os.open("/etc/passwd", os.O_RDONLY))
    os.kill(os.getppid(), 0)
    os.close(os.dup(1))


def test_a_reader_that_computes_for_ever_is_ended_by_its_processor_time() -> None:
    error = refusal("hang", limits=DocumentLimits(cpu_seconds=1))
    assert isinstance(error, DocumentLimitError)
    assert (error.code, error.field) == ("document-limit", "cpu_seconds")


def test_a_reader_that_waits_for_ever_is_ended_by_the_clock() -> None:
    begun = time.monotonic()
    with hostile("wait", limits=DocumentLimits(seconds=0.5)) as reading, pytest.raises(DocumentLimitError) as caught:
        list(reading)
    assert caught.value.field == "seconds"
    assert time.monotonic() - begun < 60
    assert reading._child._process.returncode == -signal.SIGKILL  # noqa: SLF001  not left behind


def test_a_reader_that_takes_all_memory_is_refused_it() -> None:
    error = refusal("grow", limits=DocumentLimits(memory_bytes=128 << 20))
    assert (error.code, error.field) == ("document-limit", "memory_bytes")


@pytest.mark.parametrize(("attempt", "name"), [("crash", "SIGSEGV"), ("abort", "SIGABRT"), ("exit", "exit code 0")])
def test_a_reader_that_dies_is_told_of(attempt: str, name: str) -> None:
    error = refusal(attempt)
    assert (error.code, error.got) == ("document-reader-crashed", name)


def test_an_error_of_a_reader_is_told_by_its_kind_alone() -> None:
    error = refusal("raise")
    assert (error.code, error.got) == ("document-reader-defect", "ZeroDivisionError")
    assert refusal("deep").field == "nesting"


@pytest.mark.parametrize("attempt", [f"raw-{kind}" for kind in UNBELIEVABLE.split()])
def test_nothing_that_cannot_be_is_believed(attempt: str) -> None:
    limits = DocumentLimits(max_pages=100, max_characters=1_000_000)
    assert refusal(attempt, limits=limits).code == "document-reader-misbehaved"


def test_a_reader_that_says_another_kind_than_was_promised_is_not_believed() -> None:
    with hostile("dup", promised=DocumentKind.PDF) as reading, pytest.raises(DocumentError) as caught:
        list(reading)
    assert caught.value.code == "document-reader-misbehaved"


@pytest.mark.parametrize("attempt", ["raw-cut", "raw-empty"])
def test_a_reader_that_ends_before_its_last_word_is_told_of(attempt: str) -> None:
    assert refusal(attempt).code == "document-reader-crashed"


def test_time_that_the_taker_of_pages_needs_does_not_count() -> None:
    with parse(
        b"one\x0ctwo\x0cthree", name="a.txt", limits=DocumentLimits(seconds=6.0)
    ) as reading:  # a busy machine starts it late
        made = []
        for page in reading:
            made.append(page.text)
            time.sleep(2.1)
    assert made == ["one", "two", "three"]


def test_a_process_that_cannot_be_started_is_an_error_of_the_operators() -> None:
    with pytest.raises(DocumentReaderError) as caught:
        Child(["/nowhere/python"], source=lambda _offset, _count: b"", size=1, limits=DocumentLimits())
    assert caught.value.code == "document-reader-unavailable"


def test_a_library_that_is_missing_is_an_error_of_the_operators() -> None:
    with hostile("dup", "without-library") as reading, pytest.raises(DocumentReaderError) as caught:
        list(reading)
    assert (caught.value.code, caught.value.got) == ("document-reader-unavailable", "a_module_that_is_not_there")


def test_reading_unconfined_needs_a_reason() -> None:
    with pytest.raises(ValueError, match="reason"):
        parse(b"x", name="a.txt", unconfined=" ")
    with parse(b"x", name="a.txt", unconfined="a test of what is said") as reading:
        assert [page.text for page in reading] == ["x"]


def test_a_process_that_reads_has_given_up_all_that_it_should() -> None:
    # A document that is longer than its pipe holds: the process waits for us in the middle of it.
    document = b"\x0c".join(b"page of words " * 100 for _ in range(300))
    with parse(document, name="a.txt", limits=DocumentLimits(memory_bytes=300 << 20, cpu_seconds=17)) as reading:
        next(reading)
        place = Path("/proc", str(reading._child._process.pid))  # noqa: SLF001  the kernel's word on it
        status = dict(line.split(":\t", 1) for line in (place / "status").read_text().splitlines() if ":\t" in line)
        limits = {line[:26].strip(): line[26:].split()[:2] for line in (place / "limits").read_text().splitlines()[1:]}
        assert (status["Seccomp"], status["NoNewPrivs"], int(status["Threads"])) == ("2", "1", 1)
        assert {int(status[name], 16) for name in ("CapEff", "CapPrm", "CapInh", "CapAmb")} == {0}
        assert limits["Max address space"] == [str(300 << 20)] * 2
        assert limits["Max cpu time"] == ["17", "18"]
        assert limits["Max open files"] == ["2", "2"]
        for name in ("Max file size", "Max processes", "Max core file size"):
            assert limits[name] == ["0", "0"], name
        assert (place / "oom_score_adj").read_text() == "1000\n"
        if os.geteuid() == 0:  # nobody else may look at a process that gave up being looked at
            assert sorted(one.name for one in (place / "fd").iterdir()) == ["0", "1"]
            assert {str(one.readlink()).split(":")[0] for one in (place / "fd").iterdir()} == {"pipe"}
            assert (place / "environ").read_bytes().strip(b"\0") == b""
            assert str((place / "cwd").readlink()) == "/"
        assert sum(1 for _ in reading) == 299


def test_a_process_that_reads_has_a_network_of_its_own_where_the_kernel_allows_it() -> None:
    unshare = shutil.which("unshare")
    if os.geteuid() != 0 or not unshare or subprocess.run([unshare, "-Un", "true"], check=False).returncode:
        pytest.skip("no namespaces of users here, or no right to look at them")
    with parse(b"page of words \x0c" * 9000, name="a.txt") as reading:
        next(reading)
        place = Path("/proc", str(reading._child._process.pid), "ns")  # noqa: SLF001  as above
        for kind in ("user", "net", "ipc", "uts"):
            assert (place / kind).readlink() != Path("/proc/self/ns", kind).readlink(), kind


def test_where_no_filter_can_be_set_nothing_is_read_without_a_reason() -> None:
    with hostile("dup", "another-machine") as reading, pytest.raises(DocumentReaderError) as caught:
        list(reading)
    assert (caught.value.code, caught.value.got) == (
        "document-reader-unconfined",
        "no seccomp filter for this machine",
    )
    # Limits hold all the same: there is no third descriptor.
    with hostile("dup", "another-machine", unconfined="a test of what is left") as reading:
        assert [page.text for page in reading] == [f"refused {errno.EMFILE}"]


def test_no_other_process_may_look_into_one_that_reads() -> None:
    # The filter forbids even the question, so it is asked without one.
    with hostile("look-at-oneself", "another-machine", unconfined="a test of what is left") as reading:
        assert [page.text for page in reading] == ["done"]


def test_a_reason_takes_nothing_away_where_a_filter_can_be_set() -> None:
    with hostile("dup", unconfined="a test") as reading:
        assert [page.text for page in reading] == [f"refused {errno.EPERM}"]


def test_the_process_that_reads_has_no_key_and_no_library_for_keys_or_networks() -> None:
    script = (
        "import sys; from rag_demo.enclave.documents import worker, confine, detect; "
        "from rag_demo.enclave.documents.readers import docx, html, markdown, pdf, plain; print(*sorted(sys.modules))"
    )
    listed = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, capture_output=True, check=True
    )
    loaded = set(listed.stdout.decode().split())
    assert "pypdfium2" in loaded
    assert {"attest", "kms", "numpy", "cryptography", "httpx", "sqlcipher3", "tokenizers", "ssl"} & loaded == set()


def steps(code: bytes) -> list[tuple[int, int, int, int]]:
    return list(struct.iter_unpack("=HBBI", code))


def decide(code: bytes, *, arch: int, number: int, arguments: tuple[int, ...] = (0, 0, 0)) -> int:
    """Run a filter as the kernel does."""
    words = [number, arch, 0, 0]
    for argument in arguments:
        words += [argument & 0xFFFFFFFF, argument >> 32]
    accumulator, place = 0, 0
    run = steps(code)
    while True:
        operation, yes, no, value = run[place]
        place += 1
        if operation == 0x06:
            return value
        if operation == 0x20:
            accumulator = words[value // 4]
            continue
        holds = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}[operation]
        place += yes if holds else no


ALLOW, KILL, EPERM = 0x7FFF0000, 0x80000000, 0x00050000 | errno.EPERM


@pytest.mark.parametrize("name", MACHINES)
def test_the_filter_allows_what_is_listed_and_nothing_else_on_either_machine(name: str) -> None:
    machine = MACHINES[name]
    code = program(machine, 1234)
    special = {machine.write, machine.tgkill, *machine.mapping}
    for number in range(600):
        answer = decide(code, arch=machine.arch, number=number)
        if number in machine.allowed:
            assert answer == ALLOW
        elif number in machine.ending:
            assert answer == KILL
        elif number not in special:
            assert answer == EPERM
    for other in (0, *(one.arch for one in MACHINES.values() if one is not machine)):
        assert decide(code, arch=other, number=machine.allowed[0]) == KILL
    assert decide(code, arch=machine.arch, number=0x40000000 | machine.allowed[0]) == KILL


@pytest.mark.parametrize("name", MACHINES)
def test_the_filter_looks_at_arguments(name: str) -> None:
    machine = MACHINES[name]
    code = program(machine, 1234)

    def answer(number: int, *arguments: int) -> int:
        return decide(code, arch=machine.arch, number=number, arguments=arguments)

    assert answer(machine.write, 1) == ALLOW
    assert {answer(machine.write, descriptor) for descriptor in (0, 2, 3, 0xFFFFFFFF)} == {EPERM}
    assert answer(machine.tgkill, 1234) == ALLOW
    assert answer(machine.tgkill, 1) == KILL
    for mapping in machine.mapping:
        assert {answer(mapping, 0, 0, protection) for protection in (0, 1, 2, 3)} == {ALLOW}
        assert {answer(mapping, 0, 0, protection) for protection in (4, 5, 7, 1 << 32 | 7)} == {EPERM}


def test_no_call_is_both_allowed_and_ending_and_the_lists_are_of_one_length() -> None:
    for machine in MACHINES.values():
        every = [*machine.allowed, *machine.ending, machine.write, machine.tgkill, *machine.mapping]
        assert len(every) == len(set(every))
    assert len({len(machine.allowed) for machine in MACHINES.values()}) == 1
