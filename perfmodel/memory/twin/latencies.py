"""Clocks that the blocks of the RTL take, each with the contract that says so."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Latencies:
    """Pipeline latencies of the read path in clocks; rates and array times are the machine's.

    None is fitted. A test holds those that the RTL has a name for to that name, and the traces of
    the correlation hold all of them to what the RTL does.

    Attributes:
        send: ``hw.ucie.credit.RequestSender``: accepted to the port.
        queue: ``SyncFIFOBuffered``, all queues of the RTL: written to readable.
        next: the same: taken to the next item being readable.
        beat_queue: ``hw.ucie.beat_queue.BeatQueue``: port to the first clock in which it is taken.
        readout: ``hw.hbf.tsv_transfer.READOUT_CLOCKS``: choice of a beat to the transfer regions.
        fill: ``hw.sram.fill_pipe.FILL_CLOCKS``: from there until it can be read.
        frame: ``hw.hbf.drain.DrainEngine``: choice of a page to the first read of its frame.
        read: ``hw.sram.regions.READ_CLOCKS``: read of a beat to the link.
        slot: ``hw.hbf.drain.DrainEngine`` and ``hw.hbf.subarray_state.SubarrayState``: choice of a
            page to its slot being free: a frame of four clocks behind ``frame``.
        table: ``hw.hbf.block_table.BlockTable``: clocks from one operation to the next.
        relay: ``hw.hbm.relay.RelayBuffer``: choice of a page to its first beat on link B.
        emptied: the same: choice of the last page of a chunk to the credit on link C.
        end: ``hw.gpu.reassembly.Reassembly``: last beat taken to the end of its read.
        take: registers that follow an event by one clock, as counters of credits do.
        walk_depth: ``hw.hbf.read_issue.DESCRIPTORS_PER_DIE``: descriptors that wait at a die.
        chunk_idle: ``hw.hbf.base_die.CHUNK_IDLE_CLOCKS``: without a ready page, until a chunk
            closes.
    """

    send: int = 1
    queue: int = 2
    next: int = 1
    beat_queue: int = 2
    readout: int = 2
    fill: int = 2
    frame: int = 1
    read: int = 3
    slot: int = 5
    table: int = 3
    relay: int = 3
    emptied: int = 5
    end: int = 1
    take: int = 1
    walk_depth: int = 8
    chunk_idle: int = 128


LATENCIES = Latencies()
