"""What the tests of the channel share: published vectors, keys, a service and clients that trust it."""

from functools import cache
from pathlib import Path

VECTORS = Path(__file__).parent / "vectors.txt"


@cache
def vectors(name: str) -> dict[str, bytes]:
    """Return the vectors under a heading."""
    section = VECTORS.read_text().split(f"\n[{name}]\n")[1].split("\n[")[0]
    pairs = (line.split(": ") for line in section.splitlines() if line)
    return {key: bytes.fromhex(value) for key, value in pairs}
