"""Commands that change their host, on a root file system in memory over that of this machine: nothing of it stays."""

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
START = Path(__file__).with_name("throwaway-root.sh")
UNSHARE = ("unshare", "--mount", "--pid", "--ipc", "--uts", "--cgroup", "--fork", "--kill-child")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_ON_DISK = "/var/tmp"  # noqa: S108  folders made in it are for one user
"""Of the folders: the new root has a ``/dev`` of its own, which hides the files in ``/dev/shm``."""
_KEPT = ("PIP_", "SSL_", "REQUESTS_", "HTTP", "http", "no_proxy", "NO_PROXY")
"""Of the environment: what says how packages are reached."""


@contextmanager
def checkout() -> Iterator[Path]:
    """Copy the files of the repository into a folder that every user may read."""
    from tests.test_house import tracked_files

    folder = Path(tempfile.mkdtemp(prefix="checkout-", dir=_ON_DISK))
    try:
        folder.chmod(0o755)
        for name in tracked_files():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
        yield folder
    finally:
        shutil.rmtree(folder)


def run_in_throwaway_root(
    script: str, *, folder: Path, booted: bool = False, timeout: float = 400, shared: tuple[Path, ...] = ()
) -> str:
    """Run commands as root in a folder, with systemd if ``booted``, and return what they print.

    Args:
        shared: folders of this machine that are there, too.
    """
    kept = {name: value for name, value in os.environ.items() if name.startswith(_KEPT)}
    known = {**kept, "PATH": PATH, "HOME": "/root", "LC_ALL": "C.UTF-8", "PIP_QUIET": "1"}
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in known.items())
    (folder / "script").write_text(exports + script, encoding="utf-8")
    done = subprocess.run(
        [*UNSHARE, "bash", str(START), str(folder), "script", *map(str, shared)],
        env=os.environ | {"BOOTED": str(int(booted))},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    said = (folder / "said").read_text(errors="replace") if (folder / "said").exists() else ""
    assert (folder / "rc").exists(), (done, (folder / "console").read_text(errors="replace"), said)
    assert (folder / "rc").read_text() == "0\n", said
    return said


def missing(*, booted: bool = False) -> str | None:
    """Return why no such root can be made here, or None."""
    if os.geteuid() != 0:
        return "a root file system of one's own takes root"
    if booted and not Path("/lib/systemd/systemd").exists():
        return "there is no systemd here (Debian: systemd)"
    try:
        with tempfile.TemporaryDirectory(dir=_ON_DISK) as folder:
            run_in_throwaway_root("true\n", folder=Path(folder), booted=booted, timeout=60)
    except (AssertionError, OSError, subprocess.TimeoutExpired) as exc:
        return f"no root file system can be made here: {exc}"
    return None
