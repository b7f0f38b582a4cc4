# amaranth: UnusedElaboratable=no
"""Groups over modules come whole and in order whatever the skew, and whatever words are lost."""

import pytest
from amaranth.hdl import Assert, Assume, Cover, Module, Mux, Signal
from amaranth.lib.wiring import In

from hw.ucie.modules import Deskewer, Striper, blocks
from tests.formal.harness import Counterexample, Properties, before, constant, prove
from tests.formal.order import in_order
from tests.formal.variants import variant

SKEW = 1
# A byte is one bit: nothing looks at the bytes. Numbers of four bits wrap early.
SMALL = {"BYTE": 1, "NUMBER_BITS": 4}


class Way(Properties):
    """Striper, wires with a constant delay a module, deskewer, and a restart at any time.

    A restart comes when nothing is under way: here it empties the wires.
    """

    def __init__(
        self, *, modules: int, mask: int, lossy: bool, edit: tuple[str, str] | None = None
    ) -> None:
        sizes = {"modules": modules, "lanes": 1, "group_bytes": modules}
        edits = [] if edit is None else [edit]
        self._tx = variant(Striper, *(e for e in edits if e[0] in TX), **SMALL)(**sizes)
        self._rx = variant(Deskewer, *(e for e in edits if e[0] not in TX), **SMALL)(
            **sizes, max_skew=SKEW
        )
        self._modules, self._mask, self._lossy = modules, mask, lossy
        names = ("offer", "restart", "pick", "mark")
        super().__init__(
            {name: In(1) for name in names} | {"content": In(modules), "dead": In(modules)}
        )

    def describe(self, m: Module) -> None:
        m.submodules.tx, m.submodules.rx = tx, rx = self._tx, self._rx
        started = before(m, 1)
        restart = Signal()
        put = Signal()
        m.d.comb += [
            restart.eq(self.restart | ~started),
            tx.i.valid.eq(self.offer),
            tx.i.payload.eq(self.content),
            put.eq(tx.i.valid & tx.i.ready),
        ]
        for end in (tx, rx):
            m.d.comb += [end.enabled.eq(self._mask), end.restart.eq(restart)]
        for k in range(self._modules):
            slow = constant(m, f"slow{k}", 1)
            now = tx.o[k]
            later = {name: Signal.like(getattr(now, name)) for name in ("valid", "number", "word")}
            m.d.sync += [
                later["valid"].eq(now.valid & ~restart),
                later["number"].eq(now.number),
                later["word"].eq(now.word),
            ]
            valid = Mux(slow, later["valid"], now.valid) & ~restart
            m.d.comb += [
                rx.i[k].valid.eq(valid & ~self.dead[k] if self._lossy else valid),
                rx.i[k].number.eq(Mux(slow, later["number"], now.number)),
                rx.i[k].word.eq(Mux(slow, later["word"], now.word)),
            ]
        if self._lossy:
            self._whole(m, restart, put)
        else:
            self._all(m, restart, put)

    def _all(self, m: Module, restart, put) -> None:
        """Nothing is lost: the k-th group out is the k-th in, and no error is seen."""
        m.d.comb += [
            Assume(~self.restart),
            Assert(~(self._rx.lost | self._rx.starved), "no error without a loss"),
        ]
        in_order(
            m,
            pick=self.pick,
            put=put,
            sent=self.content,
            take=self._rx.valid,
            received=self._rx.payload,
            limit=6,
        )

    def _whole(self, m: Module, restart, put) -> None:
        """One group, any, is all ones, the others all zeros: a mixed one would show both."""
        rx = self._rx
        marked, out = Signal(), Signal()
        error = rx.lost | rx.starved
        full = (1 << self._modules) - 1
        m.d.comb += [
            Assume(self.content == Mux(self.mark & ~marked, full, 0)),
            Assert(
                ~rx.valid | (rx.payload == 0) | (rx.payload == full),
                "no bytes of two groups as one",
            ),
            Assert(~(rx.valid & (rx.payload != 0)) | (marked & ~out), "once, and only if sent"),
            Assert(~(before(m, error) & ~before(m, restart)) | ~rx.valid, "nothing after an error"),
            Cover(rx.valid & (rx.payload == full), "the group comes out"),
            Cover(rx.lost, "a loss is seen"),
            Cover(rx.starved, "a module that starves is seen"),
        ]
        with m.If(put & (self.content != 0)):
            m.d.sync += marked.eq(1)
        with m.If(rx.valid & (rx.payload != 0)):
            m.d.sync += out.eq(1)
        # After a restart nothing of before may come: the group is gone.
        with m.If(restart & marked):
            m.d.sync += out.eq(1)


TX = (
    "rank = module % size",
    "left.eq(Mux(self.idle, self._modules // size, left) - 1),\n                    rest",
)


@pytest.mark.formal
@pytest.mark.parametrize(("modules", "mask"), [(2, mask) for mask in blocks(2)] + [(4, 0b0011)])
def test_groups_come_in_order_whatever_the_skew(modules: int, mask: int) -> None:
    way = Way(modules=modules, mask=mask, lossy=False)
    prove(way, label=f"{modules} modules, {mask:b}")


@pytest.mark.formal
@pytest.mark.parametrize("mask", [0b11, 0b01])
def test_groups_come_whole_whatever_is_lost(mask: int) -> None:
    prove(Way(modules=2, mask=mask, lossy=True), label=f"losses, {mask:b}")


@pytest.mark.formal
def test_losses_are_seen() -> None:
    prove(Way(modules=2, mask=0b11, lossy=True), mode="cover", depth=20)


@pytest.mark.formal
@pytest.mark.parametrize(
    ("mask", "lossy", "old", "new"),
    [
        (0b11, False, TX[0], "rank = (module + 1) % size"),
        (0b11, True, "arrives & (port.number != number)", "0"),
        (0b11, False, "port.valid & self.enabled[module]", "port.valid & ~take"),
        (0b01, True, "| ((left != 0) & ~take)", ""),
        (0b11, True, "(missing == 0) & ~broken", "(missing == 0)"),
    ],
    ids=["rank", "numbers", "word dropped", "gap in a group", "goes on"],
)
def test_planted_bugs_are_found(mask: int, lossy: bool, old: str, new: str) -> None:
    with pytest.raises(Counterexample):
        prove(Way(modules=2, mask=mask, lossy=lossy, edit=(old, new)), mode="bmc", depth=24)
