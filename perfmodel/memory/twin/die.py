"""One NAND die: which page senses next, and when its data register is emptied."""

from collections import deque
from typing import TYPE_CHECKING

from perfmodel.memory.twin.events import Phase, Wakes
from perfmodel.memory.twin.latencies import LATENCIES
from perfmodel.memory.twin.sensed import SensedPages
from perfmodel.memory.twin.trace import Path
from perfmodel.memory.twin.transfer import Page
from perfmodel.memory.twin.walk import NEVER, PageWalk

if TYPE_CHECKING:
    from perfmodel.memory.twin.stack import Stack


class Die:
    """``hw.hbf.die_controller``, ``read_issue`` and ``subarray_state`` of one die, reads only.

    A step is one clock of its command port: both walks go on, then a page is sensed if its
    subarray, a slot and its path are free, else a page that has sensed for tR is latched into its
    cache register once that is empty. All bits are one a subarray and are those of the registers
    in that clock; what a step changes shows from the next one on.

    Attributes:
        walks: One a path.
        data_busy, cache_busy: Registers of the die that are taken.
        slot_busy: One a region.
    """

    def __init__(self, stack: "Stack", *, number: int) -> None:
        machine = stack.machine
        g, cycles = machine.geometry, machine.nand_cycles
        self._stack, self._number = stack, number
        self._gate, self._paths = stack.wave_gate, stack.path_gates
        self._regions = stack.regions
        self.walks = [PageWalk(machine, die=number) for _ in range(2)]
        self.data_busy = self.cache_busy = 0
        self.slot_busy = [0, 0]
        self._of_relay = [0, 0]  # of the slots of a region: the last page was one of Relay
        self._last = Path.DIRECT
        self._cache_read = machine.nand.cache_read
        self._sense_clocks = max(LATENCIES.queue, cycles["t_read"])
        self._latch_clocks = max(LATENCIES.queue, cycles["t_latch"] + cycles["t_rr"])
        self._senses: deque[tuple[int, Page]] = deque()  # when its sense ends, at the earliest
        self._latched = 0
        self._counted = SensedPages(depth=g.subarrays_per_die)
        self._plane_clocks = cycles["t_plane_busy"]
        self._plane_busy, self._plane_ends = 0, deque[tuple[int, int]]()
        self._planes, self._subarrays = g.planes, g.subarrays
        self._wakes = Wakes(stack.events, Phase.DIE, self._step)
        self.wake = self._wakes.at

    # What others tell it --------------------------------------------------------------------------

    def free(self, page: Page, clock: int) -> None:
        """The slot of a page is free from ``clock`` on, which is now."""
        bit = 1 << page.subarray
        self.slot_busy[page.region] &= ~bit
        if self._gate is not None:
            self._gate.wake(clock)
        if (self.walks[0].waiting | self.walks[1].waiting) & bit:
            self.wake(clock)

    def left(self, page: Page, clock: int) -> None:
        """The last beat of a page has left the cache register; shows from ``clock`` on."""
        bit = 1 << page.subarray
        self.cache_busy &= ~bit
        if not self._cache_read:
            self.data_busy &= ~bit
        if self._gate is not None:
            self._gate.wake(clock)
        self.wake(clock)

    def stuck(self, clock: int) -> bool:
        """Whether a page that has sensed waits for its cache register."""
        if not self._senses:
            return False
        self._end_planes(clock)
        ends, page = self._senses[0]
        return max(ends, self._latched + LATENCIES.next) <= clock and bool(
            (self.cache_busy | self._plane_busy) >> page.subarray & 1
        )

    # A clock of its command port ------------------------------------------------------------------

    def _step(self, clock: int) -> None:
        walks = self.walks
        if self._plane_ends:
            self._end_planes(clock)
        popped = walks[0].popped, walks[1].popped
        stored = walks[0].step(clock), walks[1].step(clock)
        again = min(walks[0].next_clock, walks[1].next_clock)

        page = None
        if walks[0].waiting | walks[1].waiting:
            page, retry = self._issue(clock)
            again = min(again, retry)
        senses = self._senses
        if page is not None:
            again = clock + 1
        elif senses:
            again = min(again, self._latch(clock))
        if page is not None:
            senses.append((clock + self._sense_clocks, page))

        for walk, bit in zip(walks, stored, strict=True):
            if bit:
                walk.waiting |= bit
                again = clock + 1
        if (walks[0].popped, walks[1].popped) != popped:
            self._stack.decode_again(clock + 1)
        if self._gate is not None and (stored[0] or stored[1]):
            self._gate.wake(clock + 1)
        if self._plane_ends:
            again = min(again, self._plane_ends[0][0])
        if again != NEVER:
            self.wake(again)

    def _issue(self, clock: int) -> tuple[Page | None, int]:
        """The page that senses in this clock, if any, and when else to look again."""
        busy = self.slot_busy
        fills = self._regions.fills
        free_0, free_1 = ~busy[0] if fills[0] else 0, ~busy[1] if fills[1] else 0
        if self._gate is not None:
            if not self._gate.opens(clock):
                return None, NEVER
            if self._gate.region:
                free_0 = 0
            else:
                free_1 = 0
        slots = free_0 | free_1
        free = slots & ~self.data_busy & ~self._plane_busy
        direct, relay = self.walks[0].waiting & free, self.walks[1].waiting & free
        if not direct | relay:
            return None, NEVER
        # A path that holds a slot leaves the other one to the path that waits there, too.
        both = self.walks[0].waiting & self.walks[1].waiting
        if both:
            of_relay = (busy[0] & self._of_relay[0]) | (busy[1] & self._of_relay[1])
            of_direct = (busy[0] & ~self._of_relay[0]) | (busy[1] & ~self._of_relay[1])
            direct &= ~(of_direct & both)
            relay &= ~(of_relay & both)
        if direct and not self._paths[0].opens(clock):
            direct = 0
        if relay and not self._paths[1].opens(clock):
            relay = 0
        if not direct | relay:
            return None, NEVER
        room = self._counted.room(clock)
        if room != clock:
            return None, room

        if direct and relay:
            path = Path.DIRECT if self._last else Path.RELAY
        else:
            path = Path.RELAY if relay else Path.DIRECT
        ready = relay if path else direct
        self._last = path
        bit = ready & -ready
        subarray = bit.bit_length() - 1
        region = int(not free_0 & bit)
        walk = self.walks[path]
        walk.waiting ^= bit
        of = walk.pages[subarray]
        assert of is not None
        self.data_busy |= bit
        busy[region] |= bit
        if path:
            self._of_relay[region] |= bit
        else:
            self._of_relay[region] &= ~bit
        self._paths[path].issue()
        self._regions.issue(region)
        self._counted.add(clock)
        if self._plane_clocks:
            self._hold_plane(clock, subarray)
        return Page(self._number, subarray, region, of), NEVER

    def _latch(self, clock: int) -> int:
        """Latch the page whose sense ended first, if it can be; returns when to look again."""
        ends, page = self._senses[0]
        due = max(ends, self._latched + LATENCIES.next)
        if due > clock:
            return due
        bit = 1 << page.subarray
        if (self.cache_busy | self._plane_busy) & bit:
            return NEVER
        self._senses.popleft()
        self._latched = clock
        self.cache_busy |= bit
        if self._cache_read:
            self.data_busy &= ~bit
        if self._plane_clocks:
            self._hold_plane(clock, page.subarray)
        if self._gate is not None:
            self._gate.wake(clock + 1)
        self._stack.lanes[self._number].add(clock + self._latch_clocks, page)
        return clock + 1

    # Planes ---------------------------------------------------------------------------------------

    def _hold_plane(self, clock: int, subarray: int) -> None:
        """A plane takes no command for tPLxBSY after one."""
        plane = subarray % self._planes
        bits = sum(1 << (plane + k * self._planes) for k in range(self._subarrays))
        self._plane_busy |= bits
        held = max(LATENCIES.queue, self._plane_clocks)
        free = clock + held + LATENCIES.take
        self._plane_ends.append((free, bits))
        if self._gate is not None:
            self._gate.wake(free)

    def _end_planes(self, clock: int) -> None:
        while self._plane_ends and self._plane_ends[0][0] <= clock:
            self._plane_busy &= ~self._plane_ends.popleft()[1]
