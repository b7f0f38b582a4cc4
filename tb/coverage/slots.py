"""Follows every page slot of one base die through its life."""

from amaranth.lib import data

from hw.hbf.layouts import token_layout
from hw.params import Machine
from tb.coverage.goals import RESET_STEPS
from tb.coverage.points import Coverage
from tb.vip.base_die_watch import unpacker
from tb.vip.probes import Probes

Slot = tuple[int, int, int]  # die, subarray, region


class SlotError(AssertionError):
    """A slot went another way than its life allows."""


class SlotWatch:
    """Steps of slots in each clock, counted and checked against :data:`RESET_STEPS`."""

    def __init__(
        self, probe: Probes, machine: Machine, paths: list[str], coverage: Coverage
    ) -> None:
        self._coverage = coverage
        g = machine.geometry
        dies = range(g.dies)
        self._states: dict[Slot, str] = {
            (die, subarray, region): "free"
            for die in dies
            for subarray in range(g.subarrays_per_die)
            for region in range(2)
        }
        # A slot as it is packed: subarray below, region above.
        self._mask, self._shift = g.subarrays_per_die - 1, (g.subarrays_per_die - 1).bit_length()
        self._issued = [probe(f"die{d}.issued") for d in dies]
        self._filled = [probe(f"tsv.filled__{d}") for d in dies]
        self._events = {
            "reserve": [[probe(f"die{d}.writes.reserve")] for d in dies],
            "arrive": [
                [probe(f"die{d}.writes.arrived__{k}") for k in range(len(paths))] for d in dies
            ],
            "drained": [[probe(f"die{d}.free_{path}") for path in paths] for d in dies],
        }
        self._frees = [probe(f"die{d}.writes.free") for d in dies]
        self._grants = [
            [probe(f"die{d}.writes.grant__{name}") for name in ("valid", "ready", "payload")]
            for d in dies
        ]
        self._drains = [
            [probe(f"drain_{path}.{name}") for name in ("label_en", "label_slot", "die_lines")]
            for path in paths
        ]
        token = data.Layout.cast(token_layout(machine))
        self._token_at = machine.credits.writes.bit_length() - 1 + 12
        self._token = unpacker(token)

    def clock(self, sensed: dict[int, int]) -> None:
        """``sensed`` are the subarrays that sense in this clock, by die."""
        # Ends first: a slot is seen free one clock after.
        steps: list[tuple[str, Slot]] = []
        for die, handle in enumerate(self._frees):
            if (bits := int(handle.value)) & 1:
                slot = self._slot(die, bits >> 1)
                step = {"arrived": "leave", "granted": "cut"}.get(self._states[slot], "refuse")
                steps.append((step, slot))
        for step, dies in self._events.items():
            for die, ports in enumerate(dies):
                for handle in ports:
                    if (bits := int(handle.value)) & 1:
                        steps.append((step, self._slot(die, bits >> 1)))
        for enable, label, lines in self._drains:
            if int(enable.value):
                die = int(lines.value).bit_length() - 1
                steps.append(("drain", self._slot(die, int(label.value))))
        for die, handle in enumerate(self._filled):
            bits = int(handle.value)
            write = bits >> 2 + self._shift & 1
            if bits & 1 and not write:
                steps.append(("fill", self._slot(die, bits >> 1)))
        for valid, ready, payload in self._grants:
            if int(valid.value) and int(ready.value):
                token = self._token(int(payload.value) >> self._token_at)
                steps.append(("grant", (token["die"], token["subarray"], token["region"])))
        for die, subarray in sensed.items():
            region = int(self._issued[die].value) >> 2 & 1
            steps.append(("sense", (die, subarray, region)))
        for step, slot in steps:
            self._step(step, slot)

    def _slot(self, die: int, bits: int) -> Slot:
        return die, bits & self._mask, bits >> self._shift & 1

    def _step(self, step: str, slot: Slot) -> None:
        before, after = RESET_STEPS[step]
        state = self._states[slot]
        if state != before:
            raise SlotError(f"{step} of slot {slot}, which is {state}, not {before}")
        die, subarray, region = slot
        beside = self._states[die, subarray, 1 - region]
        self._states[slot] = after
        self._coverage.points["slot_steps"].hit(step)
        self._coverage.points["slot_beside"].hit(f"{beside}/{step}")

    @property
    def idle(self) -> bool:
        return all(state == "free" for state in self._states.values())
