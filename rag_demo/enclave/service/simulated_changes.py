"""Changes of a simulated machine while it runs, for a viewer of the demonstration. A real machine has no such route.

::

    GET   /simulated-machine              {"changes": [names], "now": name or null}
    POST  /simulated-machine/NAME         make the change; the body is ignored
    POST  /simulated-machine/as-it-was    take the change back
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final

from starlette.responses import Response

from attest.files import write_file
from rag_demo.enclave.errors import RefusedError
from rag_demo.enclave.service.models import SimulatedMachineModel, json_response
from rag_demo.enclave.service.refusals import problem

CHANGES_PATH: Final = "/simulated-machine"
NAMES: Final = ("older-firmware", "other-gpu")
"""Changes that the simulator knows."""
_BACK: Final = "as-it-was"
_UNKNOWN: Final = RefusedError(
    "the simulated machine has no such change",
    code="rag-route-unknown",
    status=HTTPStatus.NOT_FOUND,
    hint=f"POST {CHANGES_PATH}/ and one of {', '.join((*NAMES, _BACK))}",
)
_MOST_BYTES: Final = 64


@dataclass(frozen=True, slots=True)
class SimulatedChanges:
    """The routes; ``file`` is the one that the simulated machine reads before each evidence."""

    file: Path

    def owns(self, path: str) -> bool:
        """Return True for a path of these routes."""
        return path == CHANGES_PATH or path.startswith(f"{CHANGES_PATH}/")

    def answer(self, path: str, method: str) -> Response:
        """Answer a request for one of these paths."""
        name = path.removeprefix(CHANGES_PATH).removeprefix("/")
        if not name and method in {"GET", "HEAD"}:
            return self._present()
        if method != "POST" or name not in {*NAMES, _BACK}:
            return problem(_UNKNOWN)
        write_file(self.file, "" if name == _BACK else name, replace=True)
        return self._present()

    def _present(self) -> Response:
        return json_response(SimulatedMachineModel(changes=NAMES, now=self._now()))

    def _now(self) -> str | None:
        try:
            with self.file.open("rb") as opened:
                stated = opened.read(_MOST_BYTES).decode(errors="replace").strip()
        except OSError:
            return None
        return stated or None
