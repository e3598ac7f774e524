"""The engine inside its process: one policy, compiled once, and the values of its rules for a question.

The compiled policy names the built-in functions that it calls, however the source spells them. The policy is evaluated
only if each of them depends on its arguments alone: not on the clock, the machine, the network or random numbers.
"""

from __future__ import annotations

import json
import os
import re
import struct
from contextlib import suppress
from typing import Any

from attest.rego.compiled_form import CompiledForm

PACKAGE = "attest_question"
UNCLEAR = "the engine gave an error, such as rules that contradict each other"
_FAULT = re.compile(r"\(error \d+:(?P<module>\w+)\|(?P<offset>\d+)\|\d+\s*\(errormsg \d+:(?P<text>[^)]*)\)")

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


class FaultError(Exception):
    """The policy, or a question, that cannot be evaluated. The argument is the reply."""


def fault(exc: BaseException) -> dict[str, Any]:
    """Return the reply for a failure."""
    match exc:
        case FaultError():
            return dict(exc.args[0])
        case ImportError() | OSError():  # OSError: its library does not fit this system's
            needs = "it needs the extra 'rego' and glibc 2.34"
            return {"error": f"the engine is not installed or cannot be loaded: {needs}"}
    return {"error": f"{type(exc).__name__}: the engine cannot read the policy or its documents"}


class CompiledPolicy:
    """A policy that is compiled once, for questions with another input each and, if it names any, other data.

    Args:
        start: ``modules``, the first of them the policy; ``rules`` to ask for; ``data`` that is the same for all
            questions; ``names`` of the data that comes with each.
    """

    def __init__(self, start: dict[str, Any]) -> None:
        self.start = start
        self.rules: list[str] = start["rules"]
        self.names: list[str] = start["names"]
        unknown: dict[str, Any] = dict.fromkeys(self.names, "")
        self.compile(unknown)
        require_harmless(self.engine, self.bundle)
        warm()
        if canonical(self.ask("fixed", "{}")) != canonical([start["data"][name] for name in sorted(start["data"])]):
            raise ValueError("the engine reads other data than was sent")
        self.form = self.form_with(start["data"] | unknown) if self.names else None

    def compile(self, data: dict[str, Any]) -> None:
        """Compile the policy with the data of one question."""
        from regopy import Interpreter

        self.engine = Interpreter()
        self.engine.add_data(self.start["data"] | data)
        modules = (*self.start["modules"], question_module(self.rules, sorted(self.start["data"]), self.names))
        for number, module in enumerate(modules):
            try:
                self.engine.add_module(f"module{number}", module)
            except Exception as exc:
                raise FaultError(fault_of(str(exc))) from exc
        self.bundle = self.engine.build(None, [f"{PACKAGE}/answer", f"{PACKAGE}/fixed"])
        if not self.bundle.ok():
            raise FaultError({"error": "the policy does not compile", "fault": True})

    def form_with(self, data: dict[str, Any]) -> CompiledForm | None:
        """Return the compiled form, or None where this version of the engine has another."""
        from regopy.interpreter import BundleFormat

        self.engine.save_bundle("form", self.bundle, BundleFormat.Binary)
        with suppress(ValueError, struct.error), open("form", "rb") as file:  # noqa: PTH123  few imports
            return CompiledForm(file.read(), data)
        return None

    def take(self, data: dict[str, Any]) -> None:
        """Put the data of a question in the place of the former."""
        if self.form is None:
            self.compile(data)
            return
        from regopy.interpreter import BundleFormat

        file = os.memfd_create("form")
        os.write(file, self.form.with_data(self.start["data"] | data))
        self.bundle = self.engine.load_bundle(f"/proc/self/fd/{file}", BundleFormat.Binary)

    def results(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the values of the rules that are defined.

        Args:
            request: ``input`` as the text of ``canonical``, and ``data``.
        """
        data = {name: request["data"][name] for name in self.names}
        if data:
            self.take(data)
        values, *seen = self.ask("answer", request["input"])
        # As text: to Python, 1 equals true.
        if [canonical(one) for one in seen] != [request["input"], canonical(list(data.values()))]:
            raise ValueError("the engine reads another document than was sent")
        return {name: value[0] for name, value in zip(self.rules, values, strict=True) if value}

    def ask(self, rule: str, document: str) -> Any:
        """Return the value of a rule of the question's module.

        Raises:
            FaultError: the engine gave an error.
        """
        self.engine.set_input_term(document)
        try:
            output = self.engine.query_bundle_entrypoint(self.bundle, f"{PACKAGE}/{rule}")
        except ValueError:  # its text is no JSON
            raise FaultError({"error": UNCLEAR}) from None
        if not output.ok():
            raise FaultError({"error": UNCLEAR})
        (value,) = output[0].expressions
        return value


def question_module(rules: list[str], fixed: list[str], names: list[str]) -> str:
    """Write the rules that ask for everything at once: a list for each, empty where it is undefined."""
    values = [f"r{number} := [data.policy.{rule}] {{ true }} else := []" for number, rule in enumerate(rules)]
    asked = ", ".join(f"r{number}" for number in range(len(rules)))
    return "\n".join(
        [
            f"package {PACKAGE}",
            *values,
            f"answer := [[{asked}], input, [{references(names)}]]",
            f"fixed := [{references(fixed)}]",
        ]
    )


def references(names: list[str]) -> str:
    """Write references to data."""
    return ", ".join(f"data[{json.dumps(name)}]" for name in names)


def fault_of(text: str) -> dict[str, Any]:
    """Return the reply for a policy that cannot be parsed; ``offset`` is in bytes of the policy."""
    found = _FAULT.search(text)
    if found is None or found["module"] != "module0":
        return {"error": "the policy does not compile", "fault": True}
    return {"error": f"the policy does not compile: {found['text']}", "offset": int(found["offset"])}


def require_harmless(engine: Any, bundle: Any) -> None:
    """Require that the compiled policy calls harmless functions only, operators included."""
    engine.save_bundle("bundle", bundle)
    with open("bundle/plan.json", "rb") as file:  # noqa: PTH123  few imports
        plan = json.load(file)
    called = {str(function["name"]) for function in plan["static"]["builtin_funcs"]}
    if forbidden := sorted(called - HARMLESS):
        problem = f"the policy calls {', '.join(forbidden)[:200]}, which is not allowed here"
        raise FaultError({"error": problem, "function": forbidden[0]})


def warm() -> None:
    """Evaluate something else than the policy, so that forked processes find the engine's tables made."""
    from regopy import Interpreter

    engine = Interpreter()
    engine.add_module("warm", "package warm\nanswer := [x | x := input[_]]")
    bundle = engine.build(None, ["warm/answer"])
    for _ in range(2):
        engine.set_input_term(json.dumps({str(number): "x" * 40 for number in range(40)}))
        engine.query_bundle_entrypoint(bundle, "warm/answer")


def canonical(value: Any) -> str:
    """Write a value in one way."""
    return json.dumps(value, sort_keys=True)
