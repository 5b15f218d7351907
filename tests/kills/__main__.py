"""kill -9 again and again, the disk wiped each time: writers of one's own, by place, source and state.

    python -m tests.kills --kills 200 [--minutes 60] [--with holdfast|off|plain] [--only files-s3-kafka-stateful]

Each story is one job: lives that end at a random moment with `kill -9` and a wiped work directory, then one that reads
what is left and ends. Then the output is compared, row by row, with the answer of a batch query over the same input.
One line for each life, with the story's seed; in the end one for each cell. Ends with exit code 1 when a story under
holdfast was not exact: `--only CELL --seed N --stories 1` repeats it, as far as time does.

The drivers of a version of Spark share a JVM and are forked, so a life takes seconds. What dies with SIGKILL is all of
Python; Spark's part is ended right after. That the JVM dies at that very moment:
`tests/end_to_end/test_own_writer_kills.py`.

`--with plain` is the same for plain Spark, whose checkpoint directory is copied every three seconds as `aws s3 sync`
does it, and is put back from there after each kill. `--with off` is holdfast with `plans="off"`: a start that it
refuses is forced with `repeats="accept"`, where the writer allows it. Both tell how many rows are lost or doubled, and
in how many stories the query could not go on.
"""

import argparse
import os
import random
import sys
import tempfile
import time
from contextlib import ExitStack
from fnmatch import fnmatch
from pathlib import Path

from tests import short_lived_jvm
from tests.kills.campaign import Campaign
from tests.kills.cells import VARIANTS, Cell, Variant, cells
from tests.kills.outcome import sum_up
from tests.kills.servers import Servers


def main() -> int:
    given = _arguments()
    chosen = _chosen(given.variant, given.only, given.seed)
    ends = time.monotonic() + given.minutes * 60
    os.environ["JDK_JAVA_OPTIONS"] = short_lived_jvm.options()
    root = Path(tempfile.mkdtemp(prefix="kills-"))
    with ExitStack() as held:
        campaign = Campaign(Servers(root, held), root, given.variant, lives=given.lives)
        story = 0
        while time.monotonic() < ends and story < given.stories and campaign.kills < given.kills:
            cell = chosen[story % len(chosen)]
            campaign.play(cell, given.seed + story, lambda: time.monotonic() >= ends)
            story += 1
    sum_up(given.variant, campaign.tallies, campaign.wrong)
    return 1 if campaign.wrong else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--kills", type=int, default=10**9, help="no story begins after so many")
    parser.add_argument("--minutes", type=float, default=10**6)
    parser.add_argument("--stories", type=int, default=10**9)
    parser.add_argument("--lives", type=int, default=8, help="kills in a story")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--only", default="*", help="cells by name, with * and ?; several, with commas")
    parser.add_argument("--with", dest="variant", choices=VARIANTS, default="holdfast")
    return parser.parse_args()


def _chosen(variant: Variant, only: str, seed: int) -> list[Cell]:
    found = [cell for cell in cells(variant) if any(fnmatch(str(cell), name) for name in only.split(","))]
    random.Random(seed).shuffle(found)
    return found


if __name__ == "__main__":
    sys.exit(main())
