#!/usr/bin/env python3
"""bench-choice.py FILE.json...: how good Plait's own choice of algorithm is.

FILE.json is what `plait-bench --algorithms all --json FILE.json` wrote. Each cell is a collective,
size, type, memory and placement. Its ratio is the time of the row `default` over that of the
fastest algorithm of the same run. Prints, for each file and collective, the number of cells, the
geometric mean of the ratios and how many are above 1.10, then the worst cells. What `default` loses
against the very algorithm that it chose is chance, and is printed as the noise of the run.
"""
import collections
import json
import math
import pathlib
import sys

MOST = 1.10
SHOWN = 8


def cells_of(path):
    """For each cell: the times by algorithm, and the algorithm that `default` took."""
    cells = collections.defaultdict(dict)
    chosen = {}
    for row in json.loads(pathlib.Path(path).read_text())["results"]:
        key = (row["collective"], row["bytes"], row["type"], row["memory"], row["in_place"])
        if row["name"].startswith("peer:") or row["name"] == "all_to_all_v":
            continue  # another library, or other calls
        cells[key][row["name"]] = row["time_us"]
        if row["name"] == "default":
            chosen[key] = row.get("chosen")
    return cells, chosen


def mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    for path in sys.argv[1:]:
        cells, chosen = cells_of(path)
        ratios, noise = collections.defaultdict(list), []
        for key, times in cells.items():
            own = times.pop("default", None)
            if own is None or len(times) < 2:
                continue
            best = min(times, key=times.get)
            ratios[key[0]].append((own / times[best], key, chosen[key], best))
            if chosen[key] in times:
                noise.append(max(own / times[chosen[key]], times[chosen[key]] / own))
        if not ratios:
            sys.exit(f"{path}: no rows of default beside rows of algorithms")
        print(f"{path}: noise {mean(noise):.3f}, at worst {max(noise):.2f}")
        for collective, rows in sorted(ratios.items()):
            values = [row[0] for row in rows]
            above = sum(value > MOST for value in values)
            print(f"  {collective:<15} {len(values):4} cells, mean {mean(values):.3f}, worst "
                  f"{max(values):.2f}, {above} above {MOST}")
        for ratio, key, own, best in sorted((row for rows in ratios.values() for row in rows),
                                            reverse=True)[:SHOWN]:
            where = f"{key[3]}{', in place' if key[4] else ''}"
            print(f"    {ratio:.2f}  {key[0]} of {key[1]} bytes, {where}: {own}, best {best}")


if __name__ == "__main__":
    main()
