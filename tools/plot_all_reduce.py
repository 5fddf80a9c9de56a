#!/usr/bin/env python3
"""plot_all_reduce.py [--check]: draws docs/benchmarks/all-reduce-h200.svg from data beside it.

With --check it writes nothing, and exits with 1 if the picture is not what it would draw.
"""
import csv
import math
import pathlib
import sys

BENCHMARKS = pathlib.Path(__file__).resolve().parent.parent / "docs" / "benchmarks"
DATA = BENCHMARKS / "data" / "h200-4-all-reduce.csv"
PICTURE = BENCHMARKS / "all-reduce-h200.svg"
RANKS = 4
TITLE = "All-reduce on 4 NVIDIA H200, bf16 sum, out of place"
NOTES = [
    "2026-11-21, NVSwitch without NVLink multicast, Plait 0.1.0 (default choice), NCCL 2.28.9",
    "Calls in CUDA graphs of up to 400; median of 7 repeats of the slowest rank; one run for both",
]
CURVES = [  # label, column, memory, colour, dashes
    ("Plait, symmetric memory", "plait_us", "symmetric", "#0b5fa5", ""),
    ("Plait, ordinary memory", "plait_us", "ordinary", "#0b5fa5", "5 3"),
    ("NCCL, symmetric windows", "nccl_us", "symmetric", "#c2571a", ""),
    ("NCCL, ordinary memory", "nccl_us", "ordinary", "#c2571a", "5 3"),
]
TOP, BOTTOM = 92, 322  # of both panels
BORDER = 2**20  # the left panel ends with this size, and the right one begins with it


def size_name(size):
    for power, letter in ((30, "G"), (20, "M"), (10, "K")):
        if size >= 2**power:
            return f"{size >> power}{letter}"
    return str(size)


def read():
    """A map from (column, memory) to a list of (bytes, microseconds)."""
    curves = {}
    with open(DATA, encoding="utf-8") as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            for column in ("plait_us", "nccl_us"):
                point = (int(row["bytes"]), float(row[column]))
                curves.setdefault((column, row["memory"]), []).append(point)
    return curves


def text(x, y, words, anchor="middle", size=12, extra=""):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"{extra}>'
            f"{words}</text>")


class Panel:
    """Axes and curves; `height` maps a value to its height, from 0 (bottom) to 1 (top)."""

    def __init__(self, left, right, sizes, ticks, height, heading):
        self.left, self.right, self.sizes, self.height = left, right, sizes, height
        self.parts = [text((left + right) / 2, TOP - 10, heading, extra=' font-weight="bold"')]
        for value in ticks:
            y = self.y(value)
            self.parts.append(f'<path d="M{left} {y:.1f}H{right}" stroke="#ddd"/>')
            self.parts.append(text(left - 6, y + 4, f"{value:g}", "end"))
        for size in sizes:
            x = self.x(size)
            self.parts.append(f'<path d="M{x:.1f} {BOTTOM}v5" stroke="#555"/>')
            self.parts.append(text(x, BOTTOM + 18, size_name(size)))
        self.parts.append(f'<path d="M{left} {TOP}V{BOTTOM}H{right}" fill="none" stroke="#555"/>')
        self.parts.append(text((left + right) / 2, BOTTOM + 35, "bytes of the message"))

    def x(self, size):
        first, last = math.log2(self.sizes[0]), math.log2(self.sizes[-1])
        place = (math.log2(size) - first) / (last - first)
        return self.left + 10 + place * (self.right - self.left - 20)

    def y(self, value):
        return BOTTOM - self.height(value) * (BOTTOM - TOP)

    def draw(self, points, colour, dashes):
        line = " ".join(f"{self.x(size):.1f},{self.y(value):.1f}" for size, value in points)
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        self.parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" '
                          f'stroke-width="2"{dashed}/>')
        for size, value in points:
            self.parts.append(f'<circle cx="{self.x(size):.1f}" cy="{self.y(value):.1f}" r="2.5" '
                              f'fill="{colour}"/>')


def picture():
    curves = read()
    sizes = [size for size, _ in curves["plait_us", "symmetric"]]
    small, large = [s for s in sizes if s <= BORDER], [s for s in sizes if s >= BORDER]
    times = Panel(60, 405, small, (2, 5, 10, 20), lambda us: math.log(us / 2) / math.log(10),
                  "microseconds per call (less is better)")
    rates = Panel(470, 815, large, range(0, 401, 100), lambda gbs: gbs / 400,
                  "busbw in GB/s (more is better)")
    parts = [text(430, 22, TITLE, size=16, extra=' font-weight="bold"')]
    for number, (label, column, memory, colour, dashes) in enumerate(CURVES):
        points = curves[column, memory]
        times.draw([point for point in points if point[0] <= BORDER], colour, dashes)
        rates.draw([(size, size / us * 2 * (RANKS - 1) / RANKS / 1000)  # bytes per us are MB/s
                    for size, us in points if size >= BORDER], colour, dashes)
        x = 60 + 195 * number
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        parts.append(f'<path d="M{x} 48h26" stroke="{colour}" stroke-width="2"{dashed}/>')
        parts.append(text(x + 32, 52, label, "start"))
    parts += times.parts + rates.parts
    parts += [text(430, 382 + 16 * number, note, size=11) for number, note in enumerate(NOTES)]
    return ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 860 410" '
            'font-family="sans-serif" fill="#222">\n'
            '<rect width="860" height="410" fill="#fff"/>\n' + "\n".join(parts) + "\n</svg>\n")


def main():
    drawn = picture()
    if "--check" in sys.argv[1:]:
        if not PICTURE.is_file() or PICTURE.read_text(encoding="utf-8") != drawn:
            sys.exit(f"{PICTURE.name} is not what tools/{pathlib.Path(__file__).name} draws")
    else:
        PICTURE.write_text(drawn, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
