"""One process for each Rego policy, one for each question: each that fails refuses its question and no other."""

import asyncio
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from attest.encoding import JsonValue
from attest.rego import RegoLimits, RegoOutcome, also_refuses, read_rego_policy
from attest.rego.compiled_form import CompiledForm
from attest.rego.zygote_pool import MAX_ZYGOTES, POOL, ZygotePool
from attest.rego.zygotes import CompiledFor, EngineRefusedError, Zygote
from tests.rego.fake_engines import answering, put, put_zygote

pytest.importorskip("regopy", reason="needs the extra 'rego'")

SLOW = "x := numbers.range(1, 9000)[_]; y := numbers.range(1, 9000)[_]; z := numbers.range(1, 9000)[_]; x + y + z == 0"
HUGE = "count([1 | x := numbers.range(1, 100000)[_]; y := numbers.range(1, 100000)[_]]) == 7"
LONG = RegoLimits(seconds=60)


@pytest.fixture(autouse=True)
def _no_processes_before() -> Iterator[None]:
    POOL.close()
    yield
    POOL.close()


def judged(body: str, document: Any = None, **options: Any) -> RegoOutcome:  # noqa: ANN401  wrong types too
    """Ask a resource policy with this body."""
    policy = read_rego_policy(f"package policy\ndefault allow = false\nallow {{ {body} }}\n".encode())
    return also_refuses(policy, {"a": 5} if document is None else document, **options)


def zygotes() -> list[int]:
    """Return the processes of the pool."""
    return list(POOL.processes)


def children_of(pid: int) -> list[int]:
    """Return the children of a process."""
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def eventually(condition: Callable[[], bool]) -> bool:
    """Wait up to ten seconds for a condition."""
    end = time.monotonic() + 10
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def is_running(pid: int) -> bool:
    """Return whether a process exists and has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def under_way(body: str = SLOW) -> tuple[threading.Thread, list[RegoOutcome], int, int]:
    """Ask a slow question in a thread; return it, its outcome to be, the zygote, and the process of the question."""
    found: list[RegoOutcome] = []
    limits = RegoLimits(seconds=30, cpu_seconds=30, memory=1 << 30)
    thread = threading.Thread(target=lambda: found.append(judged(body, limits=limits)))
    thread.start()
    assert eventually(lambda: bool(zygotes()) and bool(children_of(zygotes()[0])))
    (zygote,) = zygotes()
    return thread, found, zygote, children_of(zygote)[0]


def test_the_second_question_starts_no_process() -> None:
    assert not judged("input.a == 5").refused
    before = zygotes()
    assert judged("input.a == 5", {"a": 6}).refused
    assert zygotes() == before
    assert len(before) == 1


def test_every_question_has_a_process_of_its_own_that_ends() -> None:
    assert not judged("input.a == 5").refused
    (zygote,) = zygotes()
    assert eventually(lambda: not children_of(zygote))
    assert is_running(zygote)


def test_no_question_sees_another() -> None:
    with ThreadPoolExecutor(8) as threads:
        asked = [(number, number % 3 == 0) for number in range(60)]
        body = 'data.n == input.a; input.b == sprintf("%d", [input.a]); data.good'
        given = threads.map(
            lambda one: (
                judged(body, {"a": one[0], "b": str(one[0])}, data={"n": one[0], "good": one[1]}, limits=LONG).refused
            ),
            asked,
        )
        assert list(given) == [not good for _, good in asked]
    assert len(zygotes()) == 1


def test_questions_of_an_event_loop_are_answered_side_by_side() -> None:
    async def ask_all() -> list[RegoOutcome]:
        return await asyncio.gather(
            *(asyncio.to_thread(judged, "input.a == 5", {"a": number}, limits=LONG) for number in range(12))
        )

    assert [not one.refused for one in asyncio.run(ask_all())] == [number == 5 for number in range(12)]
    assert len(zygotes()) == 1


def _ask_in_a_copy(into: Any) -> None:  # noqa: ANN401  a queue
    into.put((POOL.processes == (), judged("input.a == 5").refused, judged("input.a == 6").refused))


def test_a_forked_copy_of_the_owner_has_processes_of_its_own() -> None:
    assert not judged("input.a == 5").refused
    (zygote,) = zygotes()
    context = multiprocessing.get_context("fork")
    into = context.Queue()
    copy = context.Process(target=_ask_in_a_copy, args=(into,))
    copy.start()
    assert into.get(timeout=60) == (True, False, True)
    copy.join(60)
    assert is_running(zygote)
    assert not judged("input.a == 5").refused
    assert zygotes() == [zygote]


def test_the_number_of_processes_is_bounded_and_the_least_recently_used_ends() -> None:
    pool = ZygotePool(limit=2)

    def ask(number: int) -> int:
        compiled = CompiledFor(modules=(f"package policy\nallow := {number}",), rules=("allow",), data={}, names=())
        assert pool.ask(compiled, {"input": '{"a": 1}', "data": {}}, LONG) == {"allow": number}
        return pool.processes[-1]

    first, second = ask(1), ask(2)
    assert ask(1) == first
    third = ask(3)
    assert [is_running(pid) for pid in (first, second, third)] == [True, False, True]
    pool.close()
    assert not any(is_running(pid) for pid in (first, second, third))
    assert MAX_ZYGOTES == 8


def test_a_process_in_use_does_not_end_for_another_policy() -> None:
    pool = ZygotePool(limit=1)
    limits = RegoLimits(seconds=0.5)
    one, two = (
        CompiledFor(modules=(f"package policy\nallow := {number}",), rules=("allow",), data={}, names=())
        for number in (1, 2)
    )
    with pool.place(one.key, time.monotonic() + 1), pytest.raises(EngineRefusedError, match="at a time"):
        pool.ask(two, {"input": '{"a": 1}', "data": {}}, limits)
    assert pool.ask(two, {"input": '{"a": 1}', "data": {}}, LONG) == {"allow": 2}
    pool.close()


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_a_question_whose_process_dies_is_refused_and_the_next_is_answered(end: signal.Signals) -> None:
    thread, found, zygote, question = under_way()
    os.kill(question, end)
    thread.join(20)
    assert found[0].refused
    assert zygotes() == [zygote]
    assert "engine" in judged(SLOW, limits=RegoLimits(seconds=0.3)).reason


def test_a_zygote_that_dies_is_started_again_for_its_question() -> None:
    assert not judged("input.a == 5").refused
    (zygote,) = zygotes()
    os.kill(zygote, signal.SIGKILL)
    assert not judged("input.a == 5").refused
    assert zygotes() != [zygote]


def test_a_zygote_that_another_thread_has_ended_is_started_again() -> None:
    pool = ZygotePool()
    compiled = CompiledFor(modules=("package policy\nallow := 1",), rules=("allow",), data={}, names=())
    question: dict[str, JsonValue] = {"input": "{}", "data": {}}
    assert pool.ask(compiled, question, LONG) == {"allow": 1}
    first = pool.processes
    with pool.place(compiled.key, time.monotonic() + 60) as place:
        assert place.zygote is not None
        place.zygote.end(kill=True)
    assert pool.ask(compiled, question, LONG) == {"allow": 1}
    assert pool.processes != first
    pool.close()


def test_a_zygote_that_dies_under_a_question_takes_its_process_along() -> None:
    thread, _, zygote, question = under_way()
    os.kill(zygote, signal.SIGKILL)
    assert eventually(lambda: not is_running(question))
    assert eventually(lambda: zygotes() != [zygote] and bool(zygotes()) and bool(children_of(zygotes()[0])))
    os.kill(children_of(zygotes()[0])[0], signal.SIGKILL)
    thread.join(20)


def test_a_zygote_that_always_dies_is_started_twice_and_then_refuses(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    put_zygote(monkeypatch, tmp_path, question=f"open({str(tmp_path / 'asked')!r}, 'a').write('x'); os._exit(1)")
    assert judged("input.a == 5").reason == "the engine's process ended twice"
    assert (tmp_path / "asked").read_text() == "xx"


def test_a_zygote_that_hangs_is_ended_and_its_question_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    put_zygote(monkeypatch, tmp_path, question="time.sleep(60)")
    started = time.monotonic()
    assert judged("input.a == 5", limits=RegoLimits(seconds=0.5)).refused
    assert time.monotonic() - started < 10
    assert zygotes() == []


def test_a_process_that_dies_at_its_start_is_a_refusal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    put(monkeypatch, tmp_path, "#!/bin/sh\nexit 3\n")
    assert judged("input.a == 5").reason == "the engine crashed: it ended with 3"


def test_a_process_that_hangs_at_its_start_is_a_refusal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    put(monkeypatch, tmp_path, "#!/bin/sh\nexec sleep 60\n")
    assert judged("input.a == 5", limits=RegoLimits(seconds=0.3)).reason == "the engine did not end within 0.3 s"


def test_a_process_that_cannot_be_started_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    assert "cannot be started" in judged("input.a == 5").reason


def test_a_process_without_the_engine_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # -S leaves out the folders that extras are installed to.
    put(monkeypatch, tmp_path, f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    assert "not installed" in judged("input.a == 5").reason


@pytest.mark.parametrize("ready", [b"x", b"[]", b"{}", b'{"ready": 1}', b'{"error": 1}', b"\xff"])
def test_a_process_that_is_ready_in_another_way_is_a_refusal(
    ready: bytes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    put_zygote(monkeypatch, tmp_path, ready=ready)
    assert judged("input.a == 5").refused


@pytest.mark.parametrize(
    "told",
    ["", "[]", "{}", "null", '{"error": 1}', '{"results": []}', '{"results": {}, "error": ""}', '{"results": {}}'],
)
def test_an_answer_of_another_shape_is_a_refusal(told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_zygote(monkeypatch, tmp_path, question=answering(told.encode()))
    assert judged("input.a == 5").refused


def test_an_answer_beside_an_exit_code_is_a_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = b'{"results": {"allow": true}}'
    put_zygote(monkeypatch, tmp_path, question=answering(good))
    assert not judged("input.a == 5").refused
    put_zygote(monkeypatch, tmp_path, question=answering(good, code=1))
    assert judged("input.a == 5").reason == "the engine crashed: it ended with 1"


def test_an_answer_that_is_too_long_is_a_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_zygote(monkeypatch, tmp_path, question=answering(b" " * 65_537))
    assert judged("input.a == 5").reason == "the answer is too long"


@pytest.mark.parametrize("written", [b"", b"[]", b"{}", b"\xff", bytes((8 << 20) + 1)], ids=len)
def test_a_policy_document_that_is_none_is_a_refusal(written: bytes) -> None:
    compiled = CompiledFor(modules=(), rules=(), data={}, names=())
    compiled.__dict__["written"] = written
    with pytest.raises(EngineRefusedError):
        Zygote(compiled, LONG, time.monotonic() + 20)


@pytest.mark.parametrize(
    "question",
    [
        [],
        {},
        {"input": "{}"},
        {"data": {}},
        {"input": 1, "data": {}},
        {"input": "{", "data": {"n": 1}},
        {"input": "x" * (4 << 20)},
    ],
)
def test_a_question_that_is_none_is_a_refusal_and_the_next_is_answered(question: Any) -> None:  # noqa: ANN401
    pool = ZygotePool()
    compiled = CompiledFor(modules=("package policy\nallow := input.a",), rules=("allow",), data={}, names=("n",))
    with pytest.raises(EngineRefusedError):
        pool.ask(compiled, question, LONG)
    assert pool.ask(compiled, {"input": '{"a": 7}', "data": {"n": 1}}, LONG) == {"allow": 7}
    pool.close()


def test_a_policy_that_loops_refuses_its_question_and_only_that() -> None:
    body = f"input.b; {SLOW}"
    limits = RegoLimits(seconds=20, cpu_seconds=1, memory=1 << 30)
    assert "processor time" in judged(body, {"a": 1, "b": True}, limits=limits).reason
    (zygote,) = zygotes()
    assert "undefined, or false" in judged(body, {"a": 1}, limits=limits).reason or judged(body, {"a": 1}).refused
    assert zygotes() == [zygote]


def test_a_policy_that_takes_much_memory_refuses_its_question_and_only_that() -> None:
    body = f"input.b == false; {HUGE}"
    limits = RegoLimits(seconds=60, cpu_seconds=30, memory=128 << 20)
    assert "memory" in judged(body, {"a": 1, "b": False}, limits=limits).reason
    (zygote,) = zygotes()
    assert judged(body, {"a": 1, "b": True}, limits=limits).refused
    assert zygotes() == [zygote]


def test_a_policy_that_prints_changes_no_answer() -> None:
    assert judged('print("{}"); input.a == 5').refused
    assert not judged('x := trace("{}"); input.a == 5').refused or judged('x := trace("{}")').refused


def test_a_policy_gets_at_no_file_and_no_program() -> None:
    for call in (
        "opa.runtime()",
        'http.send({"method": "get", "url": "file:///etc/passwd"})',
        'io.open("/etc/passwd")',
    ):
        assert judged(f"x := {call}; x").refused


INSIDE = """
import json, os, resource, sys
code = {code!r}
import attest.rego.engine as engine
class Probe(engine.CompiledPolicy):
    def results(self, request):
        return {{"allow": eval(code)}}
import attest.rego.worker as worker
worker.CompiledPolicy = Probe
"""


def inside(code: str, monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: ANN401  any value
    """Evaluate an expression in the process of a question, in the place of the policy."""
    from attest.rego import zygotes as module

    start = module.START.replace("main()", INSIDE.format(code=code) + "\nmain()")
    monkeypatch.setattr(module, "START", start)
    POOL.close()
    compiled = CompiledFor(modules=("package policy\nallow := true",), rules=("allow",), data={}, names=())
    try:
        return POOL.ask(compiled, {"input": '{"a": 1}', "data": {}}, LONG)["allow"]
    finally:
        POOL.close()


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("sorted(set(os.environ) - {'LC_CTYPE'})", []),
        ("os.listdir('.')", []),
        ("[n for n in range(3, 64) if os.path.exists(f'/proc/self/fd/{n}')]", []),
        ("[os.readlink(f'/proc/self/fd/{d}') for d in (1, 2)]", ["/dev/null", "/dev/null"]),
        ("list(resource.getrlimit(resource.RLIMIT_CPU))", [5, 5]),
        ("list(resource.getrlimit(resource.RLIMIT_NPROC))", [0, 0]),
        ("list(resource.getrlimit(resource.RLIMIT_CORE))", [0, 0]),
        ("list(resource.getrlimit(resource.RLIMIT_NOFILE))", [64, 64]),
        ("list(resource.getrlimit(resource.RLIMIT_FSIZE))", [16 << 20, 16 << 20]),
        ("open('/proc/self/oom_score_adj').read()", "1000\n"),
        ("[line.split()[1] for line in open('/proc/self/status') if line.startswith('NoNewPrivs')]", ["1"]),
        ("[line.split()[1] for line in open('/proc/self/status') if line.startswith('Threads')]", ["1"]),
        ("os.getsid(0) == os.getppid()", True),
    ],
)
def test_the_process_of_a_question_is_confined(code: str, value: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ANN401
    assert inside(code, monkeypatch) == value


OWNER = """
import os, sys, threading
from attest.encoding import JsonValue
from attest.rego import RegoLimits, also_refuses, read_rego_policy
policy = read_rego_policy(b"package policy\\nallow { %s }")
limits = RegoLimits(seconds=60, cpu_seconds=60, memory=1 << 30)
from attest.rego.zygote_pool import POOL
threading.Thread(target=lambda: also_refuses(policy, {"a": 1}, limits=limits), daemon=True).start()
import time
while not POOL.processes: time.sleep(0.01)
(pid,) = POOL.processes
while not open(f"/proc/{pid}/task/{pid}/children").read(): time.sleep(0.01)
print(pid, open(f"/proc/{pid}/task/{pid}/children").read(), flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("how", ["kill", "interrupt", "end"])
def test_all_processes_end_with_their_owner(how: str) -> None:
    command = [sys.executable, "-c", OWNER % SLOW]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdin is not None
        assert owner.stdout is not None
        zygote, question = (int(one) for one in owner.stdout.readline().split())
        assert is_running(zygote)
        assert is_running(question)
        if how == "kill":
            owner.kill()
        elif how == "interrupt":
            owner.send_signal(signal.SIGTERM)
        owner.stdin.close()
        assert eventually(lambda: not is_running(zygote) and not is_running(question))


def test_a_thousand_questions_take_constant_memory() -> None:
    def resident(pid: int) -> int:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1])

    def ask(times: int) -> None:
        for number in range(times):
            assert judged("input.a == data.n", {"a": number}, data={"n": number + number % 2}).refused == (number % 2)

    ask(50)
    (zygote,) = zygotes()
    before, files = resident(zygote), len(list(Path(f"/proc/{zygote}/fd").iterdir()))
    ours = len(list(Path("/proc/self/fd").iterdir()))
    ask(1000)
    assert resident(zygote) - before < 256  # pages
    assert eventually(lambda: len(list(Path(f"/proc/{zygote}/fd").iterdir())) <= files)
    assert len(list(Path("/proc/self/fd").iterdir())) == ours


@pytest.mark.parametrize(
    "data",
    [
        {"plugin": "resource", "resource-path": ["default", "key", "k1"], "query": {}},
        {"t": True, "f": False, "n": -5, "z": 0, "big": 1 << 53, "deep": {"a": [{"b": []}, 1]}},
        {"text": 'a"b\\c\n\x00é\U0001f600', "": "", 'é"': {"\n": 1}},
    ],
)
def test_data_of_a_question_is_what_the_engine_compiles(data: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    body = "; ".join(f"data[{json.dumps(name)}] == input[{json.dumps(name)}]" for name in data)
    taken = judged(body, data, data=data)
    monkeypatch.setattr("attest.rego.zygotes.START", _OTHER_FORM)
    POOL.close()
    compiled = judged(body, data, data=data)
    assert (taken.refused, taken.reason) == (compiled.refused, compiled.reason)


_OTHER_FORM = """\
import sys, types
for name, folder in zip(("attest", "attest.rego"), sys.argv[-2:]):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [folder]
import attest.rego.compiled_form as form
form._MAGIC = b"ANOTHER!"
from attest.rego.worker import main
main()
"""


def test_a_compiled_form_of_another_version_is_compiled_for_each_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attest.rego.zygotes.START", _OTHER_FORM)
    assert not judged('data.x == "a"; input.a == 5', data={"x": "a"}).refused
    assert judged('data.x == "a"; input.a == 5', data={"x": "b"}).refused


def test_a_compiled_form_that_is_none_is_refused() -> None:
    for form in (bytes(64), b"REGOBUND" + bytes(80)):
        with pytest.raises(ValueError, match="form"):
            CompiledForm(form, {})
