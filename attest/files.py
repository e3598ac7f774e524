"""New files that are whole or not there: the one way in which a file is written as a whole.

::

    write_file    a file whose content is available
    new_file      a file that is written in pieces
    write_result  a file that a person named for the result of a command

``attest.unfinished_file`` is for files that another library writes by name, or that outlive an interruption.
The bytes go to a file without a name in the target's folder (``O_TMPFILE``), which vanishes with the process. Where the
file system has no such files they go to ``.<target>.<16 hex digits>.part``. When every byte is on the disk, the file
gets the target's name in one step. A link in the target's place is never followed.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from attest.errors import OutputError

Content = bytes | bytearray | memoryview
OWNER_ONLY: Final = 0o600
PART_SUFFIX: Final = ".part"
"""Ends the name of a file that is not whole yet."""
_AS_UMASK_SAYS: Final = 0o666
_PERMISSIONS: Final = 0o777
_NAME_BYTES: Final = 8
_MAX_NAME_BYTES: Final = 200
"""Characters of the target's name in that of the part, so that both fit into 255."""
_OWN_DESCRIPTORS: Final = "/proc/self/fd"
_NO_NAMELESS_FILES: Final = frozenset({errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT})
"""EISDIR from kernels that do not know the flag; a folder that is missing answers ENOENT again under a name."""
_NO_LINKS: Final = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS})
"""Error numbers of file systems without hard links."""
_NOTHING_TO_FLUSH: Final = frozenset({errno.EINVAL, errno.EACCES})
"""EINVAL from file systems that flush no folders, EACCES for a folder that its user may write to and not read."""
_EXISTS_HINT: Final = "existing files are not overwritten: name another file"


class NewFile:
    """A file that does not have its name yet."""

    def __init__(self, target: str, descriptor: int) -> None:
        self._target = target
        self._descriptor = descriptor

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._descriptor

    def write(self, data: Content, /) -> int:
        """Append all of it, and return how much that is.

        Raises:
            OutputError: ``output-unwritable``.
        """
        write_all(self._descriptor, data, name=self._target)
        return len(data)

    def write_at(self, offset: int, data: Content) -> None:
        """Write all of it at this offset; several threads may.

        Raises:
            OutputError: ``output-unwritable``.
        """
        left = memoryview(data)
        try:
            while left:
                done = os.pwrite(self._descriptor, left, offset)
                left, offset = left[done:], offset + done
        except OSError as exc:
            raise _unwritable(self._target, exc) from exc


def write_all(descriptor: int, data: Content, *, name: str) -> None:
    """Write all of it to a descriptor.

    Raises:
        OutputError: ``output-unwritable``; ``name`` is that of the target.
        BrokenPipeError: the reader of a pipe went away.
    """
    left = memoryview(data)
    try:
        while left:
            left = left[os.write(descriptor, left) :]
    except BrokenPipeError:
        raise
    except OSError as exc:
        raise _unwritable(name, exc) from exc


def write_file(
    target: str | os.PathLike[str],
    data: Content | str,
    *,
    mode: int | None = OWNER_ONLY,
    replace: bool = False,
    hint: str = _EXISTS_HINT,
) -> None:
    """Write a file that is whole or not there, by default a new one that its owner alone can read.

    Text becomes UTF-8; the other arguments are those of ``new_file``.

    Raises:
        OutputError: ``output-exists`` or ``output-unwritable``.
    """
    with new_file(target, mode=mode, replace=replace, hint=hint) as file:
        file.write(data.encode() if isinstance(data, str) else data)


def write_result(
    target: str | os.PathLike[str], data: Content, *, replace: bool = False, hint: str = _EXISTS_HINT
) -> None:
    """Write the result of a command to the place that a person named.

    The umask sets the permissions of a new file. Where a file is replaced, a link leads to it, it keeps its mode, and a
    device or a pipe takes the bytes as they come. ``replace`` and ``hint`` are as for ``new_file``.

    Raises:
        OutputError: ``output-exists`` or ``output-unwritable``.
    """
    shown = os.fspath(target)
    if not replace:
        write_file(shown, data, mode=None, hint=hint)
        return
    with output_errors(shown):
        path = Path(shown)
        if path.exists() and not (path.is_file() or path.is_dir()):
            with path.open("wb", buffering=0) as stream:
                write_all(stream.fileno(), data, name=shown)
            return
        path = path.resolve()
        mode = stat.S_IMODE(path.stat().st_mode) & _PERMISSIONS if path.exists() else None
    write_file(path, data, mode=mode, replace=True)


@contextmanager
def new_file(
    target: str | os.PathLike[str],
    *,
    mode: int | None = OWNER_ONLY,
    replace: bool = False,
    hint: str = _EXISTS_HINT,
    random: Callable[[int], bytes] = os.urandom,
    nameless: bool = True,
) -> Iterator[NewFile]:
    """Make a file that gets its name when the block ends without an exception, and is gone otherwise.

    Args:
        target: path of the file.
        mode: its permissions whatever the umask is; None leaves them to the umask.
        replace: take the place of a file that is there; otherwise one is refused, even one that comes meanwhile.
        hint: for a person whose file is refused because one is there.
        random: returns so many random bytes, which make the temporary name.
        nameless: False never tries a file without a name.

    Raises:
        OutputError: ``output-exists`` or ``output-unwritable``.
    """
    shown = os.fspath(target)
    if _is_there(shown) and not replace:
        raise _exists(shown, hint)
    with output_errors(shown):
        final = Path(shown)
        short = os.fsencode(final.name)[:_MAX_NAME_BYTES].decode(errors="ignore")
        part = final.with_name(f".{short}.{random(_NAME_BYTES).hex()}{PART_SUFFIX}")
        first = _AS_UMASK_SAYS if mode is None else OWNER_ONLY
        descriptor, named = _open(part, first, nameless=nameless)
    try:
        try:
            yield NewFile(shown, descriptor)
            with output_errors(shown, hint=hint):
                if mode is not None:
                    os.fchmod(descriptor, mode)
                os.fsync(descriptor)
                _give_name(descriptor, part, final, named=named, replace=replace)
        finally:
            os.close(descriptor)
    except BaseException:
        with suppress(OSError):  # Often there is none, and what went wrong is the better message.
            part.unlink()
        raise
    _flush_name(shown, final.parent)


def _open(part: Path, mode: int, *, nameless: bool) -> tuple[int, bool]:
    """Open the file without a name if that is possible, else as the part; return whether it has one."""
    # Only /proc can give such a file a name without further rights.
    if nameless and os.access(_OWN_DESCRIPTORS, os.X_OK):
        try:
            return os.open(part.parent, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, mode), False
        except OSError as exc:
            if exc.errno not in _NO_NAMELESS_FILES:
                raise
    return os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, mode), True


def _give_name(descriptor: int, part: Path, final: Path, *, named: bool, replace: bool) -> None:
    if not named:
        try:
            _link_nameless(descriptor, final)
        except FileExistsError:
            if not replace:
                raise
            # A link never replaces, so the name comes in two steps; between them the part is whole.
            _link_nameless(descriptor, part)
        else:
            return
    if replace:
        part.replace(final)
    else:
        _rename(part, final)


def _link_nameless(descriptor: int, name: Path) -> None:
    # Python calls linkat(2), which alone follows the link in /proc, only if it gets a descriptor of a folder. The
    # kernel does not look at that of an absolute source.
    os.link(f"{_OWN_DESCRIPTORS}/{descriptor}", name, src_dir_fd=descriptor, follow_symlinks=True)


def rename_new(part: Path, final: Path) -> None:
    """Give a file that is whole and on the disk another name, which nothing has yet.

    Raises:
        OutputError: ``output-exists`` or ``output-unwritable``.
    """
    with output_errors(str(final)):
        _rename(part, final)
    _flush_name(str(final), final.parent)


def _rename(part: Path, final: Path) -> None:
    try:
        os.link(part, final, follow_symlinks=False)
    except OSError as exc:
        if exc.errno not in _NO_LINKS:
            raise
        if os.path.lexists(final):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(final)) from exc
        part.rename(final)
    part.unlink(missing_ok=True)


@contextmanager
def output_errors(shown: str, *, hint: str = _EXISTS_HINT) -> Iterator[None]:
    """Turn the system's errors of a block into those of the file that it writes.

    Raises:
        OutputError: ``output-exists`` or ``output-unwritable``.
    """
    try:
        yield
    except FileExistsError as exc:
        raise _exists(shown, hint) from exc
    except (OSError, ValueError) as exc:
        raise _unwritable(shown, exc) from exc


def require_absent(target: str | os.PathLike[str], *, hint: str = _EXISTS_HINT) -> None:
    """Require that nothing has this name, not even a link that leads nowhere.

    Raises:
        OutputError: ``output-exists``, or ``output-unwritable``: it is no file name, or cannot be looked at.
    """
    shown = os.fspath(target)
    if _is_there(shown):
        raise _exists(shown, hint)


def _is_there(shown: str) -> bool:
    with output_errors(shown):
        try:
            os.lstat(shown)
        except FileNotFoundError:
            return False
    return True


def _exists(shown: str, hint: str) -> OutputError:
    return OutputError(
        f"{shown} already exists", code="output-exists", field=shown, reason="the file exists", hint=hint
    )


def _unwritable(shown: str, exc: OSError | ValueError) -> OutputError:
    reason, got = "no file name", None
    if isinstance(exc, OSError):
        reason, got = exc.strerror or str(exc), errno.errorcode.get(exc.errno or 0)
    return OutputError(
        f"{shown} cannot be written: {reason}",
        code="output-unwritable",
        field=shown,
        got=got,
        reason=reason,
        hint="use an existing, writable directory with free space",
    )


def flush_folder(folder: str | os.PathLike[str]) -> None:
    """Wait until the names in a folder are on the disk (``OSError``)."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as exc:
        if exc.errno not in _NOTHING_TO_FLUSH:
            raise


def _flush_name(shown: str, folder: Path) -> None:
    try:
        flush_folder(folder)
    except OSError as exc:
        raise OutputError(
            f"{shown} is complete, but its name may not survive a power failure: {exc.strerror}",
            code="output-unwritable",
            field=shown,
            got=errno.errorcode.get(exc.errno or 0),
            reason=exc.strerror or str(exc),
            hint="check the disk; the file exists under its name",
            written=True,
        ) from exc
