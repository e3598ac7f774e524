"""The examples of docs/sealed-access.md, run as they stand; that of a registry with the programs oras and registry.

``go install oras.land/oras/cmd/oras@v1.2.3`` and
``go install github.com/google/go-containerregistry/cmd/registry@v0.20.3`` bring them; they are found on PATH.
"""

import os
import shutil
from pathlib import Path

import fsspec
import numpy as np
import pytest
import safetensors.numpy

from attest.files import write_file
from tests.conftest import REPOSITORY
from tests.documentation.blocks import blocks_of, blocks_run_by
from tests.documentation.shell import run_script
from tests.sealed.made import KEY, OWNER, Place, public_pem, read_files
from tests.sealed_access.making import Arrays
from tests.sealed_access.servers import Shelf, serving
from tests.sealed_access.test_real_storage import running
from tests.sealed_access.test_s3_source import Bucket, handler_of

PAGE = REPOSITORY / "docs" / "sealed-access.md"
ABSENT = [program for program in ("oras", "registry") if shutil.which(program) is None]
needs_registry = pytest.mark.skipif(
    ABSENT != [] and os.environ.get("ATTEST_REQUIRE_ORAS") != "1", reason=f"not installed: {', '.join(ABSENT)}"
)
WEIGHTS: Arrays = {"wte.weight": np.arange(60, dtype=np.float32).reshape(6, 10), "ln.bias": np.ones(4, np.float32)}


def sealed_model(folder: Path) -> dict[str, bytes]:
    """Make the page's files in a folder, and return those of the sealed model."""
    made = Place(
        folder,
        {
            "config.json": b'{"hidden": 10}',
            "model.safetensors": safetensors.numpy.save(WEIGHTS),
            "tokenizer/vocab.txt": b"a\nb\n",
        },
    )
    made.seal()
    made.sealed.rename(folder / "my-model.sealed")
    (folder / "owner.pub").write_bytes(public_pem(OWNER))
    write_file(folder / "model.key", KEY)
    (folder / "token").write_text("made up\n")
    return read_files(folder / "my-model.sealed")


@pytest.mark.loopback
def test_every_example_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec.register_implementation("sealed", "attest.sealed.fs.SealedFileSystem", clobber=True)
    monkeypatch.chdir(tmp_path)
    files = sealed_model(tmp_path)
    bucket = Bucket(objects={f"/models/my-model/{name}": content for name, content in files.items()})
    for name, value in {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "made up",
        "AWS_DEFAULT_REGION": "eu-central-1",
        "AWS_CONFIG_FILE": f"{tmp_path}/none",
        "AWS_SHARED_CREDENTIALS_FILE": f"{tmp_path}/none",
    }.items():
        monkeypatch.setenv(name, value)
    shelf = Shelf(files={f"/my-model/{name}": content for name, content in files.items()})
    examples = [block for block in blocks_of(PAGE) if block.runs]
    said = ""
    with serving(shelf.handler()) as web, serving(handler_of(lambda: bucket)) as storage:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", storage)
        names: dict[str, object] = {}
        for example in examples:
            text = example.text.replace("https://models.example", web)
            if example.language == "python":
                exec(compile(text, str(PAGE), "exec"), names)  # noqa: S102  the page of this repository
            else:
                said += run_script(text, folder=tmp_path)
    assert names["config"] == b'{"hidden": 10}'
    assert names["tail"] == safetensors.numpy.save(WEIGHTS)[-8:]
    assert np.array_equal(names["arrays"]["wte.weight"], WEIGHTS["wte.weight"])  # type: ignore[index]  # whatever the page made
    assert {headers.get("Authorization") for _, headers in shelf.seen} == {"Bearer made up", None}
    assert bucket.seen
    assert Path("vocab.txt").read_bytes() == b"a\nb\n"
    assert "tokenizer/vocab.txt" in said
    assert said.endswith('{\n    "hidden": 10\n}\n')


@needs_registry
@pytest.mark.loopback
def test_a_model_is_pushed_to_a_registry_and_read_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ((_, block),) = blocks_run_by("tests/sealed_access/test_page.py")
    sealed_model(tmp_path)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    with running("registry", lambda port: ["-port", str(port)], tmp_path, path="/v2/") as url:
        place = url.replace("http://127.0.0.1", "localhost")  # oras asks without TLS there alone
        said = run_script(block.text.replace("registry.example", place), folder=tmp_path)
    assert "tokenizer/vocab.txt" in said.partition("Digest: ")[2]
