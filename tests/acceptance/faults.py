#!/usr/bin/env -S python3 -B
"""Kills ranks, the launcher and all at once, at every named point and at random moments, and asks of
each run: did it end in time, with the right exit status, naming the right rank; is nothing left?

Usage: faults.py [--seed N] [--jobs N] [--only POINT] [--show]   (LOCKSTEP_BINARY: which binary)
The last line is "N faults, N hangs, N leftovers, right rank named N/N".
"""
import argparse
import concurrent.futures
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time

from fault_run import LARGE, SMALL, WORLD_SIZE, Case, Run

ROOT = pathlib.Path(__file__).resolve().parents[2]
REPEATS = 5
RANDOM_KILLS = 100
MIDDLE, LAST = 2, WORLD_SIZE - 1
RANKS = (0, MIDDLE, LAST)
RANKS_SECONDS = 1.0  # from the death of one rank to the end of the others
STOP_SECONDS = 2.0  # from Ctrl-C to the end of everything

# Points that every rank comes to, and how often at least.
EVERY_RANK = {
    "rank-start": 1, "rendezvous": 1, "joined": 1, "construction": 1, "parameter-broadcast": 6,
    "bucket-allocation": 2, "data-loading": 20, "forward": 20, "backward": 100, "mid-bucket": 40,
    "bucket-reduced": 40, "finalize": 40, "optimizer": 20, "rebuild": 1, "evaluation": 2,
    "evaluation-reduce": 2, "leaving": 1, "exit": 1,
}
RANK_0 = {"memfd-made": 1, "memfd-handed-over": 3, "json-writing": 20, "saving": 1,
          "temporary-file": 1}
NOT_RANK_0 = {"knocked": 1}
LAUNCHER = ("launcher-start", "launcher-fork", "launcher-store", "launcher-report",
            "launcher-signal", "launcher-end")
# From here on a rank may end well before another one dies.
LATE = ("leaving", "exit", "json-writing", "saving", "temporary-file", "evaluation-reduce")
NOT_THROWING = ("rank-start", "leaving", "exit")  # nothing there throws, or is caught by the app
THREADED = ("mid-bucket", "bucket-reduced")  # also in the communication thread


def points_of_ranks():
    """(point, trigger ranks, times, arguments) of every point in a rank."""
    for point, times in EVERY_RANK.items():
        yield point, RANKS, times, SMALL
    for point, times in RANK_0.items():
        yield point, (0,), times, SMALL
    for point, times in NOT_RANK_0.items():
        yield point, (MIDDLE, LAST), times, SMALL
    for point in THREADED:
        yield point, RANKS, 10, LARGE


def cases_at_ranks(draw):
    for point, triggers, times, arguments in points_of_ranks():
        for victim in (*RANKS, "launcher", "all", "SIGINT"):
            for repeat in range(REPEATS):
                trigger = victim if victim in triggers else triggers[repeat % len(triggers)]
                yield Case(point, victim, trigger, draw.randint(1, times), arguments=arguments)
        for victim in triggers:
            for action in ("throw", "segv", "exit:7"):
                if action == "throw" and point in NOT_THROWING:
                    continue
                yield Case(point, None, victim, draw.randint(1, times), action,
                           arguments=arguments)


def cases_at_launcher():
    for point in LAUNCHER:
        for victim in (*RANKS, "launcher", "all", "SIGINT"):
            is_rank = victim in RANKS
            if is_rank and point in ("launcher-start", "launcher-end"):
                continue  # there is no rank then
            for repeat in range(REPEATS):
                case = Case(point, victim, "launcher")
                if point == "launcher-fork":
                    case.count = WORLD_SIZE if is_rank else 1 + repeat % WORLD_SIZE
                if point == "launcher-report":
                    case.earlier = "forward:1:kill"
                if point == "launcher-signal":
                    case.earlier_signal, case.epochs = signal.SIGTERM, 1_000_000
                yield case


def cases_at_random(draw):
    for i in range(2 * RANDOM_KILLS):
        victim = (*RANKS, "launcher", "all")[i % 5] if i < RANDOM_KILLS else (
            "SIGINT" if i % 4 else "SIGTERM")
        yield Case("", victim, epochs=draw.choice((1, 2, 1_000_000)),
                   delay=draw.uniform(0.0, 0.12))


def cases_of_a_dead_reporter():
    """The rank that is telling the others which one died dies too."""
    for first in ("forward:1:kill", "mid-bucket:0:kill:9", "evaluation:3:kill"):
        for _ in range(REPEATS):
            yield Case("reporting", "any", "any", earlier=first)


def cases_of_silence():
    """A rank that lives and does not come: the deadline names it."""
    for point in ("rendezvous", "construction", "data-loading", "mid-bucket", "evaluation"):
        for victim in RANKS:
            yield Case(point, None, victim, action="hang", timeout=1)


def cases_in_a_namespace(draw):
    for point in ("rank-start", "rendezvous", "mid-bucket", "evaluation", "exit"):
        for victim in (*RANKS, "launcher", "all", "SIGINT", "SIGTERM"):
            trigger = victim if victim in RANKS else MIDDLE
            yield Case(point, victim, trigger, draw.randint(1, EVERY_RANK[point]), namespace=True)
    for victim in ("SIGINT", "SIGTERM"):
        for _ in range(REPEATS):
            yield Case("", victim, delay=draw.uniform(0.05, 0.3), epochs=1_000_000, alone=True,
                       namespace=True)


def end_expected(case, outcome):
    """The exit statuses that are right, and the rank that must be named (None: none)."""
    if case.earlier_signal:
        return {128 + case.earlier_signal}, None
    if case.earlier:
        return {128 + signal.SIGKILL}, int(case.earlier.split(":")[1])
    if case.action == "hang":
        return {75}, case.trigger
    if case.victim is None:
        codes = {"throw": 70, "segv": 128 + signal.SIGSEGV, "exit": 7}
        return {codes[case.action.split(":")[0]]}, case.trigger
    if case.victim in ("SIGINT", "SIGTERM"):
        return {128 + signal.Signals[case.victim]}, None
    return {128 + signal.SIGKILL}, case.victim


def may_have_finished(case, outcome):
    """The blow came when its victim had already ended, or was about to, well."""
    if case.victim is None or outcome.status != 0:
        return False
    return not case.point or case.point == "launcher-end" or (
        case.point in LATE and case.victim != case.trigger)


def names_rank(line, rank):
    return re.search(rf"\brank {rank}\b", re.sub(r"\[rank \d+/\d+ [^\]]*\]", "", line)) is not None


def complaints_about_survivor(line, rank, victim):
    """What is wrong with what a rank that lived on has said."""
    found = []
    if not names_rank(line, rank):
        found.append(f"a rank does not name rank {rank}: {line}")
    for other in re.findall(r"rank (\d+) \(pid", line):
        if int(other) not in (rank, victim):
            found.append(f"the wrong rank is said to be dead: {line}")
    if not re.search(r"last phase: |rendezvous|store: ", line):
        found.append(f"no last phase: {line}")
    if not re.search(r"\b\w+ #\d+|rendezvous|store: |barrier", line):
        found.append(f"no operation: {line}")
    return found


def complaints_about_names(case, outcome, rank):
    lines = [line for line in outcome.error.splitlines() if line.startswith("lockstep: ")]
    if len(lines) != len(outcome.error.splitlines()):
        return [f"unexpected output: {outcome.error}"]
    if not lines:
        return ["nothing is said"]
    if case.action == "throw":
        right = f"[rank {rank}/" in lines[0] and f"fault at {case.point}" in lines[0]
        return [] if right and len(lines) == 1 else [f"not the cause: {outcome.error}"]
    if case.action == "hang":
        named = [line for line in lines if names_rank(line, rank) or f"come: {rank}" in line]
        return [] if named == lines else [f"a line does not name rank {rank}: {outcome.error}"]
    found = []
    if not lines[0].startswith(f"lockstep: rank {rank} of {WORLD_SIZE} (pid "):
        found.append(f"the launcher does not name rank {rank}: {lines[0]}")
    name = "exited with code 7" if outcome.status == 7 else (
        f"signal {outcome.status - 128} ({signal.Signals(outcome.status - 128).name})")
    if name not in lines[0]:
        found.append(f"the launcher does not say \"{name}\": {lines[0]}")
    if len(lines) != WORLD_SIZE and case.point and case.point not in LATE and not case.earlier:
        found.append(f"{len(lines) - 1} of {WORLD_SIZE - 1} other ranks reported")
    for line in lines[1:]:
        found += complaints_about_survivor(line, rank, outcome.victim)
    return found


def judge(case, outcome):
    """(complaints about time and status, complaints about names, whether a rank had to be named)."""
    found = []
    stops = case.victim in ("SIGINT", "SIGTERM") or case.earlier_signal
    if case.victim is not None and outcome.struck:
        limit = STOP_SECONDS if stops else RANKS_SECONDS
        if case.victim not in ("launcher", "all") and outcome.seconds > limit:
            found.append(f"the launcher ended after {outcome.seconds:.2f} s")
        if outcome.ranks_seconds > limit:
            found.append(f"the ranks ended after {outcome.ranks_seconds:.2f} s")
    if may_have_finished(case, outcome):
        return found, [], False
    statuses, rank = end_expected(case, outcome)
    if case.victim in ("launcher", "all") and outcome.struck:
        # (unshare 2.38 has a status of its own when what it waits for is killed.)
        statuses, rank = {128 + signal.SIGKILL} | ({1} if case.namespace else set()), None
    if outcome.status not in statuses:
        found.append(f"exit status {outcome.status}, expected {statuses}: {outcome.error}")
        return found, [], rank is not None
    # Without a rank there is nothing to end in order, and the signal may take its usual course.
    ends_by_itself = case.point in ("launcher-start", "launcher-end") or case.earlier
    if stops and case.victim not in ("launcher", "all") and not ends_by_itself:
        number = case.earlier_signal or signal.Signals[case.victim]
        if case.point and signal.Signals(number).name not in outcome.error:
            found.append(f"the signal is not named: {outcome.error}")
    names = [] if rank is None else complaints_about_names(case, outcome, rank)
    return found, names, rank is not None


def shmem_kib():
    text = pathlib.Path("/proc/meminfo").read_text()
    return int(re.search(r"Shmem: +(\d+)", text)[1])


def all_cases(seed, only):
    draw = random.Random(seed)
    cases = list(cases_at_ranks(draw)) + list(cases_at_launcher()) + list(cases_of_silence())
    cases += cases_of_a_dead_reporter()
    cases += cases_at_random(draw)
    probe = ["unshare", "--pid", "--fork", "--mount-proc", "true"]
    refused = subprocess.run(probe, stderr=subprocess.PIPE, text=True, check=False)
    if refused.returncode == 0:
        cases += cases_in_a_namespace(draw)
    else:
        print(f"SKIP: as the first process of a PID namespace: {refused.stderr.strip()}")
    return [case for case in cases if only is None or case.point == only]


class Totals:
    def __init__(self):
        self.faults = self.hangs = self.leftovers = self.bad = 0
        self.named = self.to_name = 0
        self.slowest_rank = self.slowest_stop = 0.0

    def add(self, case, outcome):
        found, names, must_name = judge(case, outcome)
        if outcome.hung:
            found = ["it did not end"]
        self.faults += 1
        self.hangs += outcome.hung
        self.leftovers += bool(outcome.left)
        self.to_name += must_name
        self.named += must_name and not names and not found
        if case.victim in ("SIGINT", "SIGTERM"):
            self.slowest_stop = max(self.slowest_stop, outcome.seconds)
        elif case.victim is not None:
            self.slowest_rank = max(self.slowest_rank, outcome.ranks_seconds)
        problems = found + names + [f"left: {thing}" for thing in outcome.left]
        self.bad += bool(problems)
        return problems


def show(case, outcome, problems):
    print(f"{case.point or 'random':20} victim {case.victim} trigger {case.trigger} "
          f"count {case.count} {case.action} {case.faults()} delay {case.delay:.3f}"
          f"{' namespace' if case.namespace else ''}: status {outcome.status}, "
          f"{outcome.seconds:.2f} s")
    for problem in problems:
        print(f"    {problem.strip()}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only")
    parser.add_argument("--show", action="store_true", help="print what every run said")
    options = parser.parse_args()
    binary = os.path.abspath(os.environ.get("LOCKSTEP_BINARY", ROOT / "build/release/lockstep"))
    if not os.access(binary, os.X_OK):
        sys.exit(f"{binary} is not there; build it, or name another one in LOCKSTEP_BINARY")
    cases = all_cases(options.seed, options.only)
    totals, began, shmem = Totals(), time.monotonic(), shmem_kib()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for case, outcome in zip(cases, pool.map(lambda c: Run(binary, c).execute(), cases)):
            problems = totals.add(case, outcome)
            if problems or options.show:
                show(case, outcome, problems + ([outcome.error] if options.show else []))
    grown = (shmem_kib() - shmem) / 1024
    print(f"{len(set(c.point for c in cases if c.point))} points, seed {options.seed}, "
          f"{time.monotonic() - began:.0f} s; slowest: other ranks {totals.slowest_rank:.2f} s "
          f"(limit {RANKS_SECONDS:.0f}) after a death, Ctrl-C {totals.slowest_stop:.2f} s "
          f"(limit {STOP_SECONDS:.0f}); shared memory grew by {grown:.1f} MiB")
    print(f"{totals.faults} faults, {totals.hangs} hangs, {totals.leftovers} leftovers, "
          f"right rank named {totals.named}/{totals.to_name}")
    # Each run's shared memory has more than 2 MiB.
    return 1 if totals.bad or grown > len(cases) else 0


if __name__ == "__main__":
    sys.exit(main())
