"""The program itself in a process of its own, with the real model, store and reader."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from attest.clock import system_clock
from attest.release.names import KeyReference
from attest.sealed import SealingNames
from rag_demo.enclave.embedding import installed_model, seal_model
from tests.kms.process import REPOSITORY
from tests.kms.proving import POLICIES, endorsements
from tests.rag_demo.service.support import MODEL_KEY, Owner, Site, remote


@dataclass
class Program:
    """One life of it."""

    process: subprocess.Popen[str]
    told: list[str]
    site: Site


def operator_folder(made: Path, model_owner: Owner, document_owner: Owner) -> Path:
    """Fill a folder with what the program's operator has, and return it."""
    owner = ec.generate_private_key(ec.SECP384R1())
    names = SealingNames(key=KeyReference.parse("real@1"))
    place = made / "minilm.sealed"
    seal_model(installed_model(), place, key=MODEL_KEY, names=names, signer=owner, random=os.urandom, at=None)
    (made / "owner.pub").write_bytes(owner.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    keys = {
        table: f'name = "real"\nurl = "http://127.0.0.1:{one.process.port}"\nkey = "{one.process.identity}"\n'
        for table, one in (("model", model_owner), ("database", document_owner))
    }
    # The documents' owner wants its own service to prove its machine to the enclave first.
    (made / "kms-policy.json").write_bytes(POLICIES["snp"])
    (made / "crls").mkdir()
    for number, crl in enumerate(endorsements(system_clock()).crls):
        (made / "crls" / f"{number}.der").write_bytes(crl.der)
    keys["database"] += (
        'policy = "kms-policy.json"\nendorsements = ["crls"]\nallow_simulated = true\noffline = true\n'
        'unchecked_tls = "a test over plain HTTP"\nlog_memory = "log"\n'
    )
    (made / "enclave.toml").write_text(
        'name = "rag.example"\n[listen]\nport = 0\n[machine]\nsimulate = "snp"\n'
        f'[model]\nplace = "minilm.sealed"\ntrust = ["owner.pub"]\n[model.key]\n{keys["model"]}'
        f'[database]\nfile = "documents.db"\n[database.key]\n{keys["database"]}'
    )
    return made


@contextmanager
def running(folder: Path) -> Iterator[Program]:
    """Start it, and wait until it is ready; end it with the block."""
    words = [sys.executable, "-m", "rag_demo.enclave", "--config", "enclave.toml"]
    env = {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(REPOSITORY)}
    with (folder / "enclave.log").open("ab") as log:
        process = subprocess.Popen(words, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert process.stdout is not None
        told = [process.stdout.readline().strip() for _ in range(3)]
        assert told[-1].startswith("listening: "), (folder / "enclave.log").read_text()
        site = remote(int(told[-1].rpartition(":")[2]))
        site.wait_for("ready", 60)
        yield Program(process, told, site)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
