#!/usr/bin/env python3
"""bench-table.py FILE.json...: makes Markdown tables from the files of `plait-bench --json`.

There is one table per number of ranks, collective, type, operation, placement, offset, memory and
timing.
A row is a size, a column an algorithm or a peer. A cell is the time in microseconds and, from 1 MB
on, the bus bandwidth in GB/s. Results with wrong elements are marked. Exit code 1 if there are any,
or no results at all.

bench-table.py --page PAGE.md... [--check]: renews the tables between comments in pages, such as

    <!-- bench-table: default beside peer:mpi, data/FILE.json -->
    <!-- bench-table: default beside peer:nccl and peer:mpi, symmetric memory, FILE.json... -->
    <!-- bench-table: reproducible beside default by type and memory, data/FILE.json -->
    <!-- bench-table: all_reduce by algorithm, symmetric memory, in place, data/FILE.json -->
    <!-- bench-table: all_reduce by ring and tree and peer:nccl, 64K to 1G, data/FILE.json... -->
    <!-- bench-table: choice, data/2-ranks.json data/4-ranks.json -->
    <!-- bench-table: explored, data/FILE.json -->
    <!-- end -->

The table of choices is described below; the last one has what the tests of tests/model print. In
the first two, a column is a collective, and a cell the two times and their ratio. Of several peers
the fastest counts. In the third, a column is a type and a kind of memory. In the fourth, a row is
an algorithm or a peer. In the fifth, a row is a number of ranks with a name, and a cell a time in
microseconds or, from 16 MB on, the bus bandwidth. There the peers of one library share a row, which
has the fastest, and so do `others`, the algorithms that are not named. Peers have the memory that
their name says, so the memory selects among the others. Results are out of place unless the comment
says `in place`. With --check nothing is written, and the exit code is 1 if a table is not what it
would be.

bench-table.py --choice FILE.json...: how good Plait's own choice is, in files of `plait-bench
--algorithms all`. A cell is a collective, size, type, memory and placement. Its ratio is the time
of `default` over that of the fastest algorithm in the same run. For each collective it prints the
geometric mean of the ratios, the worst one, and how many of how many are above 1.10; below the
table the worst cells. `noise` is what `default` differs from the very algorithm that it chose.

bench-table.py --wins FILE.json... [--without NAME,NAME...]: per algorithm the cells in which it has
a rival, those in which it is within 2 % of the fastest, and what those cells would lose without it;
then the same for the named ones together. A cell is a call in one file. `unrivalled` counts
cells in which only `default` was timed, and took it: what another would cost there is unknown."""
import collections
import json
import math
import pathlib
import re
import sys

MARKED = re.compile(r"(<!-- bench-table: (.+?) -->\n).*?(<!-- end -->)", re.S)
BESIDE = re.compile(r"(\S+) beside (.+?)(?: by (.+))?")
BY_ALGORITHM = re.compile(r"(\S+) by algorithm")
BY_NAMES = re.compile(r"(\S+) by (.+)")
SIZES = re.compile(r"(\d+[KMG]?) to (\d+[KMG]?)")
NO_ALGORITHM = re.compile(r"peer:|.*_v$|(put|get)\b")  # another library, or other calls
UNITS = {"G": 1 << 30, "M": 1 << 20, "K": 1 << 10}
LEAST_RATED = 16 << 20  # bytes; from here on a bandwidth says more than a time


def size(count):
    for suffix, unit in UNITS.items():
        if count >= unit and count % unit == 0:
            return f"{count // unit}{suffix}"
    return str(count)


def bytes_of(text):
    return int(text.rstrip("KMG")) * UNITS.get(text[-1], 1)


def cell(result):
    text = f"{result['time_us']:.1f}"
    if result["bytes"] >= 1 << 20:
        text += f" ({result['busbw']:.0f})"
    if result["name"] == "default":
        text += f" {result.get('chosen', '')}".rstrip()
    if (result.get("wrong") or 0) != 0:
        text += f" WRONG {result['wrong']}"
    return text


def short(time):
    return f"{time:.{2 if time < 1 else 1 if time < 100 else 0}f}"


def results_of(paths):
    return [result for path in paths
            for result in json.loads(path.read_text(encoding="utf-8"))["results"]]


def lines_of(head, rows):
    return "".join(f"| {' | '.join(row)} |\n" for row in [head, ["---"] * len(head), *rows])


def beside(results, name, peers, parts):
    """The times of `name` and of the fastest peer, and their ratio. A column is what results have
    in `parts`."""
    own, best = {}, {}
    for result in results:
        cell_of = result["bytes"], ", ".join(result[part] for part in parts)
        if result["name"] == name:
            own[cell_of] = result["time_us"]
        elif result["name"] in peers:
            best[cell_of] = min(result["time_us"], best.get(cell_of, float("inf")))
    both = [cell_of for cell_of in own if cell_of in best]
    columns = list(dict.fromkeys(column for _, column in both))

    def text(count, column):
        if (count, column) not in both:
            return "-"
        ours, theirs = own[count, column], best[count, column]
        return f"{short(ours)} / {short(theirs)} = {ours / theirs:.2f}"
    heads = [f"`{column}`" if parts == ["collective"] else column for column in columns]
    return lines_of(["bytes", *heads],
                    [[size(count), *(text(count, column) for column in columns)]
                     for count in sorted({count for count, _ in both})])


def by_algorithm(results, collective):
    """A table of one collective: the time of each algorithm and peer."""
    times = {(result["name"], result["bytes"]): result["time_us"]
             for result in results if result["collective"] == collective}
    names = sorted({name for name, _ in times}, key=lambda name: (name.startswith("peer:"), name))
    counts = sorted({count for _, count in times})
    return lines_of(["", *(size(count) for count in counts)],
                    [[f"`{name}`", *(short(times[name, count]) if (name, count) in times else "-"
                                     for count in counts)]
                     for name in names])


def by_names(results, collective, names):
    """A table of one collective: what each number of ranks reaches with each of `names`."""
    def row_of(name):
        if name.startswith("peer:"):
            return name.removeprefix("peer:").split("-")[0].upper()
        return f"`{name}`" if name in names and name != "others" else "others"
    rows = dict.fromkeys(row_of(name) for name in names)
    best = {}
    for result in results:
        if result["collective"] != collective or result["name"] == "default":
            continue
        if result["name"].startswith("peer:") and result["name"] not in names:
            continue
        cell_of = result["ranks"], row_of(result["name"]), result["bytes"]
        if cell_of not in best or result["time_us"] < best[cell_of]["time_us"]:
            best[cell_of] = result
    counts = sorted({count for _, row, count in best if row in rows})
    if not counts:
        sys.exit(f"no {collective} by {' or '.join(names)}")

    def text(cell_of):
        if cell_of not in best:
            sys.exit(f"no {collective} of {cell_of[2]} bytes on {cell_of[0]} ranks by {cell_of[1]}")
        result = best[cell_of]
        return f"{result['busbw']:.0f}" if cell_of[2] >= LEAST_RATED else short(result["time_us"])
    heads = [size(count) + (" GB/s" if count >= LEAST_RATED else " us") for count in counts]
    return lines_of(["", *heads],
                    [[f"{ranks} ranks, {row}", *(text((ranks, row, count)) for count in counts)]
                     for ranks in sorted({ranks for ranks, _, _ in best}) for row in rows])


class Choices:
    """The ratios of `default` to the fastest algorithm in each cell."""
    LIMIT = 1.10

    def __init__(self, results):
        times, chosen = collections.defaultdict(dict), {}
        for result in results:
            if NO_ALGORITHM.match(result["name"]):
                continue
            if result.get("offset_bytes", 0) != 0:
                continue  # the choice knows no alignment
            key = tuple(result[part] for part in
                        ("ranks", "collective", "bytes", "type", "memory", "in_place"))
            times[key][result["name"]] = result["time_us"]
            if result["name"] == "default":
                chosen[key] = result.get("chosen")
        self.cells, self.noise = [], []
        for key, of_cell in times.items():
            own = of_cell.pop("default", None)
            if own is None or not of_cell:
                continue
            best = min(of_cell, key=of_cell.get)
            self.cells.append((own / of_cell[best], key, chosen[key], best))
            if chosen[key] in of_cell:
                self.noise.append(abs(math.log(own / of_cell[chosen[key]])))
        if not self.cells:
            sys.exit("no rows of default beside rows of algorithms")

    def table(self):
        ranks = sorted({key[0] for _, key, _, _ in self.cells})
        rows = collections.defaultdict(lambda: collections.defaultdict(list))
        for ratio, key, _, _ in self.cells:
            rows[f"`{key[1]}`"][key[0]].append(ratio)
            rows["all"][key[0]].append(ratio)

        def text(ratios):
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            above = sum(ratio > self.LIMIT for ratio in ratios)
            return f"{mean:.3f}, {max(ratios):.2f}, {above} of {len(ratios)}"
        names = sorted(rows, key=lambda name: (name == "all", name))
        noise = sum(self.noise) / len(self.noise)
        return lines_of([f"noise {math.exp(noise):.3f}", *(f"{n} ranks" for n in ranks)],
                        [[name, *(text(rows[name][n]) if rows[name][n] else "" for n in ranks)]
                         for name in names])

    def worst(self, most=12):
        lines = ""
        for ratio, (ranks, collective, count, kind, memory, in_place), own, best in sorted(
                self.cells, reverse=True)[:most]:
            place = ", in place" if in_place else ""
            lines += (f"{ratio:.2f}  {ranks} ranks, {collective} of {count} bytes, {kind}, {memory}"
                      f"{place}: {own}, fastest {best}\n")
        return lines


class Wins:
    """What each algorithm is good for, by the cells in which several were timed."""
    NEAR, FAR = 1.02, 1.10

    def __init__(self, paths):
        times, chosen = collections.defaultdict(dict), {}
        for path in paths:
            data = json.loads(path.read_text(encoding="utf-8"))
            for result in data.get("results", []) if isinstance(data, dict) else []:
                key = path, *(result.get(part) for part in (
                    "ranks", "collective", "bytes", "type", "op", "memory", "in_place",
                    "offset_bytes", "timing"))
                name, time = result["name"], result["time_us"]
                if name == "default":
                    chosen[key] = result.get("chosen")
                elif not name.startswith("default ") and not NO_ALGORITHM.match(name):
                    times[key][name] = min(time, times[key].get(name, math.inf))
        self.cells = [cell_of for cell_of in times.values() if len(cell_of) > 1]
        self.unrivalled = collections.Counter(
            name for key, name in chosen.items() if name and key not in times)

    def cost(self, gone):
        """What the cells lose without the algorithms `gone`."""
        ratios = [min((time for name, time in cell_of.items() if name not in gone),
                      default=math.inf) / min(cell_of.values()) for cell_of in self.cells]
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        return [str(sum(ratio > self.NEAR for ratio in ratios)),
                str(sum(ratio > self.FAR for ratio in ratios)), f"{max(ratios):.2f}", f"{mean:.5f}"]

    def table(self, without):
        rows = []
        for name in sorted({name for cell_of in self.cells for name in cell_of}):
            cells = [cell_of for cell_of in self.cells if name in cell_of]
            near = sum(cell_of[name] <= self.NEAR * min(cell_of.values()) for cell_of in cells)
            rows.append([f"`{name}`", str(self.unrivalled[name]), str(len(cells)), str(near),
                         *self.cost({name})])
        if without:
            rows.append([f"without {', '.join(without)}", "", "", "", *self.cost(without)])
        return lines_of([f"{len(self.cells)} cells", "unrivalled", "in", "within 2 %",
                         "lost: > 2 %", "> 10 %", "worst", "mean"], rows)


def made(folder, description):
    """The table that a comment describes."""
    what, *facts, files = description.split(", ")
    if what == "choice":
        return Choices(results_of(folder / file for file in files.split())).table()
    if what == "explored":
        return lines_of(["", "scenarios", "executions", "steps", "seconds"],
                        [[str(value) for value in result.values()]
                         for result in results_of(folder / file for file in files.split())])
    memory = next((fact.split()[0] for fact in facts if fact.endswith(" memory")), None)
    results = [result for result in results_of(folder / file for file in files.split())
               if result.get("in_place", False) == ("in place" in facts)
               and result.get("offset_bytes", 0) == 0
               and (result["name"].startswith("peer:") or memory in (None, result["memory"]))]
    for sizes in filter(None, map(SIZES.fullmatch, facts)):
        results = [result for result in results
                   if bytes_of(sizes[1]) <= result["bytes"] <= bytes_of(sizes[2])]
    if match := BESIDE.fullmatch(what):
        return beside(results, match[1], match[2].split(" and "),
                      (match[3] or "collective").split(" and "))
    if match := BY_ALGORITHM.fullmatch(what):
        return by_algorithm(results, match[1])
    if match := BY_NAMES.fullmatch(what):
        return by_names(results, match[1], match[2].split(" and "))
    return sys.exit(f"{description}: is no table")


def renew(page, check):
    old = page.read_text(encoding="utf-8")
    new, tables = MARKED.subn(
        lambda found: found[1] + made(page.parent, found[2]) + found[3], old)
    if tables == 0:
        sys.exit(f"{page}: no table is marked")
    if check and new != old:
        sys.exit(f"{page}: a table is not what {pathlib.Path(__file__).name} --page makes")
    if not check:
        page.write_text(new, encoding="utf-8")


def main(paths):
    tables = collections.defaultdict(lambda: collections.defaultdict(dict))
    wrong = results = 0
    for path in paths:
        try:
            with open(path, encoding="utf-8") as file:
                found = json.load(file)["results"]
        except (OSError, ValueError, KeyError) as error:
            print(f"{path}: {error!r}", file=sys.stderr)
            wrong += 1
            continue
        for result in found:
            results += 1
            wrong += (result.get("wrong") or 0) != 0
            key = (result["ranks"], result["collective"], result["type"], result.get("op") or "",
                   bool(result["in_place"]), result.get("offset_bytes", 0),
                   result.get("memory", ""), result["timing"])
            tables[key][result["bytes"]][result["name"]] = result
    for (ranks, collective, kind, op, in_place, offset, memory, timing), rows in sorted(
            tables.items()):
        names = sorted({name for row in rows.values() for name in row},
                       key=lambda name: (name.startswith("peer:"), name != "default", name))
        call = " ".join(word for word in (collective, kind, op) if word)  # op may be empty
        place = ("in place" if in_place else "out of place") + (f" + {offset} bytes" * bool(offset))
        print(f"\n{ranks} ranks, {call}, {place}, {memory} memory, {timing}: us (busbw GB/s)")
        print("| bytes | " + " | ".join(names) + " |")
        print("| --- |" + " --- |" * len(names))
        for count in sorted(rows):
            cells = [cell(rows[count][name]) if name in rows[count] else "-" for name in names]
            print(f"| {size(count)} | " + " | ".join(cells) + " |")
    return 1 if wrong or not results else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    if sys.argv[1] == "--page":
        for argument in sys.argv[2:]:
            if argument != "--check":
                renew(pathlib.Path(argument), "--check" in sys.argv)
        sys.exit()
    if sys.argv[1] == "--choice":
        choices = Choices(results_of(pathlib.Path(argument) for argument in sys.argv[2:]))
        print(choices.table(), choices.worst(), sep="\n", end="")
        sys.exit()
    if sys.argv[1] == "--wins":
        files, _, without = " ".join(sys.argv[2:]).partition("--without")
        print(Wins(map(pathlib.Path, files.split())).table(without.replace(",", " ").split()),
              end="")
        sys.exit()
    sys.exit(main(sys.argv[1:]))
