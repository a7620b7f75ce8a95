"""scripts/vm: power cuts and persistent memory in a virtual machine. See CONTRIBUTING.md."""
import argparse
import sys

import check
import kernel
from cuts import FILE_SYSTEMS
from engine import Engine
from pgwal import Pgwal
from sqlite import SCENARIOS, Sqlite


def main():
    others = {kind.name: kind for kind in (Pgwal, Engine)}
    scenarios = ["disk", *SCENARIOS, *others]
    parser = argparse.ArgumentParser(prog="scripts/vm", description=__doc__)
    parser.add_argument("scenario", choices=scenarios)
    parser.add_argument("--kills", type=int, default=20, help="power cuts (20)")
    parser.add_argument("--seed", type=int, default=1, help="of everything but time (1)")
    parser.add_argument("--control", action="store_true", help="without syncs: it is an error if nothing is noticed")
    parser.add_argument("--kernel", help="a Debian package (linux-image-6.12-amd64, else linux-image-amd64)")
    parser.add_argument("--fs", choices=[*FILE_SYSTEMS, "xfs-exchange"], help="only this file system")
    parser.add_argument("--mode", help="another mode of the SQLite extension, or stock: SQLite without it. Of pgwal: stock, unrecovered. Of engine: unrecovered")
    parser.add_argument("--pgbin", help="PostgreSQL's programs (the newest in /usr/lib/postgresql)")
    parser.add_argument("--mount", help="other mount options")
    parser.add_argument("--doctor", action="store_true", help="what `ondol sqlite doctor` says of each new file system")
    parser.add_argument("--verbose", action="store_true", help="a line for each cut")
    options = parser.parse_args()
    if options.scenario == "disk":
        return check.run()
    try:
        name = options.scenario
        scenario = others[name](options) if name in others else Sqlite(name, options)
        return scenario.run()
    except kernel.Missing as missing:
        print(f"vm: {missing}", file=sys.stderr)
        return 2


sys.exit(main())
