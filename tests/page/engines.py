"""Firefox and WebKitGTK, each driven by what its makers ship for that, without a package in between.

Firefox answers on a socket of its own (Marionette), WebKitGTK by a small server (WebDriver over HTTP); what they are
asked is the same.
"""

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, Final, Literal, Protocol, cast

from tests.page.browser import PREPARE, Verifier, serving

EngineName = Literal["firefox", "webkit"]
START_SECONDS: Final = 60
SCRIPT_SECONDS: Final = 120
_ELEMENT: Final = "element-6066-11e4-a52e-4f735466cecf"
_TIMEOUTS: Final = {"script": SCRIPT_SECONDS * 1000, "pageLoad": 60_000, "implicit": 0}
_FIREFOX: Final = "firefox-esr"
_MINI_BROWSERS: Final = "usr/lib/*/webkit2gtk-4.*/MiniBrowser"
_PREFERENCES: Final = {
    "marionette.port": 0,
    # Everything but the loopback address goes to a proxy that is not there.
    "network.proxy.type": 1,
    "network.proxy.http": "127.0.0.1",
    "network.proxy.http_port": 9,
    "network.proxy.ssl": "127.0.0.1",
    "network.proxy.ssl_port": 9,
    "app.update.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
}


class _Wire(Protocol):
    def ask(self, marionette: str, method: str, path: str, body: Mapping[str, Any]) -> Any:  # noqa: ANN401  any JSON
        """Put one question, by its name on a socket or by its address in WebDriver."""


class DrivenError(AssertionError):
    """The browser says that it cannot do what it was asked."""


class Engine:
    """A browser with one window."""

    def __init__(self, name: EngineName, wire: _Wire, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self._wire = wire

    def go(self, url: str) -> None:
        """Load a page, and wait until it is there."""
        self._wire.ask("WebDriver:Navigate", "POST", "/url", {"url": url})

    def run(self, script: str, *arguments: object) -> Any:  # noqa: ANN401  whatever the script returns
        """Run the body of a function, and wait for what it returns."""
        given = {"script": script, "args": list(arguments)}
        return self._wire.ask("WebDriver:ExecuteScript", "POST", "/execute/sync", given)

    def click(self, selector: str) -> None:
        """Click, as a person does: what is covered or disabled is not clicked. It is waited for."""
        self.wait("!!document.querySelector(arguments[0])", selector)
        # WebKit's driver clicks only what is in sight.
        self.run("document.querySelector(arguments[0]).scrollIntoView({ block: 'center' })", selector)
        self._wire.ask("WebDriver:ElementClick", "POST", f"/element/{self._find(selector)}/click", {})

    def type(self, selector: str, text: str) -> None:
        """Type into a field; into one for files, the path of a file."""
        self._wire.ask("WebDriver:ElementSendKeys", "POST", f"/element/{self._find(selector)}/value", {"text": text})

    def wait(self, condition: str, *arguments: object, seconds: float = 60) -> Any:  # noqa: ANN401
        """Wait until an expression is true, and say what it was in the end."""
        ends = time.monotonic() + seconds
        while not (found := self.run(f"return {condition}", *arguments)):
            if time.monotonic() > ends:
                told = self.run("return document.body.innerText")
                raise DrivenError(f"{self.name}: never {condition} {arguments}: {told}")
            time.sleep(0.05)
        return found

    def saved(self, name: str) -> bytes:
        """Wait for a file that the page hands out; both put it below their home without asking."""
        ends = time.monotonic() + 60
        while not (found := [one for one in self.folder.rglob(name) if one.stat().st_size]):
            if time.monotonic() > ends:
                raise DrivenError(f"{self.name}: {name} was not saved")
            time.sleep(0.05)
        (file,) = found
        data = file.read_bytes()
        file.unlink()
        return data

    def _find(self, selector: str) -> str:
        given = {"using": "css selector", "value": selector}
        return cast("str", self._wire.ask("WebDriver:FindElement", "POST", "/element", given)[_ELEMENT])


class _EnginePage:
    """As much of Playwright's page as ``Verifier`` needs; its own page has no policy against ``eval``."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def reload(self) -> None:
        self._engine.run("location.reload()")
        self._engine.wait("document.readyState === 'complete' && !window.attest")

    def evaluate(self, text: str, *arguments: object) -> Any:  # noqa: ANN401
        """Evaluate an expression, and call what is a function; in the page's own realm, where imports are its own."""
        called = f"((found) => typeof found === 'function' ? found(...{json.dumps(arguments)}) : found)(\n{text}\n)"
        return self._engine.run("return window.eval(arguments[0])", called)


@contextmanager
def verifier_in(name: EngineName, folder: Path) -> Iterator[Verifier]:
    """Start a browser with the bundle in a page, as ``tests.page.browser.verifier`` does."""
    with driven(name, folder) as engine, serving() as url:
        engine.go(url)
        found = verifier_of(engine)
        found.page.evaluate(PREPARE)
        yield found


def verifier_of(engine: Engine) -> Verifier:
    """Give the questions of the other tests to this browser, whose page must be the tests' own."""
    return Verifier(cast("Any", _EnginePage(engine)))


# -- starting them


def missing(name: EngineName) -> str | None:
    """Say what is not there, and how Debian gets it."""
    if name == "firefox":
        return None if shutil.which(_FIREFOX) else "no Firefox here; on Debian: apt-get install firefox-esr"
    there = shutil.which("WebKitWebDriver") and shutil.which("Xvfb") and _mini_browser()
    return None if there else "no WebKitGTK with a driver here; on Debian: apt-get install webkit2gtk-driver xvfb"


def promised(name: EngineName) -> bool:
    """Say whether a missing one fails the tests."""
    return os.environ.get(f"ATTEST_REQUIRE_{name.upper()}") == "1"


@contextmanager
def driven(name: EngineName, folder: Path) -> Iterator[Engine]:
    """Start a browser that has nothing but an empty folder."""
    folder.chmod(0o700)
    environment = {"HOME": str(folder), "XDG_RUNTIME_DIR": str(folder), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    with ExitStack() as stack, (folder / "log").open("wb") as log:
        start = _firefox if name == "firefox" else _webkit
        yield Engine(name, start(stack, folder, environment, log), folder)


def _mini_browser() -> str | None:
    return next(map(str, sorted(Path("/").glob(_MINI_BROWSERS), reverse=True)), None)


@contextmanager
def _running(words: list[str], environment: Mapping[str, str], log: IO[bytes], **more: Any) -> Iterator[None]:  # noqa: ANN401  of Popen
    """Run a program with its children, and end all of them."""
    process = subprocess.Popen(words, env=environment, stdout=log, stderr=log, start_new_session=True, **more)
    try:
        yield
    finally:
        for how in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(process.pid, how)
                process.wait(timeout=5)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue
        process.wait()


def _until(attempt: Any, what: str) -> Any:  # noqa: ANN401  what the attempt gives
    ends = time.monotonic() + START_SECONDS
    while (found := attempt()) is None:
        if time.monotonic() > ends:
            raise DrivenError(f"{what} does not start")
        time.sleep(0.05)
    return found


# -- Firefox


class _Marionette:
    """Messages ``length:[0, number, command, parameters]`` and ``length:[1, number, error, result]``."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=SCRIPT_SECONDS + 30)
        self._stream = self._socket.makefile("rb")
        self._asked = 0
        self._read()

    def ask(self, marionette: str, method: str, path: str, body: Mapping[str, Any]) -> Any:  # noqa: ANN401
        del method
        found = self.command(
            marionette, {**body, **({"id": path.split("/")[2]} if path.startswith("/element/") else {})}
        )
        return found["value"] if isinstance(found, dict) and set(found) == {"value"} else found

    def command(self, name: str, parameters: Mapping[str, Any]) -> Any:  # noqa: ANN401
        self._asked += 1
        told = json.dumps([0, self._asked, name, parameters]).encode()
        self._socket.sendall(b"%d:%b" % (len(told), told))
        _, _, error, result = self._read()
        if error:
            raise DrivenError(f"firefox, {name}: {error['error']}: {error['message']}")
        return result

    def close(self) -> None:
        self._stream.close()
        self._socket.close()

    def _read(self) -> Any:  # noqa: ANN401
        length = b""
        while (one := self._stream.read(1)) not in {b":", b""}:
            length += one
        return json.loads(self._stream.read(int(length)))


def _firefox(stack: ExitStack, folder: Path, environment: Mapping[str, str], log: IO[bytes]) -> _Wire:
    told = "".join(f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in _PREFERENCES.items())
    (folder / "user.js").write_text(told)
    words = [_FIREFOX, "--headless", "--no-remote", "--marionette", "--profile", str(folder)]
    stack.enter_context(_running(words, environment, log))
    port = folder / "MarionetteActivePort"
    wire = _Marionette(int(_until(lambda: (port.exists() and port.read_text()) or None, "Firefox")))
    stack.callback(wire.close)
    wire.command("WebDriver:NewSession", {})
    wire.command("WebDriver:SetTimeouts", _TIMEOUTS)
    return wire


# -- WebKitGTK


class _WebDriver:
    def __init__(self, port: int) -> None:
        self._port = port
        self.session = ""

    def ask(self, marionette: str, method: str, path: str, body: Mapping[str, Any]) -> Any:  # noqa: ANN401
        del marionette
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=SCRIPT_SECONDS + 30)
        try:
            told = json.dumps(body) if method == "POST" else None
            connection.request(method, self.session + path, told, {"content-type": "application/json"})
            answer = connection.getresponse()
            value = json.loads(answer.read())["value"]
        finally:
            connection.close()
        if answer.status != http.client.OK:
            raise DrivenError(f"webkit, {path}: {value['error']}: {value['message']}")
        return value


def _webkit(stack: ExitStack, folder: Path, environment: Mapping[str, str], log: IO[bytes]) -> _Wire:
    # Without a screen it has none to draw on, so it gets one that nobody sees.
    reading, writing = os.pipe()
    words = ["Xvfb", "-displayfd", str(writing), "-screen", "0", "1000x900x24", "-nolisten", "tcp"]
    stack.enter_context(_running(words, environment, log, pass_fds=[writing]))
    os.close(writing)
    with os.fdopen(reading, "rb") as told:
        display = told.readline().decode().strip()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    seen = {
        **environment,
        "DISPLAY": f":{display}",
        "GDK_BACKEND": "x11",
        "WEBKIT_DISABLE_COMPOSITING_MODE": "1",
        "NO_AT_BRIDGE": "1",
    }
    stack.enter_context(_running(["WebKitWebDriver", f"--port={port}"], seen, log, cwd=folder))
    wire = _WebDriver(port)

    def session() -> Any:  # noqa: ANN401
        options = {"binary": _mini_browser(), "args": ["--automation"]}
        always = {"webkitgtk:browserOptions": options, "timeouts": _TIMEOUTS}
        try:
            return wire.ask("", "POST", "/session", {"capabilities": {"alwaysMatch": always}})
        except ConnectionRefusedError:
            return None

    wire.session = f"/session/{_until(session, 'WebKitWebDriver')['sessionId']}"
    stack.callback(wire.ask, "", "DELETE", "", {})
    return wire
