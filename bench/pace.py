"""Whether the processors run at full speed. Virtual ones may share a core in spells of seconds, or lie on two chips.

In the first case two threads do no more multiply-adds together than one, in the second whatever one of them wrote reaches
the other late, and large steps take twice as long, with any library. Neither shows in the time that a process is given, nor
in a load average. So both are asked for directly: the rate of multiply-adds in registers, and how fast threads meet.
"""

from __future__ import annotations

from dataclasses import dataclass

from gradino import config
from gradino.tools import probe

FEWEST = 0.93  # of the best rate of multiply-adds
SLOWEST = 2.5  # times the shortest meeting
MOST = 4  # times the rounds wanted, before what there is must do
LOOK = 0.002  # seconds


@dataclass(frozen=True)
class Pace:
    """Multiply-adds per second, and seconds that a parallel region takes in which all threads meet."""

    rate: float
    meeting: float

    @classmethod
    def now(cls) -> Pace:
        """With the threads in use."""
        return cls(probe.arithmetic("float32", seconds=LOOK), probe.region(seconds=LOOK))

    @classmethod
    def best(cls) -> Pace:
        """What it should be: the rate that one thread has alone, times the threads; the shortest meeting of a while."""
        with probe.threads(1):
            one = probe.arithmetic("float32", seconds=0.05)
        return cls(config.get_num_threads() * one, probe.region(seconds=0.05))

    def share(self, best: Pace) -> float:
        """1 or more where this is near the best, less by how far it is from that."""
        return min(self.rate / (FEWEST * best.rate), SLOWEST * best.meeting / self.meeting)


def undisturbed(paces: list[Pace], best: Pace, wanted: int) -> list[int]:
    """Numbers of the rounds at full speed, at most as many as wanted."""
    fastest = Pace(max(best.rate, *(p.rate for p in paces)), min(best.meeting, *(p.meeting for p in paces)))
    return [i for i, pace in enumerate(paces) if pace.share(fastest) >= 1][:wanted]


def calmest(paces: list[Pace], best: Pace, wanted: int) -> list[int]:
    """Numbers of `wanted` rounds, in order: those at full speed, and where there are too few the nearest to it."""
    good = undisturbed(paces, best, wanted)
    others = sorted(set(range(len(paces))) - set(good), key=lambda i: -paces[i].share(best))
    return sorted(good + others[: wanted - len(good)])
