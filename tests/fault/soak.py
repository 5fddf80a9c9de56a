#!/usr/bin/env python3
"""soak.py MPIRUN SOAK_RANKS [--kills N] [--stops N] [--ranks N] [--deadline SECONDS] [--seed N]

Starts jobs of soak_ranks and, at a random moment of each, kills (SIGKILL) or stops (SIGSTOP) one
rank. The other ranks must end by themselves: within a second and a half of a kill, within the
deadline plus a second and a half of a stop. Each of them must name the victim. Prints a line per
job that is not as it should be, then a table. The exit status is the number of such jobs, at most
99.
"""

import argparse
import collections
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

SLACK = 3  # seconds: Plait's own second, and two for a busy machine


def alive(process):
    """Whether the process runs: one that has ended and waits for its parent does not."""
    try:
        state = pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def blamed(text, members):
    """The job's ranks that an error's first sentence blames; None if it can't tell.

    `members` are the job's ranks behind the communicator's; the error may speak of a part of it.
    """
    if "for a rank that has made it, too" in text.split("\n")[0]:
        return None
    if part := re.search(r"the part of ranks ([\d, ]+) \(", text):
        members = [members[int(n)] for n in part.group(1).split(", ")]
    found = re.findall(
        r"\b(?:rank (\d+) \(process \d+, which|rank (\d+) is missing|rank (\d+) has not come so far"
        r"|ranks? ([\d, ]+) (?:did not arrive|ended before)|(?:from|to) ranks? ([\d, ]+)(?:"
        r" within|:)|wait(?:s|ed) in \w+ \d+ for ranks? ([\d, ]+))",
        text.split("\n")[0],
    )
    numbers = {
        int(n) for match in found for part in match if part for n in re.findall(r"\d+", part)
    }
    return {members[n] for n in numbers if n < len(members)} if members else numbers


def wrongly_accused(said, victim):
    """Ranks whose error names another rank than the victim.

    A rank that has given up because of the victim is missing, too, for the ranks that wait for it:
    in the communicator around a part, and in a creation.
    """
    accused = {rank: blamed(text, members) for rank, (members, text) in said.items()}
    right, before = {victim} | {rank for rank, ranks in accused.items() if ranks is None}, None
    while right != before:
        before = set(right)
        right |= {rank for rank, ranks in accused.items() if ranks and ranks <= right}
    return [rank for rank in accused if rank not in right]


def run(options, number, fault, random_numbers):
    """One job: (what went wrong or None, seconds the last rank took, phases)."""
    victim = random_numbers.randrange(options.ranks)
    delay = random_numbers.expovariate(1 / 0.4)
    folder = tempfile.mkdtemp(prefix="plait-soak-")
    environment = dict(
        os.environ, PLAIT_TIMEOUT=str(options.deadline), PLAIT_LOG="off", PLAIT_BACKEND="host"
    )
    job = subprocess.Popen(
        [
            options.mpirun,
            "--allow-run-as-root",
            "--oversubscribe",
            "--bind-to",
            "none",
            "--enable-recovery",
            "-n",
            str(options.ranks),
            options.program,
            str(random_numbers.randrange(1 << 30)),
            "20",
            folder,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        stdin=subprocess.DEVNULL,
    )
    paths = [pathlib.Path(folder) / str(rank) for rank in range(options.ranks)]
    started = time.monotonic()
    while not all(path.exists() for path in paths):
        if time.monotonic() - started > 30:
            job.kill()
            return "the ranks did not start", 0, []
        time.sleep(0.005)
    processes = [int(path.read_text()) for path in paths]
    time.sleep(delay)
    os.kill(processes[victim], signal.SIGKILL if fault == "kill" else signal.SIGSTOP)
    at = time.monotonic()
    limit = (0 if fault == "kill" else options.deadline) + SLACK
    others = [process for rank, process in enumerate(processes) if rank != victim]
    # MPI may notice a killed rank late: in creation only the deadline ends the wait.
    most = options.deadline + SLACK
    while any(alive(process) for process in others) and time.monotonic() - at < most + 5:
        time.sleep(0.01)
    took = time.monotonic() - at
    left = [rank for rank, process in enumerate(processes) if rank != victim and alive(process)]
    for process in processes:
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            pass
    try:
        output = job.communicate(timeout=20)[0]
    except subprocess.TimeoutExpired:
        job.kill()
        output = job.communicate()[0]
    for path in paths:
        path.unlink()
    os.rmdir(folder)
    said = {
        int(rank): ([int(member) for member in members.split()], text)
        for rank, members, text in re.findall(
            r"^rank (\d+)(?: of \[([\d ]*)\])?: (.*(?:\n  .*)*)", output, re.M
        )
    }
    phases = [
        re.match(r"in ([^:]*)", text).group(1)
        for _, text in said.values()
        if text.startswith("in ")
    ]
    wrong = []
    if left:
        wrong.append(f"ranks {left} hang")
    creating = "create" in phases
    if not left and took > (most if creating else limit):
        wrong.append(f"took {took:.1f} s")
    wrong += [
        f"rank {rank} said nothing"
        for rank in range(options.ranks)
        if rank != victim and rank not in left and rank not in said
    ]
    wrong += [
        f"rank {rank} blames another" for rank in wrongly_accused(said, victim) if rank != victim
    ]
    if not wrong:
        return None, took, phases
    return (
        f"job {number}, {fault} of rank {victim} after {delay:.2f} s: {'; '.join(wrong)}\n{output}",
        took,
        phases,
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("mpirun")
    parser.add_argument("program")
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--stops", type=int, default=4)
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--deadline", type=float, default=2)
    parser.add_argument("--seed", type=int, default=None, help="default: drawn, and printed")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 30)
    print(f"seed {seed}", flush=True)
    random_numbers = random.Random(seed)
    faults = ["kill"] * options.kills + ["stop"] * options.stops
    random_numbers.shuffle(faults)
    bad, longest, phases = 0, collections.defaultdict(float), collections.Counter()
    for number, fault in enumerate(faults):
        wrong, took, where = run(options, number, fault, random_numbers)
        longest[fault] = max(longest[fault], took)
        phases.update(where)
        if wrong:
            bad += 1
            print(wrong, flush=True)
    print(
        f"{len(faults)} jobs of {options.ranks} ranks, {bad} not as they should be; the last rank"
        " ended after at most "
        + ", ".join(f"{seconds:.1f} s ({fault})" for fault, seconds in sorted(longest.items()))
    )
    print(
        "ranks were in: " + ", ".join(f"{phase} {count}" for phase, count in phases.most_common())
    )
    return min(bad, 99)


if __name__ == "__main__":
    sys.exit(main())
