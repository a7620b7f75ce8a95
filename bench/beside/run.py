"""Running cases on both sides."""
import os
import time

from case import Gone, Outcome
from compare import Difference, compare
from ondol import Shell
from postgres import exchange

STATEFUL = ("changes", "transactions", "copies", "sessions", "cursors", "definitions", "types", "views", "keys", "indexes", "sequences", "repeated")
LIMIT = 75


class Both:
    def __init__(self, cluster, command, place):
        self.cluster, self.command, self.place = cluster, command, place
        self.shells, self.clients, self.made, self.monitor = {}, {}, 0, None

    def shell(self, which):
        if which not in self.shells:
            self.made += 1
            self.shells[which] = Shell(self.command, os.path.join(self.place, f"ondol{self.made}"))
        return self.shells[which]

    def client(self, name):
        if name not in self.clients:
            self.clients[name] = self.cluster.connect()
        return self.clients[name]

    def forget(self):
        """After something went wrong: both sides anew."""
        for shell in self.shells.values():
            shell.stop()
        for client in self.clients.values():
            client.close()
        self.shells, self.clients = {}, {}

    def close(self):
        self.forget()

    # Cases of one session, many at once

    def run(self, cases):
        """For each case the outcomes on both sides: [(postgres, ondol)], or a Gone."""
        concurrent = [c for c in cases if c.concurrent]
        if concurrent:
            return [self.alone(c) for c in cases]
        try:
            return self.batch(cases)
        except Gone:
            self.forget()
            return [self.alone(c) for c in cases]

    def alone(self, case):
        try:
            return self.beside(case) if case.concurrent else self.batch([case])[0]
        except Gone as gone:
            self.forget()
            return gone

    def batch(self, cases):
        client, shell = self.client("main"), self.shell("main")
        client.take()
        for case in cases:
            for step in case.steps:
                client.send(step.text("postgres"), step.data)
                shell.send(step.text("ondol"), step.data)
            shell.mark()
        if not exchange([client, shell], LIMIT):
            raise Gone(f"no answer of {'PostgreSQL' if not client.done else 'Ondol'} within {LIMIT} s")
        theirs, ours = client.take(), shell.take()[-len(cases):]
        results, at = [], 0
        for case, group in zip(cases, ours):
            n = len(case.steps)
            if len(group) != n:
                raise Gone(f"{len(group)} outcomes of {n} statements")
            results.append([(p, o) for p, (_, o) in zip(theirs[at:at + n], group)])
            at += n
        return results

    # Cases of several sessions, a step at a time

    def blocked(self, pid):
        return bool(self.monitor.ask(f"SELECT 1 WHERE cardinality(pg_blocking_pids({pid})) > 0"))

    def settled(self, client):
        """Whether the statement has ended (true) or waits (false). It waits if it still does when the look
        for deadlocks is over."""
        began, limit = time.monotonic(), 0.002
        while True:
            if exchange([client], limit):
                return True
            if time.monotonic() - began > 60:
                raise Gone("PostgreSQL: a step does not end")
            if time.monotonic() - began > 0.008 and self.blocked(client.pid) and not client.outcomes:
                return False

    def beside(self, case):
        """PostgreSQL first, then Ondol with the same steps: those of a session that waits are left out."""
        self.monitor = self.client("monitor")
        waiting, taken = {}, []
        for step in case.steps:
            name = step.session
            if name in waiting:
                continue
            client = self.client(name)
            client.take()
            client.send(step.text("postgres"), step.data)
            events = {}
            if self.settled(client):
                events[name] = client.take()[-1]
            else:
                events[name] = Outcome(waits=True)
                waiting[name] = client
            again = True
            while again:
                again = False
                for other, c in list(waiting.items()):
                    if other != name and self.settled(c):
                        events[other] = c.take()[-1]
                        del waiting[other]
                        again = True
            taken.append((step, events))
        for name, c in list(waiting.items()):
            self.monitor.ask(f"SELECT pg_cancel_backend({c.pid})")
            exchange([c])
            c.take()
        for name, c in self.clients.items():
            if name != "monitor":
                c.take()
                c.send("ROLLBACK")
                exchange([c])
                c.take()
        shell = self.shell("sessions")
        for step, _ in taken:
            shell.go_to(step.session)
            shell.send(step.text("ondol"), step.data)
            shell.mark()
        names = sorted({s.session for s, _ in taken})
        for _ in range(2):
            for name in names:
                shell.go_to(name)
                shell.send("ROLLBACK")
        shell.go_to("main")
        shell.mark()
        if not exchange([shell], LIMIT):
            raise Gone("no answer of Ondol")
        groups = shell.take()[-len(taken) - 1:]
        if any(o.sqlstate == "55000" for _, o in groups[-1]):
            self.shells.pop("sessions").stop()
        results = []
        for (step, events), group in zip(taken, groups):
            # Settings of a new session come before.
            ours = {}
            for name, outcome in group:
                if name is not None and not (outcome.tag == "SET"):
                    ours[name] = outcome
            results.append((step, events, ours))
        return results


def differences(case, results):
    """What differs in a case; where a difference changes what follows, the first only. Gives also the number
    of statements compared."""
    if isinstance(results, Gone):
        return [Difference(case.kind, "gone", case.steps[-1], Outcome(tag=""), Outcome(sqlstate="?????", message=str(results)), case, len(case.steps) - 1)], len(case.steps)
    found = []
    if case.concurrent:
        for n, (step, theirs, ours) in enumerate(results):
            nothing = Outcome(tag="nothing")
            for name in sorted(set(theirs) | set(ours), key=lambda x: x != step.session):
                p, o = theirs.get(name, nothing), ours.get(name, nothing)
                what = compare(step, p, o)
                if name not in theirs or name not in ours:
                    what = "waits"
                if what:
                    d = Difference(case.kind, what, step, p, o, case, n)
                    return [d], n + 1
        return found, len(results)
    for n, (step, (p, o)) in enumerate(zip(case.steps, results)):
        what = compare(step, p, o)
        if what:
            found.append(Difference(case.kind, what, step, p, o, case, n))
            if case.kind in STATEFUL:
                return found, n + 1
    return found, len(results)
