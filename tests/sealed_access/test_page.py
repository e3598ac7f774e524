"""The examples of docs/sealed-access.md, run as they stand."""

import re
from pathlib import Path

import fsspec
import numpy as np
import pytest
import safetensors.numpy

from tests.conftest import REPOSITORY
from tests.sealed.made import KEY, OWNER, Place, public_pem, read_files
from tests.sealed_access.making import Arrays
from tests.sealed_access.servers import Shelf, serving
from tests.sealed_access.test_s3_source import Bucket, handler_of

PAGE = REPOSITORY / "docs" / "sealed-access.md"
WEIGHTS: Arrays = {"wte.weight": np.arange(60, dtype=np.float32).reshape(6, 10), "ln.bias": np.ones(4, np.float32)}


@pytest.mark.loopback
def test_every_example_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec.register_implementation("sealed", "attest.sealed.fs.SealedFileSystem", clobber=True)
    monkeypatch.chdir(tmp_path)
    made = Place(
        tmp_path,
        {
            "config.json": b'{"hidden": 10}',
            "model.safetensors": safetensors.numpy.save(WEIGHTS),
            "tokenizer/vocab.txt": b"a\nb\n",
        },
    )
    made.seal()
    made.sealed.rename(tmp_path / "my-model.sealed")
    Path("owner.pub").write_bytes(public_pem(OWNER))
    Path("model.key").write_bytes(KEY)
    Path("token").write_text("made up\n")
    files = read_files(tmp_path / "my-model.sealed")
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
    examples = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(examples) >= 8
    with serving(shelf.handler()) as web, serving(handler_of(lambda: bucket)) as storage:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", storage)
        names: dict[str, object] = {}
        for example in examples:
            text = example.replace("https://models.example", web)
            exec(compile(text, str(PAGE), "exec"), names)  # noqa: S102  the page of this repository
    assert names["config"] == b'{"hidden": 10}'
    assert names["tail"] == safetensors.numpy.save(WEIGHTS)[-8:]
    assert np.array_equal(names["arrays"]["wte.weight"], WEIGHTS["wte.weight"])  # type: ignore[index]  # whatever the page made
    assert {headers["Authorization"] for _, headers in shelf.seen} == {"Bearer made up"}
    assert bucket.seen
    assert Path("vocab.txt").read_bytes() == b"a\nb\n"
