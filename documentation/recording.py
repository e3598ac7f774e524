"""The recording of the demonstration: an asciicast of a real run, and the animated picture that is made from it."""

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

COMMAND: Final = "make demo ARGS=--script"
ROWS: Final = 19
COLUMNS: Final = 112
LINE_HEIGHT: Final = 19
PAUSE_SECONDS: Final = 6
"""How long the last lines are shown before the picture starts again."""
LONGEST_SECONDS: Final = 1.6
"""Longer waits of the run are shortened to this."""
MARGIN: Final = 14
COLOURS: Final = (("✓", "#4ade80"), ("   shows:", "#94a3b8"), ("***", "#facc15"), ("every step had", "#4ade80"))


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the terminal, with the moment at which it appears in the picture."""

    at: float
    text: str


def record(path: Path) -> None:
    """Run the demonstration, and write what it prints as an asciicast of version 2."""
    run = subprocess.Popen(
        [sys.executable, "-m", "rag_demo", "--script"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if run.stdout is None:
        raise RuntimeError("the demonstration has no output")
    began = time.monotonic()
    header = {"version": 2, "width": COLUMNS, "height": ROWS, "title": COMMAND}
    lines = [json.dumps(header)]
    for text in run.stdout:
        event = [round(time.monotonic() - began, 3), "o", text]
        lines.append(json.dumps(event, ensure_ascii=False))
    if run.wait():
        raise SystemExit(f"the demonstration ended with exit code {run.returncode}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def read(path: Path) -> list[Line]:
    """Read a recording; waits are shortened, and a step begins with an empty line."""
    found = [Line(at=0.0, text=f"$ {COMMAND}")]
    last = shown = 0.0
    for event in path.read_text(encoding="utf-8").splitlines()[1:]:
        at, _, text = json.loads(event)
        shown += max(0.15, min(at - last, LONGEST_SECONDS))
        last = at
        found.append(Line(at=shown, text=text.rstrip("\n")))
    return found


def _shown(text: str) -> str:
    colour = next((colour for start, colour in COLOURS if text.strip().startswith(start.strip())), "#e2e8f0")
    weight = " font-weight='700'" if text[:1].isdigit() or text.startswith("$") else ""
    cut = text if len(text) <= COLUMNS else text[: COLUMNS - 1] + "…"
    return f"fill='{colour}'{weight} xml:space='preserve'>{escape(cut)}"


def svg(lines: list[Line]) -> str:
    """Return the animated picture: lines appear as they did, and the window scrolls."""
    length = lines[-1].at + PAUSE_SECONDS
    width, height = COLUMNS * 8 + 2 * MARGIN, ROWS * LINE_HEIGHT + 2 * MARGIN
    last = (len(lines) - ROWS) * LINE_HEIGHT
    frames, texts = [], []
    for number, line in enumerate(lines):
        share = 100 * line.at / length
        offset = max(0, number + 1 - ROWS) * LINE_HEIGHT
        frames.append(f"{share:.2f}%{{transform:translateY(-{offset}px)}}")
        y = MARGIN + (number + 0.75) * LINE_HEIGHT
        texts.append(f"<text x='{MARGIN}' y='{y:g}' class='l' style='--s:{line.at:.2f}s' {_shown(line.text)}</text>")
    frames.append(f"100%{{transform:translateY(-{last}px)}}")
    style = (
        f".w{{animation:scroll {length:.2f}s step-end 1 forwards}}"
        ".l{animation:show .01s linear var(--s) 1 both}"
        "@keyframes show{from{opacity:0}to{opacity:1}}"
        f"@keyframes scroll{{{''.join(frames)}}}"
        "@media (prefers-reduced-motion:reduce){.l{animation:none}"
        f".w{{animation:none;transform:translateY(-{last}px)}}}}"
    )
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' height='{height}'"
        " role='img' font-family='ui-monospace, SFMono-Regular, Menlo, Consolas, monospace' font-size='13'>\n"
        "<title>Recording of the demonstration in a terminal</title>\n"
        f"<style>{style}</style>\n<rect width='{width}' height='{height}' rx='10' fill='#0f172a'/>\n"
        f"<clipPath id='c'><rect x='0' y='{MARGIN}' width='{width}' height='{ROWS * LINE_HEIGHT}'/></clipPath>\n"
        "<g clip-path='url(#c)'><g class='w'>\n" + "\n".join(texts) + "\n</g></g>\n</svg>\n"
    )
