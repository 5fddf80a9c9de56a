#!/usr/bin/env python3
"""bench_progress_test.py PLAIT_BENCH: on a terminal, plait-bench shows a bar that leaves no trace
among the lines of the table. Without one a short run prints nothing."""
import json
import os
import pty
import re
import select
import subprocess
import sys
import time

BENCH = sys.argv[1]
FLAGS = ["--backend", "host", "--peers", "none", "--algorithms", "default,ring", "-b", "1K", "-e",
         "16K", "-n", "3", "-w", "0", "--table"]
os.environ["TERM"] = "xterm"  # a dumb terminal gets no bar


def on_terminal(command, **streams):
    """What a terminal gets that is the standard error, and the standard output by default."""
    master, slave = pty.openpty()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=slave,
                               **{"stdout": slave, **streams})
    os.close(slave)
    text, until = b"", time.monotonic() + 60
    while time.monotonic() < until:
        if select.select([master], [], [], 1)[0]:
            try:
                text += os.read(master, 65536)
            except OSError:  # the other side is closed
                break
    os.close(master)
    assert process.wait(timeout=60) == 0, text
    return text.decode()


def screen(text):
    """The lines that remain: an escape sequence wipes the line, a carriage return goes back."""
    lines = [""]
    for part in re.split(r"(\r\n|\r\x1b\[K)", text):
        if part == "\r\n":
            lines.append("")
        elif part == "\r\x1b[K":
            lines[-1] = ""
        else:
            lines[-1] += part
    return lines


both = on_terminal([BENCH, *FLAGS])
assert re.search(r"\r\x1b\[K\[[#.]{24}\] 0 of 6, time unknown: all_reduce f32 1K, ", both), both
assert re.search(r"\[[#.]{24}\] 5 of 6, \d+ s left: all_reduce f32 16K, ", both), both
left = screen(both)
assert not any("[" in line and "#." in line or " left: " in line for line in left), left
assert sum(line.startswith("all_reduce") and line.endswith(" 0") for line in left) == 6, left

alone = on_terminal([BENCH, *FLAGS], stdout=subprocess.DEVNULL)
assert " of 6, " in alone and screen(alone) == [""], alone

dumb = on_terminal([BENCH, *FLAGS], stdout=subprocess.DEVNULL, env=os.environ | {"TERM": "dumb"})
assert "\x1b" not in dumb, dumb

for flags in (["--progress", "none"], ["--progress", "lines"]):
    silent = on_terminal([BENCH, *FLAGS, *flags], stdout=subprocess.DEVNULL)
    assert silent == "", silent

piped = subprocess.run([BENCH, *FLAGS], capture_output=True, text=True, timeout=60)
assert (piped.returncode, piped.stderr) == (0, ""), piped
bar = subprocess.run([BENCH, *FLAGS, "--progress", "bar"], capture_output=True, text=True,
                     timeout=60)
assert "\x1b[K" in bar.stderr and "\x1b" not in bar.stdout, bar

# The bar counts what a dry run counts: of each collective the algorithms that it has.
flags = [BENCH, *FLAGS, "-C", "all", "--algorithms", "all", "-e", "1K", "-n", "1", "-c", "0"]
dry = subprocess.run([*flags, "--dry-run"], capture_output=True, text=True, timeout=60)
at_most = sum(run["at_most"] for run in json.loads(dry.stdout)["runs"])
bar = subprocess.run([*flags, "--progress", "bar"], capture_output=True, text=True, timeout=60)
assert bar.returncode == 0 and f"] 0 of {at_most}, " in bar.stderr, (at_most, bar.stderr)
print("passed")
