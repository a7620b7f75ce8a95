"""scripts/beside-postgres: random statements on Ondol and on PostgreSQL 15 beside each other. See
CONTRIBUTING.md."""
import argparse
import os
import random
import sys
import tempfile
import time
from collections import Counter, defaultdict

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import postgres
from case import Gone
from compare import WRONG, Reasons, compare, variants
from kinds import changes, copies, cursors, definitions, expressions, indexes, keys, nested, queries, repeated, sequences, sessions, sets, texts, transactions, types, views, windows
from run import Both, differences
from smaller import Smaller, script

KINDS = {"expressions": expressions, "texts": texts, "queries": queries, "nested": nested, "changes": changes, "copies": copies, "transactions": transactions, "sessions": sessions,
         "cursors": cursors, "definitions": definitions, "types": types, "views": views, "keys": keys, "indexes": indexes, "sequences": sequences, "sets": sets, "windows": windows,
         "repeated": repeated}
# Shares of the statements; cases that are run at once.
SHARES = {"expressions": 20, "texts": 10, "queries": 20, "nested": 10, "changes": 15, "copies": 5, "transactions": 10, "sessions": 10,
          "cursors": 10, "definitions": 10, "types": 10, "views": 10, "keys": 10, "indexes": 10, "sequences": 10, "sets": 10, "windows": 10,
          "repeated": 20}
AT_ONCE = {"expressions": 150, "texts": 150, "sessions": 1}


def main():
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "target")
    parser = argparse.ArgumentParser(prog="scripts/beside-postgres", description=__doc__)
    parser.add_argument("--command", help="the ondol program (the newest of target/{release,quick,debug}/ondol)")
    parser.add_argument("--pgbin", default="/usr/lib/postgresql/15/bin", help="PostgreSQL's programs")
    parser.add_argument("--seed", type=int, default=1, help="of all that is random (1)")
    parser.add_argument("--statements", type=int, default=20000, help="how many, about (20000)")
    parser.add_argument("--kinds", default=",".join(KINDS), help=f"some of {','.join(KINDS)}")
    parser.add_argument("--control", action="store_true", help="give wrong answers for Ondol's: it is an error if one is not noticed")
    parser.add_argument("--smaller", type=int, default=30, help="differences that are made smaller and shown (30)")
    parser.add_argument("--all", action="store_true", help="show examples of known differences, too")
    parser.add_argument("--keep", action="store_true", help="keep the folder of both sides")
    o = parser.parse_args()
    kinds = o.kinds.split(",")
    unknown = [k for k in kinds if k not in KINDS]
    if unknown:
        parser.error(f"no such kind: {', '.join(unknown)}")
    if not o.command:
        found = [os.path.join(here, p, "ondol") for p in ("release", "quick", "debug")]
        found = [p for p in found if os.path.exists(p)]
        if not found:
            parser.error("no ondol program in target: build one, or name it by --command")
        o.command = max(found, key=os.path.getmtime)
    place = tempfile.mkdtemp(prefix="beside-")
    os.chmod(place, 0o755)
    try:
        cluster = postgres.Cluster(place, o.pgbin)
        try:
            return Trial(o, kinds, Both(cluster, os.path.abspath(o.command), place)).run()
        finally:
            cluster.stop()
    finally:
        if o.keep:
            print(f"kept: {place}")
        else:
            postgres.remove(place)


class Trial:
    def __init__(self, options, kinds, both):
        self.o, self.kinds, self.both, self.reasons = options, kinds, both, Reasons()
        self.statements, self.agreed, self.failed = Counter(), Counter(), Counter()
        self.explained, self.examples = Counter(), {}
        self.open = defaultdict(list)
        self.counts = defaultdict(Counter)
        self.noticed, self.missed = Counter(), defaultdict(list)

    def cases(self):
        """(kind, cases to be run at once), in shares, until there are enough statements."""
        total = sum(SHARES[k] for k in self.kinds)
        number = Counter()
        while sum(self.statements.values()) < self.o.statements:
            # The kind that is furthest behind.
            kind = min(self.kinds, key=lambda k: self.statements[k] * total / SHARES[k])
            batch = []
            for _ in range(AT_ONCE.get(kind, 6)):
                number[kind] += 1
                batch.append(KINDS[kind].case(random.Random(f"{self.o.seed}/{kind}/{number[kind]}")))
            yield kind, batch

    def run(self):
        began = told = time.monotonic()
        try:
            for kind, batch in self.cases():
                for case, results in zip(batch, self.both.run(batch)):
                    found, compared = differences(case, results)
                    self.statements[kind] += len(case.steps)
                    self.agreed[kind] += compared - len(found)
                    if self.o.control and not isinstance(results, Gone):
                        self.control(case, results)
                    if not isinstance(results, Gone) and not case.concurrent:
                        self.failed[kind] += sum(1 for p, _ in results if p.sqlstate)
                    for d in found:
                        self.take(d)
                if time.monotonic() - told > 20 and sys.stderr.isatty():
                    told = time.monotonic()
                    print(f"{sum(self.statements.values())} statements, {sum(map(len, self.open.values()))} unexplained", file=sys.stderr)
        except KeyboardInterrupt:
            print("interrupted")
        seconds = time.monotonic() - began
        status = self.report(seconds)
        self.both.close()
        return status

    def take(self, d):
        d.reason = self.reasons.of(d)
        self.counts[d.kind]["known" if d.reason else "wrong" if d.what in WRONG else "other"] += 1
        if d.reason:
            self.explained[d.reason] += 1
            self.examples.setdefault(d.reason, d)
        else:
            self.open[(d.kind, d.signature())].append(d)

    def control(self, case, results):
        rng = random.Random(0)
        for entry in results if case.concurrent else zip(case.steps, results):
            step = entry[0]
            p, o = (entry[1].get(step.session), entry[2].get(step.session)) if case.concurrent else entry[1]
            if p is None or o is None or compare(step, p, o):
                continue
            wrong = list(variants(step, o))
            name, outcome = rng.choice(wrong)
            if compare(step, p, outcome) in (None, "looks", "rounding"):
                self.missed[name].append((step, outcome))
            else:
                self.noticed[name] += 1

    def report(self, seconds):
        smaller, shown = Smaller(self.both), 0
        ordered = sorted(self.open.items(), key=lambda kv: (kv[1][0].what not in WRONG, kv[0][0], -len(kv[1])))
        for (kind, signature), all_of in ordered:
            wrong = all_of[0].what in WRONG
            for d in all_of[:3 if wrong else 1]:
                if shown >= self.o.smaller:
                    continue
                shown += 1
                d = smaller.of(min(all_of, key=lambda x: len(x.case.steps) * 1000 + len(x.step.sql)) if not wrong else d)
                print(f"---- {kind}: {signature} ({len(all_of)} times){' (not seen again alone)' if getattr(d, 'unsteady', False) else ''}")
                print(script(d.case))
                print(f"    PostgreSQL: {d.postgres.text()}\n    Ondol:      {d.ondol.text()}\n", flush=True)
        if len(ordered) > 0:
            print("Unexplained:")
            for (kind, signature), all_of in ordered:
                print(f"{len(all_of):8} {kind}: {signature}")
        if self.explained:
            print("Known:")
            for reason, n in self.explained.most_common():
                print(f"{n:8} {reason}")
                if self.o.all:
                    d = self.examples[reason]
                    print(f"           {d.step.text('ondol')}\n           PostgreSQL: {d.postgres.text()}\n           Ondol: {d.ondol.text()}")
        print(f"\n{'kind':14}{'statements':>12}{'errors':>9}{'agree':>9}{'known':>8}{'wrong':>8}{'other':>8}")
        for kind in self.kinds:
            c = self.counts[kind]
            print(f"{kind:14}{self.statements[kind]:12}{self.failed[kind]:9}{self.agreed[kind]:9}{c['known']:8}{c['wrong']:8}{c['other']:8}")
        total = sum(self.statements.values())
        print(f"{'all':14}{total:12}{sum(self.failed.values()):9}{sum(self.agreed.values()):9}{sum(c['known'] for c in self.counts.values()):8}"
              f"{sum(c['wrong'] for c in self.counts.values()):8}{sum(c['other'] for c in self.counts.values()):8}")
        print(f"seed {self.o.seed}, {seconds:.0f} s, {total / max(seconds, 0.001):.0f} statements a second")
        if self.o.control:
            print("\nWrong answers given:")
            for name in sorted(set(self.noticed) | set(self.missed)):
                print(f"{self.noticed[name]:8} noticed {len(self.missed.get(name, ())):6} missed  {name}")
            missed = {name: some for name, some in self.missed.items() if some}
            if missed or not self.noticed:
                for name, some in missed.items():
                    print(f"missed, {name}: {some[0][0].sql}\n    {some[0][1].text()}")
                return 1
        return 1 if any(c["wrong"] for c in self.counts.values()) else 0


sys.exit(main())
