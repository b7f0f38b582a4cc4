"""Plays a plan of reads against :class:`tb.memory_system.MemorySystem` and reports counters.

Counting, checking and stamping are done in RTL; Python wakes per request, wave and completion.
"""

import json
import os
import time
from pathlib import Path

import cocotb
from cocotb.triggers import (
    ClockCycles,
    ReadOnly,
    RisingEdge,
    SimTimeoutError,
    Timer,
    ValueChange,
    with_timeout,
)

from hw.gpu.router import Choice, read_layout
from hw.presets import preset
from hw.ucie.codes import Status
from hw.ucie.write_sender import write_request_layout
from tb.memory_system import MemorySystem
from tb.simulator.clock import start_clock
from tb.vip.block_query import query_block
from tb.vip.register_port import register_access
from tb.vip.registers import RegisterAccess
from tb.vip.sideband_port import SidebandPort
from tb.vip.stamps import TAGS

COUNTERS = (*MemorySystem.STAMPS, *MemorySystem.FILL_STAMPS, *MemorySystem.COUNTERS)
SAMPLED = ("clock", "beats_direct", "beats_relay", "senses")


@cocotb.test()
async def read(dut) -> None:
    plan = json.loads(os.environ["PAGEWAVE_PLAN"])
    for name, value in plan["registers"].items():
        getattr(dut, f"registers__{name}").value = value
    ports = [registers(dut, plan, f"port__{pair}") for pair in range(plan["pairs"])]
    dut.window.value = plan["window"]
    dut.stall_direct.value, dut.stall_relay.value = plan["stall"]
    dut.corrupt.value = plan["corrupt"]
    dut.read__valid.value = 0
    dut.read__payload.value = 0
    for name, value in (plan["relay"] | plan["faults"]).items():
        getattr(dut, name).value = value
    for name in plan["writes"]:
        getattr(dut, f"{name}__valid").value = 0
        getattr(dut, f"{name}__payload").value = 0
    dut.query.value = 0

    begun = time.perf_counter()
    await start_clock(dut, hz=plan["clock_hz"])
    unset = int(dut.clock.value)
    for port in ports:
        await port.write(**plan["registers"], **plan["controls"], **plan["inject"])
        if plan["inject"]:
            await port.pulse("inject_arm")
    set_up_clocks = int(dut.clock.value) - unset
    await ClockCycles(dut.clk, plan["idle_cycles"])

    wave_ends: list[int] = []
    fill_wave_ends: list[int] = []
    cocotb.start_soon(follow(dut.waves, dut.wave_end, wave_ends))
    cocotb.start_soon(follow(dut.fill_waves, dut.fill_wave_end, fill_wave_ends))
    samples: list[tuple[int, ...]] = []
    if plan["sample_cycles"]:
        cocotb.start_soon(sample(dut, plan["sample_cycles"] * 1e9 / plan["clock_hz"], samples))
    try:
        await with_timeout(play(dut, plan), plan["timeout_cycles"] * 1e9 / plan["clock_hz"], "ns")
    except SimTimeoutError:
        counters = {name: int(getattr(dut, name).value) for name in COUNTERS}
        raise AssertionError(f"data stopped coming: {counters}") from None
    await ClockCycles(dut.clk, 8)

    report = {
        **{name: int(getattr(dut, name).value) for name in COUNTERS},
        "registers": [
            {name: await port.read(name) for name in plan["read_back"]} for port in ports
        ],
        "blocks": [[await query_block(port, *block) for block in plan["blocks"]] for port in ports],
        **{
            name: [int(getattr(dut, f"{name}__{k}").value) for k in range(len(Status))]
            for name in ("read_status", "write_status")
        },
        "wave_ends": wave_ends,
        "fill_wave_ends": fill_wave_ends,
        "samples": samples,
        "requests": await stamps(dut, plan),
        "set_up_clocks": set_up_clocks,
        "wall_s": time.perf_counter() - begun,
    }
    Path("report.json").write_text(json.dumps(report))


def registers(dut, plan: dict, port: str) -> RegisterAccess:
    """Those of one HBF base die, at their port or over the sideband."""
    if plan["sideband"]:
        return SidebandPort(dut, f"{port}__").registers()
    return register_access(dut, port)


async def play(dut, plan: dict) -> None:
    """Reads and writes beside each other; writes may have to end first."""
    writers = [cocotb.start_soon(write_all(dut, plan, name)) for name in plan["writes"]]
    if plan["writes_first"]:
        await written(dut, plan, writers)
    await read_all(dut, plan)
    await written(dut, plan, writers)


async def write_all(dut, plan: dict, name: str) -> None:
    """Send every request of one write port as soon as it is accepted."""
    layout = write_request_layout(preset(plan["preset"]))
    valid, ready = getattr(dut, f"{name}__valid"), getattr(dut, f"{name}__ready")
    for sent, (fields, barrier) in enumerate(plan["writes"][name]):
        while barrier and int(dut.written.value) < sent * plan["pairs"]:
            valid.value = 0
            await ValueChange(dut.written)
        getattr(dut, f"{name}__payload").value = layout.const(fields).as_bits()
        valid.value = 1
        await RisingEdge(dut.clk)
        while not ready.value:
            await RisingEdge(ready)
            await RisingEdge(dut.clk)
    valid.value = 0


async def written(dut, plan: dict, writers: list) -> None:
    """Wait until every write of every stack has been answered."""
    for writer in writers:
        await writer
    count = plan["pairs"] * sum(map(len, plan["writes"].values()))
    while int(dut.written.value) < count:
        await ValueChange(dut.written)


async def read_all(dut, plan: dict) -> None:
    """Send every request as soon as it is accepted, then wait for the last completion.

    With ``offered`` in the plan none is sent before its clock, counted from the first one's.
    """
    layout = read_layout(preset(plan["preset"]))
    offered = plan.get("offered") or []
    begin = next_clock(dut)
    for tag, (first, pages, choice, offset, units) in enumerate(asked := all_reads(plan)):
        if tag < len(offered) and (early := begin + offered[tag] - next_clock(dut)) > 0:
            dut.read__valid.value = 0
            await ClockCycles(dut.clk, early)
        payload = layout.const(
            {
                "first": first,
                "pages": pages,
                "tag": tag % 4096,
                "choice": Choice(choice),
                "offset": offset,
                "units": units,
            }
        )
        dut.read__payload.value = payload.as_bits()
        dut.read__valid.value = 1
        await RisingEdge(dut.clk)
        while not dut.read__ready.value:
            await RisingEdge(dut.read__ready)
            await RisingEdge(dut.clk)
    dut.read__valid.value = 0
    while int(dut.completed.value) < len(asked):
        await ValueChange(dut.completed)


def next_clock(dut) -> int:
    """The clock in which what is set now is first seen, just after a rising edge."""
    return int(dut.clock.value) + 1


def all_reads(plan: dict) -> list[tuple[int, int, int, int, int]]:
    """First page, pages, path, and offset and length of the piece of each read of a plan.

    Those that must be refused come last and take the path of the one before.
    """
    pieces = plan["pieces"] or [(0, 0)] * len(plan["requests"])
    asked = [(*read, *piece) for read, piece in zip(plan["requests"], pieces, strict=True)]
    choice = asked[-1][2]
    return asked + [(first, pages, choice, *piece) for first, pages, *piece in plan["refused"]]


async def follow(event, stamp, into: list[int]) -> None:
    """Append ``stamp`` every time ``event`` changes."""
    while True:
        await ValueChange(event)
        await ReadOnly()  # both change at the same edge, in either order
        into.append(int(stamp.value))


async def sample(dut, period_ns: float, into: list[tuple[int, ...]]) -> None:
    """Append what :data:`SAMPLED` counters say, every period."""
    while True:
        await Timer(period_ns, "ns")
        into.append(tuple(int(getattr(dut, name).value) for name in SAMPLED))


async def stamps(dut, plan: dict) -> list[dict[str, int]]:
    """Stamps of every request, none if tags were used twice.

    The first beat is the first of any pair, the last that of all; the path not taken says zero.
    """
    if len(plan["requests"]) > TAGS:
        return []

    def ports(name: str, count: int) -> list:
        return [getattr(dut, f"{name}__{k}") for k in range(count)]

    firsts, lasts = ports("tag_first", plan["sources"]), ports("tag_last", plan["sources"])
    dones = ports("tag_done", plan["paths"])
    found = []
    for tag in range(len(plan["requests"])):
        dut.query.value = tag
        await ClockCycles(dut.clk, 2)
        await ReadOnly()
        found.append(
            {
                "accepted": int(dut.tag_accepted.value),
                "first_beat": min(filter(None, (int(port.value) for port in firsts))),
                "last_beat": max(int(port.value) for port in lasts),
                "done": max(int(port.value) for port in dones),
            }
        )
        await RisingEdge(dut.clk)
    return found
