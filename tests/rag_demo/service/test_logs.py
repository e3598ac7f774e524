"""What Python and libraries do by themselves: write what exceptions say, and obey the environment. Not here."""

import json
import os
import subprocess
import sys
from pathlib import Path

SECRET = "the patient has gout"
_DEFECTS = f"""
import asyncio, gc, logging, sys, threading, warnings
from rag_demo.enclave.service.logs import set_up_logs

set_up_logs()

def fail(where, *_):
    raise ValueError("{SECRET}: " + where)

class Kept:
    def __del__(self):
        fail("finaliser")

async def task():
    fail("task")

async def generator():
    try:
        yield 1
    finally:
        fail("generator")

async def main():
    loop = asyncio.get_running_loop()
    running = asyncio.create_task(task())
    await asyncio.sleep(0.01)
    del running
    loop.call_soon(fail, "callback", "{SECRET}")
    left = generator()
    await anext(left)
    del left
    future = loop.create_future()
    future.set_exception(ValueError("{SECRET}: future"))
    del future
    gc.collect()
    await asyncio.sleep(0.01)

threading.Thread(target=fail, args=("thread",)).start()
Kept()
gc.collect()
asyncio.run(main())
logging.getLogger("rag.enclave").error("too few places %s", "{SECRET}", "{SECRET}")
logging.getLogger("of.another").error("somebody else's [%s] of {SECRET}", "{SECRET}")
warnings.warn("{SECRET}: warning", stacklevel=1)
fail("program")
"""


def test_whatever_fails_wherever_the_log_has_its_kind_and_its_place_alone() -> None:
    done = subprocess.run([sys.executable, "-c", _DEFECTS], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert SECRET not in done.stdout + done.stderr
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert sum(one.get("exception", [""])[0] == "ValueError" for one in lines) == 7
    assert any(one["message"].startswith("UserWarning at ") for one in lines)
    assert {one["message"] for one in lines if one["logger"] == "asyncio"} >= {"Task exception was never retrieved"}
    assert [one["message"] for one in lines if one["logger"] == "of.another"] == ["somebody else"]


_ENVIRONMENT = """
import json, ssl
from psycopg import pq
from rag_demo.enclave.service.process import prepare

prepare()
defaults = {one.keyword.decode(): one.val for one in pq.Conninfo.get_defaults()}
print(json.dumps([ssl.create_default_context().keylog_filename, str(defaults["hostaddr"]), str(defaults["sslmode"])]))
"""


def test_the_environment_leads_no_connection_elsewhere_and_no_keys_into_a_file(tmp_path: Path) -> None:
    said = {"PGHOSTADDR": "192.0.2.1", "PGSSLMODE": "disable", "SSLKEYLOGFILE": str(tmp_path / "keys")}
    done = subprocess.run(
        [sys.executable, "-c", _ENVIRONMENT],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, **said},
    )
    keys, address, mode = json.loads(done.stdout)
    assert keys is None
    assert "192.0.2.1" not in address
    assert "disable" not in mode
    assert not (tmp_path / "keys").exists()
    assert {name for name in said if name in done.stderr} == set(said)  # told, and not obeyed
    assert "192.0.2.1" not in done.stderr
