#!/usr/bin/env python3
"""report.py FILE.json... -o PAGE.html: makes a page to look at from files of `plait-bench --json`.

The page is one file: it has the charts' library, Chart.js, and the data in it, and needs no
network. Files of one machine and day become one run, unless both have the same result; the page
shows one run, or one over another. `plait-bench --report` writes the same page.

report.py FILE.json... --svg PICTURE.svg [--check]: draws latency and busbw of one selection with
matplotlib, for papers and other pages. Options say which: --collective, --ranks, --type, --memory
(`both` draws ordinary memory dashed), --in-place, and --names for the algorithms and peers. With
--check nothing is written, and the exit code is 1 if the picture is not what it would be: its words
or its curves. matplotlib may place them otherwise in another version, so other bytes are fine.

The exit code is 3 if Chart.js is not there."""
import argparse
import json
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "bench" / "report" / "page.html"
CHART_JS = [pathlib.Path(folder) / "chart.min.js" for folder in (
    "/usr/share/javascript/chart.js", "/usr/share/nodejs/chart.js/dist")]
MOST_BYTES = 2**20  # of a page; about 7000 results


class Refused(Exception):
    """One sentence about a request that can't be served."""
    code = 1  # this script's


class NoChartJs(Refused):
    """The machine lacks what every page contains."""
    code = 3


def runs_of(paths):
    """The runs in the files. A file has one run, or a list of them as the page's button saves."""
    runs = []
    for path in paths:
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise Refused(f"can't read {path}: {error}") from error
        for run in found if isinstance(found, list) and found else [found]:
            if not isinstance(run, dict) or not run.get("results") or "machine" not in run:
                raise Refused(f"{path} has no results of plait-bench --json")
            runs.append(run)
    return runs


# --- the page -------------------------------------------------------------------------------------

def packed(run):
    """The names of the fields once, and numbers with six digits: a third of the bytes."""
    columns = list(dict.fromkeys(key for result in run["results"] for key in result))

    def cell(value):
        return float(f"{value:.6g}") if isinstance(value, float) else value
    return {"machine": run["machine"], "columns": columns,
            "rows": [[cell(result.get(column)) for column in columns] for result in run["results"]]}


def page(runs, chart_js):
    data = json.dumps([packed(run) for run in runs], separators=(",", ":"), ensure_ascii=False)

    def part(match):
        if match[1] == "runs":
            return data.replace("<", "\\u003c")  # no text in the data can end its element
        file = chart_js if match[1] == "chart.min.js" else PAGE.parent / match[1]
        return file.read_text(encoding="utf-8")
    return re.sub(r"\{\{([a-z.]+)\}\}", part, PAGE.read_text(encoding="utf-8"))


def find_chart_js(named):
    for file in [named] if named else CHART_JS:
        if file.is_file():
            return file
    raise NoChartJs(f"{named or 'chart.min.js'} is not there: install libjs-chart.js, "
                    "or name the file with --chart-js")


# --- the picture ----------------------------------------------------------------------------------

INK, SURFACE, LINE = "#1b1f24", "#ffffff", "#d5dae0"
OWN, PEER, OTHERS = "#0b5fa5", "#c24a00", ("#239770", "#df6caf", "#a59352", "#8448e1", "#4f4f4f")
DARK = {INK: "#e9edf2", SURFACE: "#10141a", LINE: "#36404c", OWN: "#56b4f9", PEER: "#ff8c4a",
        **dict(zip(OTHERS, ("#41895a", "#e43a98", "#f4e439", "#9866ef", "#e3e3e3")))}
MARKS = "o^sDXP"
BORDER = 2**20  # latencies up to this size and bandwidths from it on


def size_name(size):
    for power, letter in ((30, "G"), (20, "M"), (10, "K")):
        if size >= 2**power and size % 2**power == 0:
            return f"{size >> power}{letter}"
    return str(size)


def selected(runs, options):
    """The run and its results that the options name, and a map with the selection."""
    selection = {"collective": options.collective, "ranks": options.ranks, "type": options.type}
    pairs = [(run, result) for run in runs for result in run["results"]
             if bool(result.get("in_place")) == options.in_place
             and not result.get("offset_bytes") and not result.get("wrong")
             and options.memory in ("both", result["memory"])
             and (not options.names or result["name"] in options.names)]
    for key, value in selection.items():
        found = list(dict.fromkeys(result[key] for _, result in pairs))
        if not found or value not in [None, *found]:
            raise Refused(f"the files have no such results{f' of {key} {value}' * bool(value)}")
        if value is None and len(found) > 1:
            raise Refused(f"choose one with --{key}: {', '.join(map(str, found))}")
        selection[key] = found[0] if value is None else value
        pairs = [pair for pair in pairs if pair[1][key] == selection[key]]
    return pairs[0][0], [result for run, result in pairs if run is pairs[0][0]], selection


def curves_of(results):
    """A list of (label, points, style) in the order of the legend."""
    def place(name):
        return (0 if name.startswith("default") else 2 if name.startswith("peer:") else 1, name)
    names = sorted({result["name"] for result in results}, key=place)
    both = len({result["memory"] for result in results}) > 1
    curves, others, peers = [], 0, 0
    for name in names:
        own, peer = name.startswith("default"), name.startswith("peer:")
        if own:
            style = {"color": OWN, "marker": "o", "zorder": 3}
        elif peer:
            style = {"color": PEER, "marker": MARKS[peers % len(MARKS)]}
            peers += 1
        else:
            style = {"color": OTHERS[others % len(OTHERS)], "marker": MARKS[others % len(MARKS)]}
            others += 1
        for memory in ("symmetric", "ordinary"):
            points = sorted((result["bytes"], result["time_us"], result["busbw"])
                            for result in results
                            if result["name"] == name and result["memory"] == memory)
            label = name.replace("default", "Plait", 1) if own else name
            label = label.removeprefix("peer:").removesuffix("-symmetric").replace("nccl", "NCCL")
            if both or name.endswith("-symmetric"):
                label += f", {memory} memory"
            lines = "--" if both and memory == "ordinary" else "-"
            if points:
                curves.append((label, points, {**style, "linestyle": lines}))
    return curves


def picture(runs, options):
    """The SVG's text."""
    try:
        import matplotlib
    except ImportError as error:
        raise Refused("--svg needs matplotlib: install python3-matplotlib") from error
    import io
    matplotlib.use("svg")
    from matplotlib import pyplot, ticker
    pyplot.rcParams.update({
        "svg.fonttype": "none", "svg.hashsalt": "plait", "font.family": "sans-serif",
        "font.size": 9, "text.color": INK, "axes.edgecolor": INK, "axes.labelcolor": INK,
        "xtick.color": INK, "ytick.color": INK, "figure.facecolor": SURFACE,
        "axes.facecolor": SURFACE, "grid.color": LINE, "axes.spines.top": False,
        "axes.spines.right": False, "legend.frameon": False})
    run, results, selection = selected(runs, options)
    machine, curves = run["machine"], curves_of(results)
    sizes = sorted({result["bytes"] for result in results})
    small, large = [s for s in sizes if s <= BORDER], [s for s in sizes if s >= BORDER]
    if min(len(small), len(large)) < 2:
        small = large = sizes

    rows = -(-len(curves) // 4)  # of the legend
    figure, (times, rates) = pyplot.subplots(1, 2, figsize=(9, 4 + .2 * rows))
    high = figure.get_figheight()
    figure.subplots_adjust(left=.05, right=.985, bottom=.95 / high, wspace=.12,
                           top=1 - (.68 + .2 * rows) / high)
    for axes, shown, value, heading in ((times, small, 1, "microseconds per call (less is better)"),
                                        (rates, large, 2, "busbw in GB/s (more is better)")):
        for number, (label, points, style) in enumerate(curves):
            inside = [point for point in points if point[0] in shown]
            axes.plot([point[0] for point in inside], [point[value] for point in inside],
                      label=label, gid=f"curve-{value}-{number}", markersize=4, linewidth=1.8,
                      **style)
        axes.set_xscale("log", base=2)
        axes.set_xticks(shown, [size_name(size) for size in shown])
        axes.minorticks_off()
        axes.set_title(heading, fontsize=9.5, fontweight="bold")
        axes.set_xlabel("bytes of the message")
        axes.grid(True, axis="y")
        axes.set_axisbelow(True)
    times.set_yscale("log")
    times.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    times.yaxis.set_major_formatter(ticker.StrMethodFormatter("{x:g}"))
    times.yaxis.set_minor_locator(ticker.NullLocator())
    known = [v for k, v in (machine.get("ceilings") or {}).items() if k.endswith("_gbs") and v]
    ceiling = max([*known, machine.get("link_gbs") or 0])
    if ceiling:
        rates.axhline(ceiling, color=INK, linestyle=":", linewidth=1, gid="ceiling")
        rates.annotate(f"measured ceiling, {ceiling:.0f} GB/s", (large[0], ceiling), (0, -10),
                       textcoords="offset points", fontsize=8)
    rates.set_ylim(bottom=0)

    first, devices = results[0], machine["devices"]
    op = next((f" {result['op']}" for result in results if result.get("op")), "")
    figure.text(.5, 1 - .2 / high, f"{selection['collective']} of {selection['type']}{op}, "
                f"{selection['ranks']} ranks on {devices[0]}, "
                f"{'in place' if options.in_place else 'out of place'}",
                ha="center", va="center", fontsize=12, fontweight="bold")
    figure.legend(*times.get_legend_handles_labels(), ncol=4, loc="upper center", handlelength=3,
                  columnspacing=1.2, bbox_to_anchor=(.5, 1 - .3 / high))
    versions = [f"Plait {machine['plait_version']}"]
    if any(result["name"].startswith("peer:nccl") for result in results):
        versions.append(f"NCCL {machine['nccl_version']}")
    if any(result["name"] == "peer:mpi" for result in results):
        versions.append(machine["mpi_version"])
    figure.text(.5, .3 / high, f"{machine['date'][:10]}, {', '.join(versions)}; timing: "
                f"{first['timing']}, median of {first['repeats']} repeats of the slowest rank, "
                "one run for all curves", ha="center", fontsize=8)
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    dark = "".join(f'[style*="{kind}: {light}"]{{{kind}:{dark}!important}}'
                   for light, dark in DARK.items() for kind in ("fill", "stroke"))
    style = f"<style>@media (prefers-color-scheme:dark){{{dark}}}</style>"
    text = re.sub(r"[ \t]+\n", "\n", out.getvalue())
    text = text[text.index("<svg"):]  # so that a page can have it inside
    return re.sub(r"(<svg [^>]*>)", lambda tag: tag[1] + style, text, count=1)


def contents(svg):
    """The words of a picture, and the points of its curves."""
    words, curves = [], {}
    for element in ElementTree.fromstring(svg).iter():
        tag = element.tag.rpartition("}")[2]
        if tag == "text":
            words.append("".join(element.itertext()))
        elif tag == "g" and re.match("curve-|ceiling", element.get("id", "")):
            path = next(each for each in element if each.tag.endswith("path"))
            curves[element.get("id")] = [float(n) for n in re.findall(r"-?[\d.]+", path.get("d"))]
    return sorted(words), curves


def same(one, other):
    (words, curves), (other_words, other_curves) = contents(one), contents(other)
    return words == other_words and curves.keys() == other_curves.keys() and all(
        len(points) == len(other_curves[name])
        and all(abs(a - b) < .2 for a, b in zip(points, other_curves[name]))
        for name, points in curves.items())


def main():
    summary, _, rest = __doc__.partition("\n\n")
    parser = argparse.ArgumentParser(description=summary, epilog=rest,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=pathlib.Path, metavar="FILE.json")
    parser.add_argument("-o", "--output", type=pathlib.Path, metavar="PAGE.html")
    parser.add_argument("--chart-js", type=pathlib.Path, metavar="FILE",
                        help="Chart.js as one file (default: Debian's libjs-chart.js)")
    parser.add_argument("--svg", type=pathlib.Path, metavar="PICTURE.svg")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--collective")
    parser.add_argument("--ranks", type=int)
    parser.add_argument("--type")
    parser.add_argument("--memory", choices=("symmetric", "ordinary", "both"), default="both")
    parser.add_argument("--in-place", action="store_true")
    parser.add_argument("--names", type=lambda text: text.split(","), default=[])
    options = parser.parse_args()
    if not options.output and not options.svg:
        parser.error("-o PAGE.html or --svg PICTURE.svg is missing")
    try:
        runs = runs_of(options.files)
        if options.output:
            text = page(runs, find_chart_js(options.chart_js))
            size = options.output.write_text(text, encoding="utf-8")
            if size > MOST_BYTES:
                print(f"report.py: {options.output} has {size / 1e6:.1f} MB, which opens slowly: "
                      "give it fewer files", file=sys.stderr)
        if options.svg:
            drawn = picture(runs, options)
            if not options.check:
                options.svg.write_text(drawn, encoding="utf-8")
            elif not same(drawn, options.svg.read_text(encoding="utf-8")):
                raise Refused(f"{options.svg} is not what this draws from {options.files[0]}")
    except (Refused, OSError) as error:
        print(f"report.py: {error}", file=sys.stderr)
        return getattr(error, "code", 1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
