"""The program that reads one document: confined before the first byte, and ended after the last.

Started by ``child.py`` as ``python -I worker.py ORDER`` with an empty environment and two pipes. ORDER is JSON: the
folder of this package, the limits, the declared kind of the document, its size, and the reason to run unconfined, if
any. The document arrives on standard input; ``wire.py`` defines the frames on standard output.

The readers are imported before the confinement, because no file can be opened after it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

_PIECE = 1 << 20


def main(order: Mapping[str, Any], readers: Mapping[str, str] | None = None) -> None:
    """Read one document."""
    if order["root"] not in sys.path:
        sys.path.insert(0, order["root"])
    from rag_demo.enclave.documents.kinds import DocumentKind
    from rag_demo.enclave.documents.limits import DocumentLimits
    from rag_demo.enclave.documents.page_writer import Out, UnreadableDocumentError, write_to

    promised = DocumentKind(order["promised"]) if order["promised"] else None
    out = Out(DocumentLimits(**order["limits"]), promised, write_to(1))
    try:
        _read(
            order,
            out,
            readers or {kind: f"rag_demo.enclave.documents.readers.{_module(kind)}" for kind in DocumentKind},
        )
    except UnreadableDocumentError as exc:
        out.problem(exc)
    except MemoryError:
        out.problem(UnreadableDocumentError("limit", "memory_bytes", out.limits.memory_bytes))
    except RecursionError:
        out.problem(UnreadableDocumentError("limit", "nesting"))
    except BrokenPipeError:
        pass  # the reader has left
    except Exception as exc:  # noqa: BLE001  whatever it is, it is said and this process ends
        out.problem(UnreadableDocumentError("defect", type(exc).__name__))


def _module(kind: str) -> str:
    return "plain" if kind == "text" else kind


def _read(order: Mapping[str, Any], out: Any, readers: Mapping[str, str]) -> None:  # noqa: ANN401  imported later
    from rag_demo.enclave.documents.confine import ConfinementError, confine
    from rag_demo.enclave.documents.detect import detect
    from rag_demo.enclave.documents.page_writer import UnreadableDocumentError

    loaded = _load(readers, out.promised)
    try:
        confine(
            memory_bytes=out.limits.memory_bytes,
            cpu_seconds=out.limits.cpu_seconds,
            unconfined=bool(order["unconfined"]),
        )
    except ConfinementError as exc:
        raise UnreadableDocumentError("confinement", str(exc)) from exc
    data = _document(int(order["size"]))
    kind = detect(data, out.promised)
    out.kind(kind)
    loaded[kind].read(data, out)
    out.end()


def _load(readers: Mapping[str, str], promised: str | None) -> dict[str, ModuleType]:
    """Import what reads the kind that was promised, or all where none was.

    A promise that the content breaks ends in a refusal, so no other reader is ever needed.
    """
    from rag_demo.enclave.documents.page_writer import UnreadableDocumentError

    wanted = {kind: name for kind, name in readers.items() if promised in {kind, None}}
    try:
        return {kind: import_module(name) for kind, name in wanted.items()}
    except (ImportError, OSError) as exc:
        raise UnreadableDocumentError("library", str(getattr(exc, "name", "") or type(exc).__name__)) from exc


def _document(size: int) -> bytes:
    """Read all of a document from standard input."""
    pieces = bytearray()
    while len(pieces) < size:
        piece = os.read(0, min(_PIECE, size - len(pieces)))
        if not piece:
            raise BrokenPipeError("the document ended early")
        pieces += piece
    return bytes(pieces)


def run(work: Callable[[], None]) -> None:
    """Do the work and end without the clean-up of libraries, which may be in any state."""
    code = 1
    try:
        work()
        code = 0
    finally:
        os._exit(code)


if __name__ == "__main__":
    run(lambda: main(json.loads(sys.argv[1])))
