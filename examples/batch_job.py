"""A batch job: reads sealed documents from anywhere, writes one encrypted file, and leaves nothing else behind.

``python batch_job.py https://data.example/documents.sealed owner.pub results counts.sealed``, where ``results`` is the
name of the key that the result is encrypted under. Whoever has that key reads it with ``attest.sealed.open``.
"""

import json
import os
import sys
from contextlib import closing
from pathlib import Path

import attest
from attest.sealed import open_directory, seal_file, store_of
from attest.sealed.signing_keys import read_trusted_key


def main(place: str, owner_file: str, key_name: str, target: str) -> None:
    """Count the words of every document."""
    owner = read_trusted_key(Path(owner_file).read_bytes())
    with attest.Session() as session, closing(store_of(place)) as store:
        with open_directory(store, key=session, trusted=(owner,)) as documents:
            counts = {name: len(documents.read(name).split()) for name in documents.entries}
        key = session.key(key_name)
        result = os.memfd_create("result")  # memory of this process: no name, no disk
        os.write(result, json.dumps(counts).encode())
        seal_file(result, target, key=key.export(), associated_data=b"word counts", random=os.urandom)


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit("usage: batch_job.py PLACE OWNER KEY TARGET")
    try:
        main(*sys.argv[1:])
    except attest.AttestError as error:
        sys.exit(f"error: {error.message}\nhint: {error.hint}")
