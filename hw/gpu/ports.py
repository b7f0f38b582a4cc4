"""Ports of the GPU I/O die, by what they are for; those of links and users once a pair."""

from amaranth.lib import stream
from amaranth.lib.wiring import In, Member, Out

from hw.gpu.completions import read_done_layout
from hw.gpu.local_layouts import (
    LocalBeats,
    local_fetch_layout,
    local_request_layout,
    local_write_done_layout,
)
from hw.gpu.router import WINDOW_BITS
from hw.gpu.watchdog import overdue_layout
from hw.hbm.dram.description import HbmStack
from hw.params import Machine
from hw.ucie.transaction import BeatStream, DataPort, RequestPort, ResetPort
from hw.ucie.write_sender import done_layout, fetch_layout, write_request_layout

Members = dict[str, Member]


def read_ports(machine: Machine, *, pairs: int, path: str) -> Members:
    """Reads over a path, by the name of it."""
    return {
        f"{path}_request": Out(RequestPort()).array(pairs),
        f"{path}_data": In(DataPort(machine.lanes)).array(pairs),
        f"{path}_reply": In(RequestPort()).array(pairs),
        f"{path}_o": Out(BeatStream(machine.lanes)).array(pairs),
        f"{path}_done": Out(read_done_layout()),
        f"{path}_overdue": Out(overdue_layout(machine.credits.descriptors)),
        f"{path}_reset": In(ResetPort()).array(pairs),
    }


def write_ports(machine: Machine, *, pairs: int) -> Members:
    """Writes over link A."""
    return {
        "write": In(stream.Signature(write_request_layout(machine))),
        "fetch": Out(fetch_layout()).array(pairs),
        "fetch_lanes": In(64).array(pairs, machine.lanes),
        "write_done": Out(done_layout()).array(pairs),
        "write_overdue": Out(overdue_layout(2 * machine.credits.writes)).array(pairs),
        "direct_write": Out(RequestPort()).array(pairs),
        "direct_write_data": Out(DataPort(machine.lanes)).array(pairs),
    }


def local_ports(machine: Machine, stack: HbmStack, *, pairs: int) -> Members:
    """Reads and writes of the HBM stacks over link B."""
    request = stream.Signature(local_request_layout(stack))
    overdue = overdue_layout(machine.credits.descriptors)
    return {
        "local": In(request).array(pairs),
        "local_window": In(WINDOW_BITS),
        "local_o": Out(LocalBeats(machine, stack)).array(pairs),
        "local_done": Out(read_done_layout()).array(pairs),
        "local_overdue": Out(overdue).array(pairs),
        "local_write": In(request).array(pairs),
        "local_fetch": Out(local_fetch_layout()).array(pairs),
        "local_fetch_lanes": In(64).array(pairs, machine.lanes),
        "local_write_done": Out(local_write_done_layout()).array(pairs),
        "local_write_overdue": Out(overdue).array(pairs),
        "relay_local": Out(RequestPort()).array(pairs),
        "relay_in": Out(DataPort(machine.lanes)).array(pairs),
    }
