"""The whole story, once, with everything captured that anybody but the enclave and its owners can see: and searched."""

import base64
import io
import json
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from rag_demo.demo.document import ANSWER_HAS, DOCUMENT_NAME, DOCUMENT_TEXT
from rag_demo.demo.narrator import Narrator
from rag_demo.demo.parties import Options, Stage, staged
from rag_demo.demo.search import Haystack, Searcher, process_haystacks
from rag_demo.demo.secret_forms import Needle, bytes_needles, text_needles
from rag_demo.demo.story import document_needles, operator_haystacks, tell
from rag_demo.demo.weights import weight_needles
from tests.rag_demo.demo.created import Created

pytestmark = [pytest.mark.loopback, pytest.mark.timeout(300)]
PLANTED = "nobody may hear of the nineteen barrels"
LEASE_SECONDS = 10
REFUSALS = ("policy-not-met", "nonce-mismatch", "binding-devices-mismatch", "challenge-used")
PARTIES = ("operator", "model-owner", "document-owner")


@dataclass
class Capture:
    """What was seen. Nothing of the folder is left when the tests read it."""

    steps: list[dict[str, Any]] = field(default_factory=list)
    hits: dict[str, list[str]] = field(default_factory=dict)
    seen: dict[str, int] = field(default_factory=dict)
    forms: set[str] = field(default_factory=set)
    open_elsewhere: list[str] = field(default_factory=list)
    modes: dict[str, int] = field(default_factory=dict)
    inner_answers: list[int] = field(default_factory=list)
    enclave_log: str = ""
    folder: str = ""
    pids: list[int] = field(default_factory=list)
    created: Created | None = None


def captured(tmp_path_factory: pytest.TempPathFactory) -> Capture:
    seen, out = Capture(), io.StringIO()
    base, keep = tmp_path_factory.mktemp("demo"), tmp_path_factory.mktemp("kept")
    with pytest.MonkeyPatch.context() as patch, ExitStack() as watching:
        patch.setattr(tempfile, "tempdir", str(base))

        def told(what: str) -> None:
            """Begin to watch once the folders are there, and before anything runs in them."""
            if "machine start" in what:
                (folder,) = base.iterdir()
                folders = [folder / "operator", *(folder / name / "tmp" for name in PARTIES)]
                seen.created = watching.enter_context(Created(folder, folders, keep=keep))

        with staged(Options(lease_seconds=LEASE_SECONDS, gpus=1), report=told) as stage:
            tell(Narrator(out, as_json=True), stage)
            seen.steps = [json.loads(line) for line in out.getvalue().splitlines()]
            _look(stage, seen, keep)
            _plant(stage, seen)
    return seen


def secrets_of(stage: Stage) -> tuple[Needle, ...]:
    """Everything: what the story looks for, the tokens as bytes, the model's key, and every line of the document."""
    found = [*document_needles(stage), *weight_needles()]
    found += text_needles("an answer", (ANSWER_HAS, "It is wrapped in green felt"))
    found += text_needles("a line", (line for line in DOCUMENT_TEXT.splitlines() if len(line) > 20))
    for name in ("token", "another-token"):
        text = (stage.document_owner / name).read_text().strip()
        found += bytes_needles("a token's bytes", base64.urlsafe_b64decode(text + "="))
    found += bytes_needles("the model's key", (stage.model_owner / "model.key").read_bytes())
    found += bytes_needles("the signing key", (stage.model_owner / "owner.pem").read_bytes()[40:200])
    return tuple(found)


def places_of(stage: Stage) -> Iterator[Haystack]:
    """What the operator sees, and besides the owners' services, whose databases and logs need nothing of it either."""
    yield from operator_haystacks(stage)
    for owner in (stage.model_owner, stage.document_owner):
        yield from Haystack.files(owner / "kms")
        for file in (*owner.glob("*.log"), *owner.glob("*.out")):
            yield Haystack(name=str(file), read=file.read_bytes)
    yield from process_haystacks([os.getpid()])


def _look(stage: Stage, seen: Capture, keep: Path) -> None:
    searcher = Searcher(secrets_of(stage))
    seen.forms = {needle.what for needle in searcher.needles}
    for place in (*places_of(stage), *Haystack.files(keep)):
        size = len(place.read())
        seen.seen[place.name.removeprefix(str(stage.folder))] = size
        seen.hits[place.name] = [str(hit) for hit in searcher.search(place)]
    roots = (str(stage.folder), "/dev/null", "pipe:", "socket:", "anon_inode:")
    for name, program in stage.programs.items():
        seen.pids.append(program.process.pid)
        for link in _descriptors(program.process.pid):
            target, flags = str(link.readlink()), (link.parent.parent / "fdinfo" / link.name).read_text()
            writes = int(re.search(r"flags:\s+(\d+)", flags)[1], 8) & os.O_ACCMODE != os.O_RDONLY  # type: ignore[index]
            if writes and not target.startswith(roots):
                seen.open_elsewhere.append(f"{name}: {target}")
    for file in (
        "document-owner/token",
        "model-owner/model.key",
        "model-owner/owner.pem",
        "document-owner",
        "operator",
    ):
        seen.modes[file] = stat.S_IMODE((stage.folder / file).stat().st_mode)
    seen.folder = str(stage.folder)


def _descriptors(pid: int) -> list[Path]:
    try:
        return list(Path(f"/proc/{pid}/fd").iterdir())
    except PermissionError:  # the enclave lets nobody but root look
        assert os.geteuid() != 0
        return []


def _plant(stage: Stage, seen: Capture) -> None:
    """Leak on purpose, through the very same places: whoever finds nothing here looks at nothing."""
    needle = Searcher(text_needles("planted", (PLANTED,)))
    with httpx.Client(base_url=stage.url, trust_env=False) as http:
        clear = http.post("/v1/questions", json={"question": PLANTED}, headers={"authorization": f"Bearer {PLANTED}"})
        seen.inner_answers.append(clear.status_code)
        seen.inner_answers.append(http.post(f"/v1/documents?name={PLANTED}", content=PLANTED).status_code)
    (stage.operator / "tmp" / "left").write_bytes(base64.b64encode(PLANTED.encode()))
    hits = [hit.where.removeprefix(str(stage.operator)) for one in places_of(stage) for hit in needle.search(one)]
    seen.hits["planted"] = sorted(set(hits))
    seen.enclave_log = stage.programs["enclave"].err.read_text() + stage.programs["enclave"].out.read_text()


def _every_step_of_the_story_came_out_as_it_should(capture: Capture) -> None:
    checks = [one for one in capture.steps if one["kind"] == "check"]
    assert [one["text"] for one in checks if one["outcome"] != "pass"] == []
    assert len(checks) >= 21
    texts = " ".join(one["text"] for one in checks)
    for word in (
        "does not know",
        ANSWER_HAS,
        f"[1] {DOCUMENT_NAME} section ",
        "sends nothing more",
        "rag-stopped",
        *REFUSALS,
    ):
        assert word in texts
    assert all(one["schema"] == "rag.demo/1" for one in capture.steps)


def _nothing_of_documents_questions_answers_weights_or_tokens_is_anywhere(capture: Capture) -> None:
    found = {name: hits for name, hits in capture.hits.items() if hits and name != "planted"}
    assert found == {}


def _the_search_looked_at_everything_and_for_everything(capture: Capture) -> None:
    names = capture.seen
    for tap in ("client", "kms-model", "kms-documents"):
        for way in ("up", "down"):
            sizes = [size for name, size in names.items() if re.fullmatch(rf"/operator/wire/{tap}-\d+\.{way}", name)]
            assert sum(sizes) > 2000, (tap, way)
    assert names["/operator/documents.db"] > 4096
    assert names["/operator/enclave.log"] > 100
    assert names["/model-owner/kms/kms.db"] > 4096
    assert names["/document-owner/kms/kms.db"] > 4096
    assert any(name.startswith("/operator/minilm.sealed/") and size > 80_000_000 for name, size in names.items())
    for pid in capture.pids:
        assert names[f"/proc/{pid}/cmdline"] > 10
        assert names[f"/proc/{pid}/environ"] > 10 or os.geteuid() != 0
    for what in ("the document", "a question", "an answer", "a user's token", "a token's bytes", "the model's key"):
        assert what in capture.forms
    assert sum(what.startswith("weights of ") for what in capture.forms) == 6


def _what_is_leaked_on_purpose_is_found_where_it_was_leaked(capture: Capture) -> None:
    hits = capture.hits["planted"]
    assert "/tmp/left" in hits  # noqa: S108  below the operator's folder
    assert any(re.fullmatch(r"/wire/client-\d+\.up", name) for name in hits)
    assert capture.inner_answers == [404, 404]


def _what_came_in_the_clear_is_not_written_down_by_the_service(capture: Capture) -> None:
    assert all(not hit.startswith(("/enclave", "/documents.db")) for hit in capture.hits["planted"])
    assert PLANTED not in capture.enclave_log
    assert capture.enclave_log


def _no_process_writes_anywhere_but_into_its_own_folder(capture: Capture) -> None:
    assert capture.open_elsewhere == []


def _files_that_did_not_stay_were_searched_too_and_nothing_was_made_but_what_is_known(capture: Capture) -> None:
    assert capture.created is not None
    assert capture.created.complete
    known = re.compile(
        r"operator/(\.?machine-change(\.[0-9a-f]+\.part)?|documents\.db(\.new(-[0-9a-f]+)?)?(-journal|-wal|-shm)?|enclave\.(toml|out|log)|tmp/left)"
    )
    assert {name for name in capture.created.names if not known.fullmatch(name)} == set()
    assert "operator/documents.db" in capture.created.names
    assert sum("kept" in name for name in capture.hits) >= 2


def _keys_and_tokens_are_their_owners_alone(capture: Capture) -> None:
    for file in ("document-owner/token", "model-owner/model.key", "model-owner/owner.pem"):
        assert capture.modes[file] == 0o600, file
    for folder in ("document-owner", "operator"):
        assert capture.modes[folder] == 0o700, folder


def _nothing_of_it_is_left(capture: Capture) -> None:
    assert not Path(capture.folder).exists()
    for pid in capture.pids:
        assert not Path(f"/proc/{pid}").exists()


CHECKS = (
    _every_step_of_the_story_came_out_as_it_should,
    _nothing_of_documents_questions_answers_weights_or_tokens_is_anywhere,
    _the_search_looked_at_everything_and_for_everything,
    _what_is_leaked_on_purpose_is_found_where_it_was_leaked,
    _what_came_in_the_clear_is_not_written_down_by_the_service,
    _no_process_writes_anywhere_but_into_its_own_folder,
    _files_that_did_not_stay_were_searched_too_and_nothing_was_made_but_what_is_known,
    _keys_and_tokens_are_their_owners_alone,
    _nothing_of_it_is_left,
)


def test_nothing_of_it_is_anywhere_and_what_is_leaked_on_purpose_is_found(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """One test, so that several workers do not each tell the story."""
    capture = captured(tmp_path_factory)
    for check in CHECKS:
        check(capture)
