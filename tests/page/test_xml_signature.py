"""The page's reader of XML signatures by itself: what it calls signed is what the checked signature element signs.

A later check of a RIM may refuse a document that this reader takes for signed; here nothing else looks at it.
"""

import json
import shutil
import subprocess
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.page import nvidia_rims as rims

PAGE = Path(__file__).resolve().parents[2] / "page"
pytestmark = pytest.mark.skipif(
    shutil.which("node") is None or not (PAGE / "node_modules/esbuild").is_dir(),
    reason="the tools that build the page are not installed",
)
READER = """
import { readFileSync } from "node:fs";
import { build } from "esbuild";
const contents = 'export { readSignedDocument } from "./src/verifier/xml/signature";';
const built = await build({
  stdin: { contents, resolveDir: process.cwd(), loader: "ts" }, bundle: true, format: "esm", write: false,
});
const code = Buffer.from(built.outputFiles[0].contents).toString("base64");
const { readSignedDocument } = await import(`data:text/javascript;base64,${code}`);
const answers = {};
for (const [name, document] of Object.entries(JSON.parse(readFileSync(0, "utf8")))) {
  try {
    const { isSigned } = await readSignedDocument(new Uint8Array(Buffer.from(document, "base64")));
    answers[name] = isSigned;
  } catch (error) {
    answers[name] = error.code ?? String(error);
  }
}
process.stdout.write(JSON.stringify(answers));
"""


def read(documents: Mapping[str, bytes]) -> dict[str, bool | str]:
    """Return for each document whether it is signed, or the code of the refusal."""
    node = shutil.which("node")
    assert node is not None
    run = subprocess.run(
        [node, "--input-type=module", "--eval", READER],
        input=json.dumps({name: b64encode(document).decode() for name, document in documents.items()}),
        cwd=PAGE,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    found: dict[str, bool | str] = json.loads(run.stdout)
    return found


def test_a_genuine_document_is_signed() -> None:
    assert read({"genuine": rims.rim(), **rims.written()}) == dict.fromkeys(("genuine", *rims.written()), True)


def test_no_wrapped_signature_is_taken_for_one() -> None:
    found = read(rims.wrapped())
    assert {name: answer for name, answer in found.items() if answer not in {False, "rim-malformed"}} == {}


def test_values_that_are_signed_elsewhere_in_the_document_do_not_count() -> None:
    elsewhere = {name: document for name, document in rims.wrapped().items() if "elsewhere" in name}
    assert len(elsewhere) == 3
    assert read(elsewhere) == dict.fromkeys(elsewhere, False)
