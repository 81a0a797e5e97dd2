#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what a command printed on a terminal as an SVG picture, for the README.

    script -qec 'build/release/berth bench bind' /dev/null | docs/render_terminal.py >bench.svg

Knows the escape sequences that berth writes: bold, dim, green, and the erased progress line.
"""

import html
import re
import sys

CELL_WIDTH, LINE_HEIGHT, MARGIN, FONT_SIZE = 8.4, 20, 18, 14
STYLES = {"1": "b", "2": "d", "32": "g"}


def spans(line):
    """Yields (column, style, text); spaces are positions, not text."""
    column, style = 0, ""
    for part in re.split(r"(\x1b\[[0-9;]*m)", line):
        match = re.fullmatch(r"\x1b\[([0-9;]*)m", part)
        if match:
            style = STYLES.get(match.group(1), "")
            continue
        for word in re.finditer(r"\S+(?: \S+)*", part):
            yield column + word.start(), style, word.group()
        column += len(part)


def main():
    text = sys.stdin.buffer.read().decode()
    lines = [line.rsplit("\x1b[K", 1)[-1].strip("\r") for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    plain = [re.sub(r"\x1b\[[0-9;]*[mK]", "", line) for line in lines]
    width = MARGIN * 2 + max(map(len, plain)) * CELL_WIDTH
    height = MARGIN * 2 + len(lines) * LINE_HEIGHT
    print(f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" '
          f'viewBox="0 0 {width:.0f} {height}" role="img">')
    print("<style>text{font:%dpx 'DejaVu Sans Mono',Menlo,Consolas,monospace;fill:#d7dae0}"
          ".b{font-weight:bold;fill:#fff}.d{fill:#8b93a1}.g{fill:#7ec87e}</style>" % FONT_SIZE)
    print('<rect width="100%" height="100%" rx="8" fill="#1c1f26"/>')
    for row, line in enumerate(lines):
        y = MARGIN + LINE_HEIGHT * row + FONT_SIZE
        for column, style, word in spans(line):
            x = MARGIN + column * CELL_WIDTH
            length = len(word) * CELL_WIDTH
            css = f' class="{style}"' if style else ""
            print(f'<text x="{x:.1f}" y="{y}" textLength="{length:.1f}"{css}>'
                  f"{html.escape(word)}</text>")
    print("</svg>")


if __name__ == "__main__":
    main()
