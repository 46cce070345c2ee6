"""What seeing into a worker costs in processor time: run by tracing_cost.sh.

    tracing_time.py COST SECONDS NAME=BUILD=WITH...

A server of each variant runs on one processor together with its client, and they take turns, in another
order each time, for a fraction of a second: so what changes on the machine meanwhile changes all of them,
and is not in their ratios. Servers are started anew all the time, because how one happens to lie in
memory is worth some percent, too. A row is the mean of the middle 60 % of all ratios, and between which
values it is with 95 % certainty: what it is of other servers and other turns, drawn from these.
"""

import math
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

KINDS = ["read", "write", "open", "list", "copy"]

# Of all servers once, with so many turns: long enough that to start them does not count.
TURNS = 12

# How long a turn of one variant takes, in seconds, about.
TURN = 0.08

# How often other turns are drawn.
DRAWS = 2_000


class Server:
    def __init__(self, cost, build, beside):
        self.site = tempfile.mkdtemp()
        arguments = [cost, build, self.site, "-"]
        if beside:
            arguments.append("with=" + beside.replace("SITE", self.site))
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(arguments, stdin=pipe, stdout=pipe, text=True)

    def work(self, kind, count):
        """Nanoseconds of each."""
        self.process.stdin.write(f"{kind} {count}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().split()
        if not answer:
            sys.exit("choro: a server has ended")
        return int(answer[1])

    def end(self):
        self.process.stdin.close()
        self.process.wait()
        shutil.rmtree(self.site, ignore_errors=True)


def shuffled(values):
    return random.sample(list(values), len(values))


def middle(values):
    """The mean without the least and the greatest fifth."""
    cut = len(values) // 5
    return statistics.fmean(sorted(values)[cut : len(values) - cut])


def drawn(groups):
    """As many groups, each with as many values, of those that there are."""
    for group in random.choices(groups, k=len(groups)):
        yield from random.choices(group, k=len(group))


def percent(logarithm):
    return (math.exp(logarithm) - 1) * 100


def main():
    cost, seconds, *variants = sys.argv[1:]
    variants = {name: rest for name, *rest in (it.split("=", 2) for it in variants)}
    end = time.monotonic() + float(seconds)
    # Client and server wait for each other: on one processor that is the same way each time.
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    counts = {}
    # By kind: of each start, of each turn, what each variant took.
    found = {kind: [] for kind in KINDS}
    while time.monotonic() < end:
        servers = {name: Server(cost, *variants[name]) for name in shuffled(variants)}
        for turns in found.values():
            turns.append([])
        for kind in KINDS:
            for server in servers.values():
                # Its client takes about as long.
                ns = 2 * server.work(kind, 50)
                counts.setdefault(kind, max(10, int(TURN * 1e9 / ns)))
        for _ in range(TURNS):
            for kind in shuffled(KINDS):
                order = shuffled(servers)
                took = {name: servers[name].work(kind, counts[kind]) for name in order}
                found[kind][-1].append(took)
            if time.monotonic() > end:
                break
        for server in servers.values():
            server.end()
    for kind, starts in found.items():
        starts = [turns for turns in starts if turns]
        print(f"{kind}\t{len(starts)} x {len(starts[0])}", end="")
        for name in variants:
            values = [took[name] for turns in starts for took in turns]
            print(f"\t{name} {statistics.median(values) / 1000:.2f} us", end="")
            # The first is the plain one; all others are the second with something beside it.
            base = {0: None, 1: 0}.get(list(variants).index(name), 1)
            if base is None:
                continue
            base = list(variants)[base]
            ratios = [[math.log(it[name] / it[base]) for it in turns] for turns in starts]
            draws = sorted(middle(list(drawn(ratios))) for _ in range(DRAWS))
            low, high = draws[DRAWS // 40], draws[-DRAWS // 40]
            mean = middle([it for group in ratios for it in group])
            print(
                f" {percent(mean):+.2f} % of {base}"
                f" ({percent(low):+.2f} to {percent(high):+.2f})",
                end="",
            )
        print(flush=True)


main()
