#!/usr/bin/python3
"""report_test.py BIN MPIRUN: pages of tools/report.py and `plait-bench --report`, in Chromium.

Every number is computed here from the files again. It runs with Debian's Python, because that has
Debian's python3-selenium; without one of them or the browser it is skipped."""
import csv
import itertools
import json
import math
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BIN, MPIRUN = Path(sys.argv[1]), sys.argv[2]
ROOT = Path(__file__).resolve().parent.parent.parent
DATA = ROOT / "docs" / "benchmarks" / "data"


def skip(why):
    print(f"SKIPPED: {why}")
    sys.exit(77)


try:
    from report_browser import CONTRAST, CURVES, SELECT, TABLE, Browser
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
except ImportError:
    skip("python3-selenium is not installed")
if not (shutil.which("chromium") and shutil.which("chromedriver")):
    skip("chromium or chromium-driver is not installed")
if not Path("/usr/share/javascript/chart.js/chart.min.js").is_file():
    skip("libjs-chart.js is not installed")


# --- what the files say ---------------------------------------------------------------------------

def op_of(result):
    return result.get("op") or "none"


def placement_of(result):
    return "in place" if result.get("in_place") else "out of place"


def alignment_of(result):
    offset = result.get("offset_bytes") or 0
    return f"{offset} bytes past it" if offset else "aligned"


FIELDS = {  # the heading of a selector, and a result's value
    "collective": lambda r: r["collective"], "ranks": lambda r: str(r["ranks"]),
    "type": lambda r: r["type"], "operation": op_of, "memory": lambda r: r["memory"],
    "placement": placement_of, "timing": lambda r: r["timing"], "alignment": alignment_of}


def is_peer(name):
    return name.startswith("peer:")


def matches(result, selection, free=()):
    for field, value in selection.items():
        if field in free or (field == "operation" and "collective" in free
                             and "none" in (value, op_of(result))):
            continue
        if field == "memory" and is_peer(result["name"]) and value == "symmetric":
            continue
        if FIELDS[field](result) != value:
            return False
    return True


def selections(results):
    """Each combination of values that a result of Plait has."""
    return [dict(zip(FIELDS, values)) for values in dict.fromkeys(
        tuple(value(result) for value in FIELDS.values())
        for result in results if not is_peer(result["name"]))]


def busbw(result):
    n, collective = result["ranks"], result["collective"]
    factor = {"all_reduce": 2 * (n - 1) / n, "broadcast": 1, "reduce": 1, "send_recv": 1}
    return (result["bytes"] / result["time_us"] / 1e3) * factor.get(collective, (n - 1) / n)


def speed_up(results, which):
    """The best peer's time over Plait's, or None."""
    peers = [r["time_us"] for r in results if is_peer(r["name"])]
    own = [r for r in results if not is_peer(r["name"])]
    if which == "the default":
        own = [r for r in own if r["name"] == "default"]
    else:
        own = [r for r in own if r["name"] != "default"] or own
    return min(peers) / min(r["time_us"] for r in own) if peers and own else None


def ratio_text(value):
    return "–" if value is None else f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f}"


def close(one, other, within=2e-5):
    return math.isclose(one, other, rel_tol=within)


# --- the checks -----------------------------------------------------------------------------------

def report(page, *files):
    subprocess.run([sys.executable, ROOT / "tools" / "report.py", *files, "-o", page], check=True)
    return page


def parts_of(page):
    """The data in a page, and the rest."""
    before, data, after = re.fullmatch(r'(.*id="runs">)(.*?)(</script>.*)', page.read_text(),
                                       re.S).groups()
    return json.loads(data), before, after


def results_of(*files):
    return [result for file in files for result in json.loads(file.read_text())["results"]]


def check_curves(browser, results, selection, suffix=""):
    """The charts have each name once, with all of its points."""
    expected = {}
    for result in results:
        if matches(result, selection) and not result.get("wrong"):
            expected.setdefault(result["name"] + suffix, []).append(result)
    for value, curves in zip((busbw, lambda r: r["time_us"]), browser.run(CURVES)):
        drawn = {curve["label"]: curve for curve in curves
                 if not curve["ceiling"] and curve["label"].endswith(suffix)}
        assert drawn.keys() == expected.keys(), (selection, drawn.keys() ^ expected.keys())
        for name, wanted in expected.items():
            wanted = sorted((r["bytes"], value(r)) for r in wanted)
            points = drawn[name]["points"]
            assert len(points) == len(wanted) and all(
                x == size and close(y, number) for (x, y), (size, number) in zip(points, wanted)
            ), (selection, name, points, wanted)


def check_heat(browser, results, selection, field):
    """The heat map has a cell per size and value of `field`, with the right number."""
    for which in ("the default", "the fastest algorithm"):
        browser.run(SELECT, {"speed-up of": which})
        rows = browser.run(TABLE, "#heat table")
        near = [r for r in results if matches(r, selection, [field]) and not r.get("wrong")]
        columns = list(dict.fromkeys(r[field] for r in near))
        if field == "ranks":
            columns.sort()
        assert rows[0] == ["bytes", *(f"{c} ranks" if field == "ranks" else c for c in columns)]
        sizes = sorted({r["bytes"] for r in near})
        assert len(rows) == len(sizes) + 1, rows
        for size, row in zip(sizes, rows[1:]):
            wanted = [ratio_text(speed_up([r for r in near if r["bytes"] == size
                                           and r[field] == column], which)) for column in columns]
            assert row[1:] == wanted, (selection, which, size, row, wanted)
    browser.run(SELECT, {"speed-up of": "the default"})


def check_choice(browser, results, selection):
    rows = browser.run(TABLE, "#choice table")
    near = [r for r in results if matches(r, selection) and not r.get("wrong")]
    sizes = sorted({r["bytes"] for r in near})
    assert len(rows) == len(sizes) + 1, rows
    for size, row in zip(sizes, rows[1:]):
        named = [r for r in near if r["bytes"] == size and not is_peer(r["name"])
                 and r["name"] != "default"]
        default = [r for r in near if r["bytes"] == size and r["name"] == "default"]
        if not named or not default:
            continue
        fastest = min(named, key=lambda r: r["time_us"])
        cost = 100 * (default[0]["time_us"] / fastest["time_us"] - 1)
        assert row[1] == fastest["name"] and row[3] == default[0]["chosen"], (row, fastest)
        assert abs(float(row[5].split()[0].replace("−", "-")) - cost) < .06, (row, cost)


def check_looks(browser):
    """Words and curves stand out from their ground, and the page never scrolls sideways."""
    surfaces = []
    for _ in range(2):
        browser.run("for (const d of document.querySelectorAll('details')) d.open = true;")
        seen = browser.run(CONTRAST)
        assert seen["words"][0] >= 4.5 and seen["curve"] >= 3, seen
        surfaces.append(seen["surface"])
        browser.driver.find_element(By.ID, "theme").send_keys(Keys.ENTER)
    assert abs(surfaces[0] - surfaces[1]) > .5, surfaces
    for width in (400, 1600):
        browser.width(width)
        for _ in range(100):  # charts follow their box a frame later
            wide = browser.run("return document.documentElement.scrollWidth")
            if wide <= width:
                break
            time.sleep(.1)
        assert wide <= width, (wide, width)
    browser.width(1280)


def check_one_machine(browser, folder):
    """Two files of one day and machine are one run: all selections of it."""
    files = [DATA / "h200-4-all-reduce.json", DATA / "h200-4-collectives.json"]
    results = results_of(*files)
    browser.open(report(folder / "h200.html", *files))
    assert browser.run("return document.querySelector('[name=\"compare with\"]')") is None
    for selection in selections(results):
        browser.run(SELECT, selection)
        check_curves(browser, results, selection)
        check_choice(browser, results, selection)
        check_heat(browser, results, selection, "collective")
    assert browser.text("#notes") == "The results of this selection were not checked."
    browser.run(SELECT, {"collective": "all_reduce"})
    assert browser.run("return document.getElementById('notes').hidden")

    ceilings = [c for c in browser.run(CURVES)[0] if c["ceiling"]]
    link = json.loads(files[0].read_text())["machine"]["link_gbs"]
    assert len(ceilings) == 1 and all(close(y, link) for _, y in ceilings[0]["points"]), ceilings
    button = "#legend [data-name='default']"
    for shown in (False, True):
        browser.click(button)
        assert all(curve["shown"] == shown for chart in browser.run(CURVES)
                   for curve in chart if curve["label"] == "default")
        assert browser.run("return document.querySelector(arguments[0]).ariaPressed",
                           button) == str(shown).lower()
    check_looks(browser)
    browser.quiet()


def check_ranks(browser, folder):
    """Runs with several numbers of ranks: the columns of the heat map."""
    files = [DATA / "host-2-ranks.json", DATA / "host-4-ranks.json"]
    results = results_of(*files)
    browser.open(report(folder / "host.html", *files), dark=True)
    if browser.run("return document.querySelector('[name=columns]')"):
        browser.run(SELECT, {"columns": "ranks"})
    for selection in selections(results):
        browser.run(SELECT, selection)
        check_curves(browser, results, selection)
        check_heat(browser, results, selection, "ranks")
    assert browser.run("return document.documentElement.dataset.theme") == "dark"
    check_looks(browser)
    browser.quiet()


def check_two_runs(browser, folder):
    """One run over another, their ratios, and what the buttons save."""
    files = [DATA / "h200-4-collectives.json", DATA / "h100-2-collectives.json"]
    first, second = results_of(files[0]), results_of(files[1])
    browser.open(report(folder / "two.html", *files))
    other = browser.run("return document.querySelector('[name=\"compare with\"]').options[1].text")
    browser.run(SELECT, {"compare with": other, "collective": "gather", "memory": "ordinary"})
    selection = {"collective": "gather", "memory": "ordinary", "placement": "out of place"}
    check_curves(browser, first, selection, " (A)")
    check_curves(browser, second, selection, " (B)")
    assert "B lacks this selection, so it is shown with ranks 2" in browser.text("#notes")
    rows = browser.run(TABLE, "#ratios table")
    names = rows[0][1:]
    assert names == ["default", "peer:nccl"], names
    for size, row in zip(sorted({r["bytes"] for r in first}), rows[1:]):
        times = [{r["name"]: r["time_us"] for r in results
                  if matches(r, selection) and r["bytes"] == size} for results in (first, second)]
        assert row[1:] == [ratio_text(times[1][name] / times[0][name]) for name in names], row
    check_looks(browser)

    runs = json.loads(browser.saved("#save-json", "plait-runs.json"))
    for run, file in itertools.zip_longest(runs, files):
        whole = json.loads(file.read_text())
        assert run["machine"] == whole["machine"]
        for result, wanted in itertools.zip_longest(run["results"], whole["results"]):
            assert result.keys() == wanted.keys() and all(
                close(result[key], value) if isinstance(value, float) else result[key] == value
                for key, value in wanted.items()), (result, wanted)
    rows = list(csv.DictReader(browser.saved("#save-csv", "plait-shown.csv").splitlines()))
    wanted = [r for r in first + second if matches(r, selection)]
    assert [(row["name"], row["bytes"]) for row in rows] == [
        (r["name"], str(r["bytes"])) for r in wanted]
    assert all(close(float(row["time_us"]), r["time_us"]) for row, r in zip(rows, wanted))
    again = report(folder / "again.html", folder / "plait-runs.json")  # what was saved can be read
    assert parts_of(again) == parts_of(folder / "two.html")
    browser.quiet()


def check_own_file(browser, folder):
    """Fields of newer files, wrong results, a barrier, and text that looks like HTML."""
    def result(name, bytes, time_us, **more):
        return {"name": name, "collective": "all_reduce", "type": "f32", "op": "sum", "ranks": 2,
                "bytes": bytes, "offset_bytes": 0, "in_place": False, "memory": "symmetric",
                "timing": "latency", "time_us": time_us, "wrong": 0, "time_us_p5": time_us * .9,
                "time_us_p50": time_us, "time_us_p99": time_us * 1.5, "samples": 1400,
                "samples_of": "calls", **more}
    results = [result(name, size, time * size / 1024) for size in (1024, 4096)
               for name, time in (("default", 2), ("ring", 3), ("peer:mpi", 5))]
    results[0]["chosen"] = results[3]["chosen"] = "ring"
    results[0]["time_us_p99"] = 40
    results.append(result("tree", 1024, 1, wrong=7))
    results.append(result("ring", 1024, 4, offset_bytes=4))
    results.append(result("default", 0, 1.5, collective="barrier", op=None, busbw=None,
                          chosen="flags"))
    hostile = "</script><script>document.title = 'taken'</script>"
    machine = {"date": "2026-11-26T08:00:00Z", "hostname": hostile, "backend": "host",
               "devices": ["CPU <b>", "CPU <b>"], "ranks": 2, "plait_version": "0.1.0",
               "link_gbs": 5.0, "command_line": hostile,
               "ceilings": {"push_gbs": 9.0, "pull_gbs": 7.0, "copy_engine_gbs": None,
                            "flag_us": .5, "barrier_us": 1.5}}
    file = folder / "own.json"
    file.write_text(json.dumps({"machine": machine, "results": results}))
    browser.open(report(folder / "own.html", file))
    assert browser.driver.title == "Plait benchmark report"
    assert hostile in browser.text("#machines")
    assert "One result of tree with wrong elements left out." in browser.text("#notes")
    selection = dict(zip(FIELDS, ("all_reduce", "2", "f32", "sum", "symmetric", "out of place",
                                  "latency", "aligned")))
    check_curves(browser, results, selection)
    check_heat(browser, results, selection, "collective")
    assert browser.run(CURVES)[0][-1]["points"] == [[1024, 9], [4096, 9]]
    spread = browser.run("""const sets = Chart.getChart(document.getElementById("spread")).data;
                            return [sets.labels, sets.datasets[1].data];""")
    assert [label.split()[0] for label in spread[0]] == ["default", "ring", "peer:mpi"], spread
    assert all(close(low, -10) and close(high, 50) for low, high in spread[1]), spread
    assert "p5 to p99 of 1400 calls" in browser.text("#spread-hint")
    browser.run("document.getElementById('spread-size').value = '1024';"
                "document.getElementById('spread-size').dispatchEvent(new Event('change'));")
    spread = browser.run("""const chart = Chart.getChart(document.getElementById("spread"));
                            return [chart.scales.x.type, chart.data.datasets[1].data];""")
    assert spread == ["logarithmic", [[.9, 20], [.9, 1.5], [.9, 1.5]]], spread  # one end is far
    browser.run(SELECT, {**selection, "alignment": "4 bytes past it"})
    check_curves(browser, results, {**selection, "alignment": "4 bytes past it"})
    browser.run(SELECT, {"collective": "barrier"})
    assert browser.run("return document.getElementById('curves').hidden")
    assert browser.run(TABLE, "#choice table")[1][0] == "0"
    check_looks(browser)
    browser.quiet()

    # The same results with ranks that share a process are another run.
    machine["processes"] = 1
    other = folder / "other.json"
    other.write_text(json.dumps({"machine": machine, "results": results[:6]}))
    browser.open(report(folder / "own.html", file, other))
    assert browser.run("return [...document.querySelector('[name=run]').options].map(o => o.text)"
                       ) == ["A: CPU <b>, 2 ranks, 2026-11-26",
                             "B: CPU <b>, 2 ranks in one process, 2026-11-26"]
    browser.quiet()

    for text in ("[]", "{}", '{"machine": {}, "results": []}', "no JSON"):
        file.write_text(text)
        run = subprocess.run([sys.executable, ROOT / "tools" / "report.py", file, "-o",
                              folder / "none.html"], capture_output=True, text=True)
        assert run.returncode == 1 and run.stderr.count("\n") == 1 and "own.json" in run.stderr, run
        assert not (folder / "none.html").exists()


def check_bench(browser, folder):
    """`plait-bench --report` writes what tools/report.py makes of its --json."""
    page, file = folder / "bench.html", folder / "b<e>nch.json"

    def bench(*files):
        return subprocess.run([
            MPIRUN, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", "2",
            BIN / "plait-bench", "-b", "1K", "-e", "16K", "-n", "5", "-w", "1", "--timing",
            "latency", "--memory", "both", "--peers", "none", *files],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
            timeout=120)
    said = bench("--report", folder).stderr
    if "this build has no Chart.js" in said:
        skip("libjs-chart.js was not installed when plait-bench was built")
    assert f'can\'t write "{folder}": Is a directory' in said, said
    run = bench("--json", file, "--report", page)
    assert run.returncode == 0, run.stderr
    results = results_of(file)
    browser.open(page, width=400)
    for selection in selections(results):
        browser.run(SELECT, selection)
        check_curves(browser, results, selection)
    assert "No peer was measured" in browser.text("#notes")
    check_looks(browser)

    assert parts_of(page) == parts_of(report(folder / "same.html", file))


def main():
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        browser = Browser(folder)
        try:
            for check in (check_one_machine, check_ranks, check_two_runs, check_own_file,
                          check_bench):
                start = time.monotonic()
                check(browser, folder)
                print(f"{check.__name__}: {time.monotonic() - start:.1f} s", flush=True)
        finally:
            browser.driver.quit()


main()
