"""Sealing and unsealing against ``openssl speed`` and Tink, and their use of memory.

``openssl speed`` encrypts one MiB again and again where it lies: no file, no second buffer, all of it in the cache of
the processor. This benchmark also copies the file out of the page cache and writes the outcome to memory, so the
bare copy is measured beside it: one core that first copies and then decrypts cannot be quicker than both together
allow. The ``openssl`` program and the library in ``cryptography`` are two builds, and may differ more than a factor of
two.

Each round asks openssl before and after, so that a slow moment of a shared machine hits both; figures are medians of
the rounds' ratios. The output is touched before, so that page faults are not counted as decryption.
"""

from __future__ import annotations

import io
import mmap
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from attest.errors import ConfigurationError
from attest.sealed import FileHeader, FileSource, SealedReader, SegmentCipher, seal_file, seal_to, tink_keyset
from attest.sealed.layout import SEGMENT_BYTES
from attest.sealed.worker_threads import Scratch, spread, thread_count
from benchmarks.measure import Figure, interleaved_ratio

__all__ = ["random_read", "seal_vs_openssl", "unseal_memory", "unseal_vs_openssl", "unseal_vs_tink"]

KEY, AAD = bytes(range(32)), b"benchmark"
WHOLE_BYTES = 2 << 30
TINK_BYTES = 256 << 20
ROUNDS = 5
MEMORY_BYTES = (256 << 20, 1 << 30)
SMALL_BYTES = 4096
_GIGA = 1e9


def _openssl(threads: int, seconds: int) -> float:
    """Return what openssl encrypts in GB/s, with this number of processes at once."""
    command = ["openssl", "speed", "-elapsed", "-evp", "aes-256-gcm", "-bytes", str(SEGMENT_BYTES)]
    command += ["-seconds", str(seconds), *(["-multi", str(threads)] if threads > 1 else [])]
    try:
        told = subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip().splitlines()
    except (OSError, subprocess.CalledProcessError) as exc:
        raise ConfigurationError(
            "openssl cannot be run", code="peer-unavailable", hint="install the package openssl"
        ) from exc
    return float(told[-1].split()[-1].removesuffix("k")) * 1e3 / _GIGA


def _openssl_version() -> str:
    return " ".join(
        subprocess.run(["openssl", "version"], capture_output=True, check=True, text=True).stdout.split()[:2]
    )


def _rate(size: int, work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return size / (time.perf_counter() - begin) / _GIGA


@contextmanager
def _files(size: int) -> Iterator[tuple[Path, Path]]:
    """Give a plaintext and its sealed file, both in the page cache."""
    with tempfile.TemporaryDirectory() as scratch:
        plain, sealed = Path(scratch, "plain"), Path(scratch, "sealed")
        block = random.Random(1).randbytes(SEGMENT_BYTES)
        with plain.open("wb") as file:
            for begin in range(0, size, SEGMENT_BYTES):
                file.write(block[: size - begin])
        seal_file(plain, sealed, key=KEY, associated_data=AAD, random=os.urandom)
        yield plain, sealed


@contextmanager
def _memory(size: int) -> Iterator[memoryview]:
    """Give memory that is there: on huge pages where the machine has them, and every page touched."""
    with mmap.mmap(-1, size) as pages:
        pages.madvise(mmap.MADV_HUGEPAGE)
        with memoryview(pages) as view:
            for at in range(0, size, mmap.PAGESIZE):
                view[at] = 1
            yield view


def _opened(path: Path, threads: int) -> SealedReader:
    return SealedReader(FileSource(path), key=KEY, associated_data=AAD, threads=threads)


def _copy(path: Path, threads: int) -> None:
    """Copy a file out of the page cache, a segment at a time into one buffer a thread; nothing else."""
    source, scratch = FileSource(path), Scratch()

    def one(index: int) -> None:
        begin, buffer = index * SEGMENT_BYTES, scratch.take()
        source.read_into(begin, buffer[: source.size - begin])
        scratch.give(buffer)

    spread(-(-source.size // SEGMENT_BYTES), one, threads=threads)
    source.close()


def _against_openssl(  # noqa: PLR0917  of this file alone
    size: int, work: Callable[[], object], path: Path, threads: int, rounds: int, seconds: int
) -> tuple[float, str]:
    """Return the median ratio to openssl, and what was measured."""
    work()
    taken: list[tuple[float, float, float]] = []
    for _ in range(rounds):
        before = _openssl(threads, seconds)
        copy, rate = _rate(size, partial(_copy, path, threads)), _rate(size, work)
        taken.append(((before + _openssl(threads, seconds)) / 2, copy, rate))
    ratio = statistics.median(rate / openssl for openssl, _, rate in taken)
    bound = statistics.median(copy / (copy + openssl) for openssl, copy, _ in taken)
    openssl, copy, rate = (statistics.median(one[n] for one in taken) for n in range(3))
    return ratio, (
        f"{size >> 20} MiB, {threads} threads on {os.cpu_count()} cores: {rate:.2f} GB/s; {_openssl_version()} speed "
        f"{openssl:.2f} GB/s, bare copy out of the page cache {copy:.2f} GB/s: at openssl's speed, copying first "
        f"would give {bound:.2f}"
    )


def unseal_vs_openssl(threads: int, *, size: int = WHOLE_BYTES, rounds: int = ROUNDS, seconds: int = 1) -> Figure:
    """Measure decrypting a whole file from the page cache into memory."""
    with _files(size) as (_, sealed), _memory(size) as out, _opened(sealed, threads) as reader:
        ratio, told = _against_openssl(size, partial(reader.read_into, 0, out), sealed, threads, rounds, seconds)
    return Figure(id=f"unseal-vs-openssl-{threads}", value=ratio, bar=0.9, better="higher", detail=told)


def seal_vs_openssl(*, size: int = WHOLE_BYTES, rounds: int = ROUNDS, seconds: int = 1) -> Figure:
    """Measure encrypting a whole file from the page cache; each segment stays in a buffer, as with openssl."""
    threads = 1
    seal = partial(seal_to, key=KEY, associated_data=AAD, random=os.urandom, threads=threads)
    with _files(size) as (plain, sealed):
        ratio, told = _against_openssl(size, partial(seal, plain, lambda *_: None), plain, threads, rounds, seconds)
        to_file = partial(seal_file, plain, sealed, key=KEY, associated_data=AAD, random=os.urandom, threads=threads)
        written = _rate(size, to_file)
        hashed = _rate(size, partial(to_file, digests=True))
    told += f"; into a new file on a disk, synchronised: {written:.2f} GB/s, with both digests {hashed:.2f} GB/s"
    return Figure(id="seal-vs-openssl", value=ratio, bar=0.9, better="higher", detail=told)


class _Unclosed(io.BytesIO):
    """Tink closes what it reads from."""

    def close(self) -> None:
        self.seek(0)


def unseal_vs_tink(*, size: int = TINK_BYTES, rounds: int = ROUNDS) -> Figure:
    """Measure decrypting a file as a user would, with all processors, against the Tink wheel, which uses one."""
    import tink  # noqa: PLC0415  a development dependency, and slow to import
    from tink import secret_key_access, streaming_aead  # noqa: PLC0415

    streaming_aead.register()
    handle = tink.json_proto_keyset_format.parse(tink_keyset(KEY), secret_key_access.TOKEN)
    primitive = handle.primitive(streaming_aead.StreamingAead)

    threads = thread_count(None)
    with (
        _files(size) as (_, sealed),
        _memory(size) as out,
        _opened(sealed, threads) as reader,
        _opened(sealed, 1) as single,
    ):
        raw = sealed.read_bytes()

        def theirs() -> None:
            with primitive.new_decrypting_stream(_Unclosed(raw), AAD) as stream:
                if len(stream.read()) != size:
                    msg = "Tink opened another file"
                    raise RuntimeError(msg)

        ratio, tink_seconds, seconds = interleaved_ratio(
            theirs, partial(reader.read_into, 0, out), rounds=rounds, times=1
        )
        alone, _, alone_seconds = interleaved_ratio(theirs, partial(single.read_into, 0, out), rounds=rounds, times=1)
    told = (
        f"{size >> 20} MiB from the page cache, {threads} threads: {size / seconds / _GIGA:.2f} GB/s; the tink wheel, "
        f"from memory, {size / tink_seconds / _GIGA:.2f} GB/s; one thread: {size / alone_seconds / _GIGA:.2f} GB/s, "
        f"{alone:.1f} times the wheel"
    )
    return Figure(id="unseal-vs-tink", value=ratio, bar=5, better="higher", detail=told)


_MEASURE = """
import mmap, sys
from attest.sealed import FileSource, SealedReader

def most():  # in KiB; resource.getrusage would count what the process was before it became this one
    with open("/proc/self/status") as status:
        return int(status.read().split("VmHWM:")[1].split()[0])

reader = SealedReader(FileSource(sys.argv[1]), key=bytes(range(32)), associated_data=b"benchmark")
out = mmap.mmap(-1, reader.size)
for at in range(0, reader.size, mmap.PAGESIZE):
    out[at] = 1
before = most()
reader.read_into(0, memoryview(out))
reader.stream(len)
print(most() - before, before - reader.size // 1024)
"""


def unseal_memory(*, sizes: tuple[int, ...] = MEMORY_BYTES) -> Figure:
    """Measure how far resident memory rises above that of the output, for files of several sizes."""
    told, worst = [], 0.0
    for size in sizes:
        with _files(size) as (_, sealed):
            command = [sys.executable, "-c", _MEASURE, str(sealed)]
            out = subprocess.run(command, capture_output=True, check=True, text=True).stdout.split()
        rise = int(out[0]) / 1024
        worst = max(worst, rise)
        told.append(
            f"{size >> 20} MiB: {rise:.1f} MiB (the interpreter and its modules before: {int(out[1]) >> 10} MiB)"
        )
    detail = "peak resident memory above interpreter and output; " + "; ".join(told)
    return Figure(id="unseal-memory-mb", value=worst, bar=64, better="lower", detail=detail)


def random_read(*, size: int = TINK_BYTES, rounds: int = 41, times: int = 50) -> Figure:
    """Measure reading 4 KiB anywhere against reading and decrypting one segment, which it cannot do without."""
    rng = random.Random(4)
    with (
        _files(size) as (_, sealed),
        _opened(sealed, 1) as reader,
        closing(FileSource(sealed)) as source,
        _memory(2 * SEGMENT_BYTES) as room,
    ):
        header = bytearray(40)
        source.read_into(0, memoryview(header))
        cipher = SegmentCipher(KEY, FileHeader.parse(bytes(header)), AAD)
        ciphertext, content = room[:SEGMENT_BYTES], room[SEGMENT_BYTES : 2 * SEGMENT_BYTES - 16]
        small = bytearray(SMALL_BYTES)
        full = source.size // SEGMENT_BYTES - 1

        def segment() -> None:
            index = rng.randint(1, full)
            source.read_into(index * SEGMENT_BYTES, ciphertext)
            cipher.decrypt_into(index, index == full and not source.size % SEGMENT_BYTES, ciphertext, content)

        def read() -> None:
            reader.read_into(rng.randrange(size - SMALL_BYTES), small)

        ratio, segment_seconds, seconds = interleaved_ratio(segment, read, rounds=rounds, times=times)
        ciphertext.release()
        content.release()
    told = f"4 KiB anywhere {seconds * 1e6:.0f} µs, one segment read and decrypted {segment_seconds * 1e6:.0f} µs"
    return Figure(id="sealed-random-read", value=1 / ratio, bar=1.3, better="lower", detail=told)
