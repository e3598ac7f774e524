"""The three parties on one computer: two owners with a key-release service each, and an operator with the machine.

::

    <folder>/model-owner/       model.key, owner.pem, kms/ …      what only the model's owner has
    <folder>/document-owner/    token, policy.json, kms/ …        what only the documents' owner has
    <folder>/operator/          minilm.sealed, enclave.toml, documents.db, logs, wire/ …       what the operator sees

    client ──relay──▶ enclave ──relay──▶ the model owner's service
                              ──relay──▶ the document owner's service
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from attest.channel import GATEWAY_PATH
from attest.clock import system_clock
from attest.encoding import JsonValue, json_value
from attest.errors import ConfigurationError
from attest.files import write_file
from rag_demo.client import RagClient, read_demands, token_in
from rag_demo.demo.programs import KMS, Program, environment, finish, run, start
from rag_demo.demo.recording_relay import RecordingRelay

NAME: Final = "rag.example"
"""The service's name for clients and in evidence."""
DEFAULT_MODEL: Final = "default"
PREFIX: Final = "attest-rag-demo-"
_LOCK: Final = ".in-use"
_CHANGE: Final = "machine-change"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of the demonstration.

    Attributes:
        machine: ``snp``, ``tdx``, ``azure-snp`` or ``azure-tdx``; simulated.
        llm: address of a server that words answers; None quotes the documents.
        llm_model: name of its model.
    """

    machine: str = "snp"
    gpus: int = 1
    lease_seconds: int = 60
    keep: bool = False
    llm: str | None = None
    llm_model: str = DEFAULT_MODEL


@dataclass(slots=True, kw_only=True)
class Stage:
    """The parties, once they are there.

    Attributes:
        front: through which clients reach the enclave.
        facts: each owner's public facts: identity, key, config.
    """

    options: Options
    folder: Path
    front: RecordingRelay
    programs: dict[str, Program] = field(default_factory=dict)
    facts: dict[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def model_owner(self) -> Path:
        """The model owner's private folder."""
        return self.folder / "model-owner"

    @property
    def document_owner(self) -> Path:
        """The document owner's private folder."""
        return self.folder / "document-owner"

    @property
    def operator(self) -> Path:
        """The operator's folder."""
        return self.folder / "operator"

    @property
    def url(self) -> str:
        """Address of the service for clients."""
        return self.front.url

    def client(self, *, token: str = "token", policy: str = "policy.json") -> RagClient:  # noqa: S107  a file's name
        """Return a client with a token and a policy in the document owner's folder."""
        demands = read_demands(
            audience=NAME,
            policy=self.document_owner / policy,
            endorsements=(self.document_owner / "vendors",),
            allow_simulated=True,
            offline=True,
            max_age=timedelta(seconds=min(300, self.options.lease_seconds)),
            at=system_clock(),
        )
        user = token_in(self.document_owner / token, random=os.urandom)
        return RagClient(self.url, demands=demands, token=user)

    def change_machine(self, name: str | None) -> None:
        """Change the simulated machine while it runs, as its operator could; None takes the change back."""
        write_file(self.operator / _CHANGE, name or "", replace=True)

    def sealed_requests(self) -> int:
        """Return how many sealed messages of clients are in the operator's record of the traffic."""
        line = f"POST {GATEWAY_PATH} ".encode()
        return sum(file.read_bytes().count(line) for file in (self.operator / "wire").glob("client-*.up"))

    def set_key(self, *, enabled: bool) -> None:
        """Disable the key of the documents' owner at its service, or enable it again."""
        facts = self.facts["documents"]
        words = ("key", "enable" if enabled else "disable", facts["key"], "--config", facts["config"])
        run("kms-key", (*KMS, *words), folder=self.document_owner, env=_home(self.document_owner))

    def tighten(self) -> str:
        """Demand newer firmware than the machine has, of the document owner's client and of its own service.

        Returns:
            the rule, for people.
        """
        policy = self.document_owner / "policy.json"
        document = json_value(policy.read_bytes(), what="policy")
        rule = _tightened(document)
        stricter = self.document_owner / "policy-2.json"
        stricter.write_text(json.dumps(document, indent=1))
        facts = self.facts["documents"]
        words = ("key", "policy", "set", facts["key"], "--policy", str(stricter), "--config", facts["config"])
        run("kms-policy", (*KMS, *words), folder=self.document_owner, env=_home(self.document_owner))
        stricter.replace(policy)
        return rule


@contextmanager
def staged(options: Options, *, report: Callable[[str], object] = lambda _: None) -> Iterator[Stage]:
    """Put the parties together, and take everything away in the end, however it comes.

    Raises:
        ConfigurationError: ``demo-program-failed``, ``demo-model-missing``, ``demo-folder-unusable``.
    """
    with _writing_for_oneself(), _folder(keep=options.keep) as folder, ExitStack() as ending:
        for name in ("model-owner", "document-owner", "operator"):
            (folder / name).mkdir(mode=0o700)
            (folder / name / "tmp").mkdir(mode=0o700)
        wire = folder / "operator" / "wire"
        wire.mkdir()
        stage = Stage(
            options=options, folder=folder, front=ending.enter_context(RecordingRelay("client", port=0, folder=wire))
        )
        report("both owners create a key-release service and a key; the model's owner seals the model")
        _make_owners(stage)
        report("the services and the operator's machine start")
        _start_services(stage, ending)
        relays: dict[str, str] = {}
        for role in ("model", "documents"):
            address = stage.programs[f"kms-{role}"].facts("listening", "identity")["listening"]
            relay = RecordingRelay(f"kms-{role}", port=urlsplit(address).port or 0, folder=wire)
            relays[role] = ending.enter_context(relay).url
        _start_enclave(stage, relays, ending)
        yield stage


def _make_owners(stage: Stage) -> None:
    """Start both owners' programs at the same time, and wait for them."""
    options = stage.options
    rest = (options.machine, str(options.gpus), str(options.lease_seconds))
    making: dict[str, Program] = {}
    try:
        for role, owner in (("model", stage.model_owner), ("documents", stage.document_owner)):
            words = ("-m", "rag_demo.demo.owner", role, str(owner), *rest)
            making[role] = start("owner", words, folder=owner, env=_home(owner))
        for role, program in making.items():
            facts = json_value(finish(program).encode(), what="owner")
            stage.facts[role] = {name: str(value) for name, value in facts.items()} if isinstance(facts, dict) else {}
    finally:
        for program in making.values():
            program.stop()
    # The model's owner hands over the sealed model, and the public key of its signature.
    (stage.model_owner / "minilm.sealed").rename(stage.operator / "minilm.sealed")
    shutil.copy(stage.model_owner / "owner.pub", stage.operator / "model-owner.pub")


def _start_services(stage: Stage, ending: ExitStack) -> None:
    """Start both key-release services at the same time."""
    for role, owner in (("model", stage.model_owner), ("documents", stage.document_owner)):
        words = ("serve", "--config", stage.facts[role]["config"], "--port", "0")
        program = start(f"kms-{role}", (*KMS, *words), folder=owner, env=_home(owner))
        ending.callback(program.stop)
        stage.programs[f"kms-{role}"] = program


def _start_enclave(stage: Stage, services: Mapping[str, str], ending: ExitStack) -> None:
    options, operator = stage.options, stage.operator
    sections = [f'name = "{NAME}"\n[listen]\nport = 0\n[limits]\nretry_seconds = 2.0\n']
    sections.append(f'[machine]\nsimulated_change = "{_CHANGE}"\n')
    sections.append('[channel]\nx25519 = "the page is used in browsers without ML-KEM, too"\n')
    for table, role, lines in (
        ("model", "model", 'place = "minilm.sealed"\ntrust = ["model-owner.pub"]'),
        ("database", "documents", 'file = "documents.db"'),
    ):
        key = f'name = "{stage.facts[role]["key"]}"\nurl = "{services[role]}"\nkey = "{stage.facts[role]["identity"]}"'
        sections.append(f"[{table}]\n{lines}\n[{table}.key]\n{key}\n")
    if options.llm is not None:
        sections.append(f"[llm]\nurl = {json.dumps(options.llm)}\nmodel = {json.dumps(options.llm_model)}\n")
    (operator / "enclave.toml").write_text("".join(sections))
    words = ["-m", "rag_demo.enclave", "--config", "enclave.toml", "--simulate", options.machine]
    words += ["--gpus", str(options.gpus)]
    program = start("enclave", words, folder=operator, env=_home(operator))
    ending.callback(program.stop)
    stage.programs["enclave"] = program
    stage.front.to(urlsplit(program.facts("listening")["listening"]).port or 0)


def _home(folder: Path) -> dict[str, str]:
    """Return an environment whose home and temporary folder are the party's own."""
    return environment(HOME=str(folder), TMPDIR=str(folder / "tmp"))


def _tightened(document: JsonValue) -> str:
    """Raise what a policy demands of firmware, and its version; return the rule."""
    members = document if isinstance(document, dict) else {}
    version = members.get("version")
    members["version"] = version + 1 if isinstance(version, int) else 1
    snp = members.get("snp")
    if isinstance(snp, dict) and isinstance(snp.get("minimum_tcb"), dict):
        least = snp["minimum_tcb"]
        for product, levels in least.items() if isinstance(least, dict) else ():
            if isinstance(levels, dict) and isinstance(levels.get("microcode"), int):
                levels["microcode"] = 255
                return f"{product}: microcode of at least 255"
    gpu = members.get("gpu")
    if isinstance(gpu, dict):
        gpu["driver_versions"] = {"at_least": "999.0"}
        return "GPU driver of at least 999.0"
    raise ConfigurationError(
        "this policy has no firmware minimum that the demonstration could raise",
        code="demo-rule-missing",
        hint="--machine snp, or --gpus 1",
    )


# -- the folder


@contextmanager
def _writing_for_oneself() -> Iterator[None]:
    """Create files for their owner alone, whatever the shell's umask is: the programs refuse others."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def _folder(*, keep: bool) -> Iterator[Path]:
    """Make a folder that is removed at the end; the next demonstration removes the folder of one that was killed."""
    base = Path(tempfile.gettempdir())
    for old in base.glob(f"{PREFIX}*"):
        _sweep(old)
    try:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
        descriptor = _locked(folder)
    except OSError as exc:
        raise ConfigurationError(
            f"no folder can be created in {base}: {exc.strerror}",
            code="demo-folder-unusable",
            hint="TMPDIR names another place",
        ) from exc
    try:
        yield folder
    finally:
        if keep:
            (folder / _LOCK).unlink(missing_ok=True)  # a folder without this file is never removed by a later run
        else:
            shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def _locked(folder: Path) -> int:
    """Make the file that says that a folder is in use: it is locked before it has its name, or the next would sweep."""
    made = folder / f"{_LOCK}.new"
    descriptor = os.open(made, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    made.rename(folder / _LOCK)
    return descriptor


def _sweep(old: Path) -> None:
    """Remove an unused folder of an earlier demonstration: it holds keys and models."""
    with suppress(OSError):
        if old.is_symlink() or old.stat().st_uid != os.geteuid():
            return
        descriptor = os.open(old / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(old, ignore_errors=True)
        finally:
            os.close(descriptor)
