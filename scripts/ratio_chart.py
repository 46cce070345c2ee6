#!/usr/bin/env python3
"""Draws the chart of README.md from the table "Choro and Samba" of bench/results/README.md.

    scripts/ratio_chart.py           writes bench/results/ratios.svg
    scripts/ratio_chart.py --check   fails if that file does not follow the table
"""

import sys
from pathlib import Path

RESULTS = Path(__file__).resolve().parent.parent / "bench/results"
TABLE, CHART = RESULTS / "README.md", RESULTS / "ratios.svg"
# Rows that are shown: one of each kind of work. Others are in the table.
ROWS = [
    "read 1 MiB, depth 1, encrypted",
    "write 1 MiB, depth 1, encrypted",
    "write 1 MiB, depth 16, plain",
    "random read 4 KiB, depth 16",
    "small-file copy, depth 1",
    "open + close, depth 1",
    "connect + session setup",
    "listing, 64 KiB buffer",
]
SERIES = [("Intel", 1, "#2a6fbb"), ("AMD", 3, "#3a9a5b")]
WIDTH, LEFT, BARS_WIDTH = 720, 230, 420
TOP, BAR, GROUP = 46, 9, 26


def ratios():
    """Cells of each row, by the name of the row."""
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    table = {row[0]: row for row in cells if len(row) == 5}
    missing = [name for name in ROWS if name not in table]
    if missing:
        sys.exit(f"choro: {TABLE} has no row {', '.join(missing)}; see ROWS in {sys.argv[0]}")
    return [(name, [float(table[name][column]) for _, column, _ in SERIES]) for name in ROWS]


def draw(rows):
    """The chart, as SVG."""
    unit = BARS_WIDTH / max(value for _, values in rows for value in values)
    height = TOP + GROUP * len(rows) + 8
    one = LEFT + unit
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}">',
        "<style>text { font: 12px sans-serif }</style>",
        '<rect width="100%" height="100%" fill="#fff"/>',
        '<text x="10" y="18">Rate of Choro as a multiple of Samba\'s</text>',
        f'<text x="{one:.1f}" y="36" text-anchor="middle">Samba</text>',
    ]
    for number, (name, _, color) in enumerate(SERIES):
        x = WIDTH - 150 + 70 * number
        parts.append(f'<rect x="{x}" y="9" width="10" height="10" fill="{color}"/>')
        parts.append(f'<text x="{x + 15}" y="18">{name}</text>')
    for number, (name, values) in enumerate(rows):
        y = TOP + GROUP * number
        parts.append(f'<text x="10" y="{y + 13}">{name}</text>')
        for (_, _, color), value in zip(SERIES, values):
            width = value * unit
            parts.append(
                f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR - 1}" fill="{color}"/>'
            )
            parts.append(
                f'<text x="{LEFT + width + 5:.1f}" y="{y + 8}" style="font-size: 9px">{value:.2f}</text>'
            )
            y += BAR
    parts.append(
        f'<line x1="{one:.1f}" y1="{TOP - 6}" x2="{one:.1f}" y2="{height - 8}" stroke="#222"/>'
    )
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def main():
    """Writes or checks the chart."""
    chart = draw(ratios())
    if sys.argv[1:] == ["--check"]:
        if CHART.read_text(encoding="utf-8") != chart:
            sys.exit(f"choro: {CHART} does not follow the table: run scripts/ratio_chart.py")
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        CHART.write_text(chart, encoding="utf-8")


main()
