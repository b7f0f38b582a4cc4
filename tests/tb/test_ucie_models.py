"""The plain-Python link by itself: flits, retry, credits, and two endpoints with each other."""

import random

import pytest

from hw.ucie.crc import crc16
from hw.ucie.flit import FORMATS
from hw.ucie.flit_header import HeaderFields
from hw.ucie.link_end import Channel
from tb.vip.credit_book import RELAY_DATA
from tb.vip.error_injector import ErrorInjector, answers_alone, clocks, groups, naks
from tb.vip.flit_channel import Noise
from tb.vip.flit_model import FlitModel, GroupModel, crc_of
from tb.vip.link_monitor import LinkMonitor
from tb.vip.ucie_endpoint import UcieEndpoint
from tests.hw.ucie.flits import make_flit, other_crc
from tests.tb.endpoint_design import SHAPES, channels_of
from tests.tb.endpoint_traffic import EndpointUser, random_item


def test_crc_agrees_with_two_other_implementations():
    pick = random.Random(1)
    for length in (0, 1, 10, 22, 114, 126, 128):
        for message in (pick.randbytes(length), bytes(length), b"\xff" * length):
            assert crc_of(message) == crc16(message) == other_crc(message), message.hex()


@pytest.mark.parametrize("flit_format", FORMATS, ids=lambda f: str(f.number))
def test_flits_are_those_of_the_byte_numbers(flit_format):
    pick, model = random.Random(2), FlitModel(flit_format)
    for _ in range(20):
        header = HeaderFields(
            protocol=pick.randrange(4), sequence=pick.randrange(256), use=pick.randrange(3)
        )
        payload = pick.randbytes(flit_format.payload_bytes)
        flit = model.assemble(header, payload)
        assert flit == make_flit(flit_format.number, payload, header.pack())
        found = model.parse(flit)
        assert (found.header, found.payload, found.bad) == (header, payload, (False, False))
        for corrupt in ((True, False), (False, True), (True, True)):
            assert model.parse(model.assemble(header, payload, corrupt)).bad == corrupt


@pytest.mark.parametrize("noise", Noise)
@pytest.mark.parametrize("flit_format", FORMATS, ids=lambda f: str(f.number))
def test_every_strike_is_seen_in_its_half(flit_format, noise):
    pick = random.Random(3)
    model = GroupModel(flit_format, 2)
    injector = ErrorInjector(flit_format=flit_format, flits=2, random=pick, noise=noise)
    halves = set()
    for _ in range(200):
        flit = model.assemble(9, pick.randbytes(100), nak=False, answer=3)[0]
        bad = model.flit.parse(injector.strike(flit)).bad
        assert any(bad)
        halves.add(bad)
    # No byte is in the messages of both CRCs.
    assert halves == {(True, False), (False, True)}


class Pair:
    """Two endpoints, a monitor of each, noise each way."""

    def __init__(self, shape, seed, *, amount, cycles=3, channels=None):
        self.pick = random.Random(seed)
        first, second = channels_of(shape) if channels is None else channels
        self.ends = [
            UcieEndpoint(shape=shape, sends=out, receives=into, random=self.pick)
            for out, into in ((first, second), (second, first))
        ]
        self.monitors = [
            LinkMonitor(shape=shape, sends=out, receives=into, name=name, answer_clocks=4)
            for out, into, name in ((first, second, "A"), (second, first, "B"))
        ]
        self.lines = [
            ErrorInjector(
                flit_format=shape.flit_format, flits=shape.flits, random=self.pick, cycles=cycles
            )
            for _ in range(2)
        ]
        self.users = [
            EndpointUser(end, out, into, self.pick, {channel.name: amount for channel in out})
            for end, out, into in zip(self.ends, (first, second), (second, first), strict=True)
        ]
        for user, other in zip(self.users, reversed(self.users), strict=True):
            user.expected = other.sent
        self.now, self.came = 0, [None, None]

    def clock(self):
        self.now += 1
        sent = []
        for end, monitor, user, came in zip(
            self.ends, self.monitors, self.users, self.came, strict=True
        ):
            user.clock()
            group = end.clock(came)
            monitor.left(self.now, group)
            sent.append(group)
        self.came = [
            self.lines[1].passes(self.now, sent[1]),
            self.lines[0].passes(self.now, sent[0]),
        ]
        for monitor, group in zip(self.monitors, self.came, strict=True):
            monitor.delivered(self.now, group)

    def play(self, limit=40_000):
        while self.now < limit:
            self.clock()
            if all(user.done for user in self.users) and all(end.at_rest for end in self.ends):
                break
        assert all(user.done for user in self.users), f"clock {self.now}: not all came"
        for _ in range(50):
            if all(monitor.at_rest for monitor in self.monitors):
                break
            self.clock()
        assert [monitor.unrest() for monitor in self.monitors] == ["", ""]
        return self


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("rate", "noise"),
    [(0.0, Noise.FLIPS), (1e-2, Noise.BURST), (0.1, Noise.INJECTION), (0.3, Noise.FLIPS)],
)
def test_endpoints_understand_each_other(shape, rate, noise):
    pair = Pair(SHAPES[shape], seed=f"{shape}/{rate}", amount=60 if rate < 0.2 else 8)
    for line in pair.lines:
        line.rate, line.noise, line.lose = rate, noise, rate / 4
    pair.play()
    passes = [monitor.retry.passes for monitor in pair.monitors]
    assert (max(passes) > 0) == (rate > 0)


def test_scripts_choose_what_they_say():
    """The fifth group and its replay are struck, and nothing else."""
    pair = Pair(SHAPES["small"], seed=5, amount=30)
    struck = []
    line = pair.lines[0]
    line.scripts = [groups([5], times=2), lambda passing: struck.append(passing) or False]
    pair.play()
    assert line.struck == 2
    assert sorted(p.times for p in struck if p.number == 5)[:3] == [1, 2, 3]
    assert pair.lines[1].struck == 0 and pair.monitors[0].retry.passes == 2


@pytest.mark.parametrize("script", [naks(4), answers_alone(50, 400), clocks(100, 300)])
def test_answers_and_whole_times_may_be_lost(script):
    pair = Pair(SHAPES["small"], seed=6, amount=60)
    pair.lines[0].rate = 0.05
    pair.lines[1].scripts = [script]
    pair.play()
    assert pair.lines[1].struck > 0


def test_window_is_127_flits_and_numbers_wrap():
    shape = SHAPES["tiny"]
    pair = Pair(shape, seed=7, amount=150)
    pair.lines[1].cut, most = True, 0
    for _ in range(300):
        pair.clock()
        retry = pair.monitors[0].retry
        most = max(most, retry.sent - retry.acknowledged)
    pair.lines[1].cut = False
    pair.play()
    assert most == 127 // shape.flits
    assert shape.flits * pair.monitors[0].retry.sent > 2 * 255


def test_a_retrain_loses_nothing():
    pair = Pair(SHAPES["small"], seed=8, amount=60)
    for _ in range(8):
        for _ in range(60):
            pair.clock()
        for line in pair.lines:
            line.cut = True
        pair.clock()
        for end in pair.ends:
            end.active = False
        for _ in range(20):
            pair.clock()
        for end, line, monitor in zip(pair.ends, pair.lines, pair.monitors, strict=True):
            end.active, line.cut = True, False
            monitor.retry.resumed(pair.now)
    pair.play()


CHUNKED = Channel(name="relay", depth=2, lanes=8, chunked=True)


def test_a_chunk_takes_one_credit():
    """A page of four beats a chunk, so eight beats go out under two credits and no ninth."""
    shape = SHAPES["small"]
    relay, other = (CHUNKED,), (Channel(name="back", depth=2),)
    pair = Pair(shape, seed=9, amount=0, channels=(relay, other))
    for chunk in range(3):
        for beat in range(4):
            bits = RELAY_DATA << 4 | chunk << 8 | beat << 91
            bits |= (beat == 3) << 93 | (beat == 3) << 111  # chunk_end, page_end
            pair.ends[0].offer("relay", bits.to_bytes(16, "little"), bytes(64))
    pair.users[1].clock = lambda: None
    for _ in range(100):
        pair.clock()
    assert pair.ends[1].received("relay") == 8 and pair.ends[0].waiting("relay") == 4
    pair.ends[1].free("relay")
    for _ in range(100):
        pair.clock()
    assert pair.ends[1].received("relay") == 12


def test_a_reset_gives_back_the_credits_of_what_it_lost():
    """Both ends are cleared while things are under way: what came and what was lost is all."""
    shape = SHAPES["small"]
    first, second = channels_of(shape)
    pick = random.Random(10)
    ends = [
        UcieEndpoint(shape=shape, sends=out, receives=into, random=pick)
        for out, into in ((first, second), (second, first))
    ]
    lost = dict.fromkeys(("data", "request", "reply"), 0)
    came = dict(lost)
    for _ in range(5):
        for channel in first:
            for _ in range(channel.depth):
                item = random_item(channel, pick)
                ends[0].offer(channel.name, item.header, item.data)
        groups_ = [None, None]
        for _ in range(pick.randrange(10, 40)):
            groups_ = [ends[0].clock(groups_[1]), ends[1].clock(groups_[0])]
        for end in ends:
            end.clear()
        groups_ = [None, None]
        for _ in range(200):
            groups_ = [ends[0].clock(groups_[1]), ends[1].clock(groups_[0])]
            for channel in first:
                came[channel.name] += ends[1].take(channel.name) is not None
        for k, channel in enumerate(first):
            lost[channel.name] += ends[0].lost[k]
    assert all(end.at_rest for end in ends)
    assert sum(lost.values()) > 0
    for channel in first:
        assert came[channel.name] + lost[channel.name] == 5 * channel.depth
