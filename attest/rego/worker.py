"""The worker process of the Rego engine: one request on standard input, one answer on standard output.

Started by ``evaluation.py`` as ``python -I worker.py MEMORY SECONDS`` in an empty folder with an empty environment. It
imports the standard library and the engine only, decides nothing, and limits itself before it reads any input.

The compiled policy names the built-in functions that it calls, however the source spells them. The engine writes it to
the folder, and evaluates it only if each of them depends on its arguments alone: not on the clock, the machine, the
network or random numbers.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import threading
import time
from typing import Any

MAX_REQUEST_BYTES = 4 << 20
MAX_ANSWER_BYTES = 64 << 10
MAX_WRITTEN_BYTES = 16 << 20  # the compiled policy, its data beside it
MAX_FILES = 64
WATCH_SECONDS = 0.005
EXIT_MEMORY = 9

HARMLESS = frozenset(
    """
    abs array.concat array.reverse array.slice and assign base64.decode base64.encode base64.is_valid
    base64url.decode base64url.encode base64url.encode_no_pad bits.and bits.lsh bits.negate bits.or bits.rsh bits.xor
    cast_array cast_boolean cast_null cast_object cast_set cast_string ceil concat contains count
    crypto.md5 crypto.sha1 crypto.sha256 div endswith eq equal floor format_int gt gte hex.decode hex.encode indexof
    indexof_n internal.member_2 internal.member_3 intersection is_array is_boolean is_null is_number is_object is_set
    is_string json.filter json.is_valid json.marshal json.marshal_with_options json.remove json.unmarshal lower lt lte
    max min minus mul neq numbers.range numbers.range_step object.filter object.get object.keys object.remove
    object.subset object.union object.union_n or plus product regex.match regex.is_valid rem replace reverse round
    semver.compare semver.is_valid sort split sprintf startswith strings.any_prefix_match strings.any_suffix_match
    strings.count strings.replace_n strings.reverse substring sum time.parse_rfc3339_ns time.parse_duration_ns
    to_number trim trim_left trim_prefix trim_right trim_space trim_suffix type_name union units.parse
    units.parse_bytes upper walk
    """.split()  # noqa: SIM905  eighty names in quotes are harder to read
)


def confine(memory: int, seconds: int) -> None:
    """Set limits that cannot be lifted again, and watch the one that the kernel cannot.

    The engine's allocator reserves 256 GiB of addresses before it does anything, so RLIMIT_AS and RLIMIT_DATA cannot
    bound what it uses. A thread reads what is resident instead; the engine runs without the interpreter's lock.
    """
    with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:  # noqa: PTH123  few imports
        file.write("1000")  # when the machine runs short of memory, the kernel ends this process first
    threading.Thread(target=watch, args=(memory,), daemon=True).start()
    for kind, limit in (
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, MAX_WRITTEN_BYTES),
        (resource.RLIMIT_NOFILE, MAX_FILES),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NPROC, 0),
    ):
        _, ceiling = resource.getrlimit(kind)
        least = limit if ceiling == resource.RLIM_INFINITY else min(limit, ceiling)
        resource.setrlimit(kind, (least, least))


def watch(memory: int) -> None:
    """End the process when more than so many bytes are resident."""
    pages = memory // resource.getpagesize()
    with open("/proc/self/statm", "rb", buffering=0) as file:  # noqa: PTH123  few imports
        while int(os.pread(file.fileno(), 200, 0).split()[1]) <= pages:
            time.sleep(WATCH_SECONDS)
    os._exit(EXIT_MEMORY)


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Evaluate the request; anything that the engine cannot express is an error."""
    from regopy import Interpreter

    engine = Interpreter()
    engine.set_input_term(json.dumps(request["input"]))
    engine.add_data(request["data"])
    require_same(engine, request)
    for number, module in enumerate(request["modules"]):
        engine.add_module(f"module{number}.rego", module)
    results: dict[str, Any] = {}
    for number, name in enumerate(request["rules"]):
        bundle = engine.build(f"data.policy.{name}")
        if not bundle.ok():
            return {"error": f"{name}: the policy does not compile"}
        folder = f"bundle{number}"
        engine.save_bundle(folder, bundle)
        if forbidden := sorted(set(built_ins(folder)) - HARMLESS):
            return {"error": f"{name}: the policy calls {', '.join(forbidden)[:200]}, which is not allowed here"}
        output = engine.query_bundle(bundle)
        if not output.ok():
            return {"error": f"{name}: the engine gave an error, such as rules that contradict each other"}
        found = value_of(str(output))
        if found:
            results[name] = found[0]
    return {"results": results}


def require_same(engine: Any, request: dict[str, Any]) -> None:
    """Require that the engine reads every document without a change."""
    queries = {"input": request["input"]}
    queries |= {f"data[{json.dumps(name)}]": value for name, value in request["data"].items()}
    for query, sent in queries.items():
        # As text: to Python, 1 equals true.
        if canonical(value_of(str(engine.query(query)))) != canonical([sent]):
            raise ValueError(f"the engine reads another {query} than was sent")


def canonical(value: Any) -> str:
    """Write a value in one way."""
    return json.dumps(value, sort_keys=True)


def built_ins(folder: str) -> list[str]:
    """Return the built-in functions that a compiled policy calls, operators included."""
    with open(os.path.join(folder, "plan.json"), "rb") as file:  # noqa: PTH118, PTH123  few imports
        plan = json.load(file)
    return [str(function["name"]) for function in plan["static"]["builtin_funcs"]]


def value_of(output: str) -> list[Any]:
    """Return the value of a query in a list, or no value where it is undefined."""
    if output == "undefined":
        return []
    document = json.loads(output)
    if not isinstance(document, dict) or len(document.get("expressions", ())) != 1:
        raise ValueError("the engine gave several results")
    return list(document["expressions"])


def main() -> None:
    """Serve one request."""
    confine(int(sys.argv[1]), int(sys.argv[2]))
    out = os.dup(1)  # the engine prints to standard output; only this descriptor reaches the parent
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    data = sys.stdin.buffer.read(MAX_REQUEST_BYTES + 1)
    try:
        if len(data) > MAX_REQUEST_BYTES:
            reply: dict[str, Any] = {"error": f"the request has more than {MAX_REQUEST_BYTES} bytes"}
        else:
            reply = answer(json.loads(data))
    except (ImportError, OSError):  # OSError: its library does not fit this system's
        reply = {"error": "the engine is not installed or cannot be loaded: it needs the extra 'rego' and glibc 2.34"}
    except BaseException as exc:  # noqa: BLE001  any failure is the answer
        reply = {"error": f"{type(exc).__name__}: the engine cannot read the policy or its documents"}
    written = json.dumps(reply).encode()
    if len(written) > MAX_ANSWER_BYTES:
        written = b'{"error": "the answer is too long"}'
    os.write(out, written)
    os._exit(0)  # no clean-up of the engine's, which may be in any state


if __name__ == "__main__":
    main()
