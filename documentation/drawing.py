"""A drawing of boxes, frames and arrows, written as SVG."""

from dataclasses import dataclass, field
from html import escape
from typing import Final

TONES: Final = {
    "plain": ("#ffffff", "#64748b"),
    "trusted": ("#e0f2e9", "#2f855a"),
    "untrusted": ("#fdecea", "#c05621"),
    "key": ("#fef6d8", "#b7791f"),
    "service": ("#e6effb", "#2b6cb0"),
}
"""Fill and stroke of each tone."""
LINE_HEIGHT: Final = 17
FONT: Final = "font-family='system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif'"


@dataclass(slots=True)
class Drawing:
    """A picture of fixed size whose parts are added in order.

    Attributes:
        title: read by screen readers, and shown nowhere.
    """

    title: str
    width: int
    height: int
    parts: list[str] = field(default_factory=list)

    def text(
        self, x: float, y: float, words: str, *, size: int = 13, anchor: str = "middle", bold: bool = False
    ) -> None:
        """Write lines of text; `y` is the middle of them all."""
        lines = words.split("\n")
        top = y - (len(lines) - 1) * LINE_HEIGHT / 2 + size * 0.35
        weight = " font-weight='600'" if bold else ""
        for number, line in enumerate(lines):
            shown = weight if bold or number else " font-weight='600'" if len(lines) > 1 and anchor == "middle" else ""
            self.parts.append(
                f"<text x='{x:g}' y='{top + number * LINE_HEIGHT:g}' font-size='{size}' text-anchor='{anchor}'"
                f"{shown}>{escape(line)}</text>"
            )

    def box(self, x: float, y: float, width: float, height: float, words: str, *, tone: str = "plain") -> None:
        """Draw a box with its words in the middle; the first of several lines is bold."""
        fill, stroke = TONES[tone]
        self.parts.append(
            f"<rect x='{x:g}' y='{y:g}' width='{width:g}' height='{height:g}' rx='7' fill='{fill}' stroke='{stroke}'"
            " stroke-width='1.5'/>"
        )
        self.text(x + width / 2, y + height / 2, words)

    def frame(self, x: float, y: float, width: float, height: float, words: str, *, tone: str = "plain") -> None:
        """Draw a dashed frame with its words at the top left."""
        _, stroke = TONES[tone]
        self.parts.append(
            f"<rect x='{x:g}' y='{y:g}' width='{width:g}' height='{height:g}' rx='9' fill='none' stroke='{stroke}'"
            " stroke-width='1.5' stroke-dasharray='6 4'/>"
        )
        self.text(x + 12, y + 17, words, anchor="start", bold=True)

    def arrow(
        self, start: tuple[float, float], end: tuple[float, float], words: str = "", *, below: bool = False
    ) -> None:
        """Draw an arrow, with words above the middle of it or below."""
        (x1, y1), (x2, y2) = start, end
        self.parts.append(
            f"<line x1='{x1:g}' y1='{y1:g}' x2='{x2:g}' y2='{y2:g}' stroke='#334155' stroke-width='1.6'"
            " marker-end='url(#tip)'/>"
        )
        if words:
            lines = words.count("\n") + 1
            away = 9 + (lines - 1) * LINE_HEIGHT / 2
            middle = (y1 + y2) / 2
            for number, line in enumerate(words.split("\n")):
                shift = (number - (lines - 1) / 2) * LINE_HEIGHT
                self.text((x1 + x2) / 2, middle + (away if below else -away) + shift, line, size=12)

    def rule(self, x: float, top: float, bottom: float) -> None:
        """Draw a dashed vertical line, the life of a party in a sequence."""
        self.parts.append(
            f"<line x1='{x:g}' y1='{top:g}' x2='{x:g}' y2='{bottom:g}' stroke='#94a3b8' stroke-dasharray='4 4'/>"
        )

    def svg(self) -> str:
        """Return the picture as a document of its own."""
        head = (
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {self.width} {self.height}' width='{self.width}'"
            f" height='{self.height}' role='img' {FONT} fill='#1e293b'>\n<title>{escape(self.title)}</title>\n"
            "<defs><marker id='tip' viewBox='0 0 10 10' refX='9' refY='5' markerWidth='7' markerHeight='7'"
            " orient='auto-start-reverse'><path d='M 0 0 L 10 5 L 0 10 z' fill='#334155'/></marker></defs>\n"
            f"<rect width='{self.width}' height='{self.height}' rx='10' fill='#f8fafc'/>\n"
        )
        return head + "\n".join(self.parts) + "\n</svg>\n"
