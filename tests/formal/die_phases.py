"""Where a page of a die is: at one place, and what the controller notes of it says the same.

Stated of one subarray, these relations are inductive, so that a proof of what follows from them
ends. They hold for every subarray, since the one watched is any.
"""

from amaranth.hdl import Assert, Cat, Module, Mux, Signal

from tests.formal.die import Surroundings


class Phases:
    """The places of the pages of subarray ``at``.

    Members
    -------
    reads : pages that were sensed: in the data register, in the cache register, on the lane, in
        the slot of either region
    write : the page of a write: with the sequencer, granted, in its slot, with the array, ended
    program : a write page with the array: before LOAD, loaded, on the lane, before PROGRAM, running
    """

    def __init__(self, m: Module, die, around: Surroundings, at: Signal) -> None:
        state, _, array, writes, submodules = die.seen
        active, collecting, reserved, region, there, hand, fsm, ended = writes.seen

        def here(bits):
            return bits.bit_select(at, 1)

        def item(bag, name):
            values = [getattr(it, name) if name != "region" else it.slot.region for it in bag.items]
            return Mux(at == 1, values[1], values[0]) if len(values) == 2 else None

        senses, latched = submodules.senses.bag, submodules.latched.bag
        self.at = at
        self.here = here
        lane = here(around.under_way)
        lane_writes = here(around.lane_writes)
        self.sensed, self.latched = here(senses.held), here(latched.held)
        self.lane_read = lane & ~lane_writes
        self.lane_write = lane & lane_writes
        self.sensed_region, self.latched_region = item(senses, "region"), item(latched, "region")
        self.lane_region = here(around.lane_region)
        n = around.subarrays
        self.filled = [here(around.filled[r * n : (r + 1) * n]) for r in range(2)]

        (to_erase, to_load, to_program, running, pausing, paused, is_erase, array_region, over,
         dues, to_lane, asked, asked_at, asked_suspend) = array.seen  # fmt: skip
        self.loads = here(to_lane.bag.held)
        loads_region = item(to_lane.bag, "region")
        self.claimed = here(array.claimed)
        self.erases = here(is_erase)
        self.program = [here(to_load), self.loads, self.lane_write, here(to_program), here(running)]
        self.running, self.paused, self.pausing, self.over = (
            here(bits) for bits in (running, paused, pausing, over)
        )
        self._dues, self._asked, self._asked_at = dues, asked, asked_at
        self._asked_suspend = asked_suspend
        self.reserved, self.region = here(reserved), here(region)
        self.active, self.collecting = here(active), here(collecting)
        in_hand = ~fsm.ongoing("Idle") & (hand == at)
        self.in_hand = in_hand
        granted, ended_here = here(around.granted), here(ended.bag.held)
        self.write = [in_hand, granted, here(there), self.claimed, ended_here]
        hold = die.registers.hold_until_programmed
        cache_read = die.registers.cache_read
        before_lane, on_array = (
            self.program[0] | self.program[1] | self.program[2],
            (self.program[3] | self.program[4]),
        )
        ended_erase = Mux(at == 1, ended.bag.items[1], ended.bag.items[0])[1 if n == 2 else 0]
        self._statements = {
            # Writes
            "a write is at one place": one(*self.write) == self.active,
            "nowhere else": at_most_one(*self.write),
            "only active writes have slots": ~self.reserved | self.active,
            "only active ones collect": ~self.collecting | (self.active & ~self.reserved),
            "granted pages have slots": ~(granted | self.write[2]) | self.reserved,
            "knows what is granted": here(writes.granted) == granted,
            "granted in hand": ~(in_hand & fsm.ongoing("Grant")) | self.reserved,
            "granted to its slot": ~granted | (here(around.grant_region) == self.region),
            "an erase goes before a write": ~(self.claimed & self.erases)
            | self.reserved
            | self.collecting,
            "erased for a write": ~(ended_here & ended_erase) | self.reserved | self.collecting,
            # The array
            "claimed for one thing": ~self.claimed
            | (one(*self.program, here(to_erase)) & at_most_one(*self.program, here(to_erase))),
            "nothing unclaimed": self.claimed | ~one(*self.program, here(to_erase)),
            "erases do not load": ~(self.claimed & self.erases) | ~one(*self.program[:4]),
            "programs do not erase": ~here(to_erase) | self.erases,
            "a page keeps its slot": ~(self.claimed & ~self.erases & before_lane) | self.reserved,
            "a page to program": ~(self.claimed & ~self.erases & on_array)
            | (self.reserved == hold),
            "the array knows the slot": ~(self.claimed & ~self.erases)
            | (here(array_region) == self.region),
            "loaded for the slot": ~self.loads | (loads_region == self.region),
            "moved from the slot": ~self.lane_write | (self.lane_region == self.region),
            # Reads
            "data register": here(state.data_busy)
            == Mux(cache_read, self.sensed, self.sensed | self.latched | self.lane_read),
            "cache register": here(state.cache_busy)
            == one(self.latched, lane, self.loads, self.program[3]),
            "one in the cache register": at_most_one(
                self.latched, lane, self.loads, self.program[3]
            ),
            "one without cache read": cache_read | ~self.sensed | ~(self.latched | self.lane_read),
        }

    def read_places(self, region) -> list:
        """The places of the page that was read for the slot of ``region``."""
        filled = Mux(region, self.filled[1], self.filled[0])
        return [
            self.sensed & (self.sensed_region == region),
            self.latched & (self.latched_region == region),
            self.lane_read & (self.lane_region == region),
            filled,
        ]

    def operates(self, m: Module, *, works, stopped, told) -> None:
        """States what the array knows of the operation that runs or is suspended."""
        due = [self.here(queue.bag.held) for queue in self._dues.values()]
        asked_here = self._asked & (self._asked_at == self.at)
        m.d.comb += [
            Assert(told == self.running, "knows that an operation runs"),
            Assert(~works | self.running, "works only while it runs"),
            Assert(~stopped | self.running, "stopped only while it runs"),
            Assert(~self.paused | self.running, "suspended only while it runs"),
            Assert(~self.pausing | self.running, "suspending only while it runs"),
            Assert(~(self.paused & self.pausing), "suspended or suspending"),
            Assert(~(works & ~stopped) | ~self.paused, "suspended is stopped"),
            Assert(~stopped | ~works | self.paused | self.pausing, "stopped is suspended"),
            Assert(~self.over | ~works, "over is over"),
            Assert(
                at_most_one(*due[:3], asked_here & ~self._asked_suspend), "one question at a time"
            ),
            Assert(
                one(*due[:3], asked_here & ~self._asked_suspend) == self.running,
                "asks while it runs",
            ),
            Assert(
                at_most_one(due[3], asked_here & self._asked_suspend), "one question of a suspend"
            ),
            Assert(
                one(due[3], asked_here & self._asked_suspend) == self.pausing, "asks of a suspend"
            ),
            Assert(~(works & self.pausing) | stopped, "a suspend stops"),
        ]

    def state(self, m: Module) -> None:
        for name, holds in self._statements.items():
            m.d.comb += Assert(holds, name)


def one(*bits):
    """Any of them."""
    return Cat(*bits).any()


def at_most_one(*bits):
    lines = Cat(*bits)
    return (lines & (lines - 1)[: len(lines)]) == 0
