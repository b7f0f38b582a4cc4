"""The result of ``pagewave simulate`` as a table."""

from rich.table import Table

from tb.read_result import ReadResult


def simulate_report(result: ReadResult) -> Table:
    """The result as a table, its bound beside it."""
    run = result.run
    paths = 2 if run.route in ("dual", "auto") else 1
    bound = run.machine.steady_bound_bytes_per_s(paths) * run.topology.pairs
    table = Table(
        title=f"{run.topology.name} with {run.topology.pairs} stack pair(s), {run.machine.name}, "
        f"{run.route}",
        show_header=False,
    )
    table.add_row("received", f"{result.bytes / 1e6:,.2f} MB")
    table.add_row("by path", f"Direct {result.bytes_direct:,} B, Relay {result.bytes_relay:,} B")
    table.add_row("first byte", f"{result.first_byte_ns:,.1f} ns after the request")
    if (steady := result.steady_bytes_per_s) is not None:
        table.add_row("steady rate", f"{steady / 1e12:.4f} TB/s")
        table.add_row(
            "bound of an endless run",
            f"{bound / 1e12:.4f} TB/s ({100 * steady / bound:.1f} % in this one"
            + ("; its regions were ahead when the first wave ended)" if steady > bound else ")"),
        )
    if (filled := result.fill.steady_bytes_per_s()) is not None:
        table.add_row("steady rate of the TSVs", f"{filled / 1e12:.4f} TB/s into the regions")
    table.add_row("wrong beats", f"{result.data_errors}")
    if result.stale is not None and run.writes:
        table.add_row("versions", "not those written last" if result.stale else "as written last")
    table.add_row(
        "broken NAND rules", f"{result.violations} {', '.join(result.broken_rules)}".rstrip()
    )
    counters = result.counters
    waits = {name: counters[f"blocked_{name}"] for name in ("die", "plane", "sram", "path")}
    table.add_row(
        "pages wait for", ", ".join(f"{name} {count:,}" for name, count in waits.items())
        + " die-clocks",
    )  # fmt: skip
    if run.writes:
        writes = result.writes
        end_us = (writes.end - writes.begin) / result.clock_hz * 1e6
        table.add_row(
            "writes",
            f"{counters['pages_programmed']:,} pages in {end_us:,.1f} us, "
            f"{writes.page_failures} pages and {writes.refused} requests answered with a status"
            + "".join(
                f", {count} {status.name}" for status, count in writes.statuses.items() if status
            ),
        )
        table.add_row(
            "erases",
            f"{counters['erases']} blocks, {counters['collected']} of them in the background",
        )
        table.add_row("suspends", f"{counters['suspends']:,}")
        if run.faults.program_at and not writes.program_failures:
            table.add_row(
                "failing program",
                f"never came: {writes.programs:,} programs, not {run.faults.program_at:,}",
            )
    if run.faults.ecc_beats:
        table.add_row(
            "SRAM words",
            f"{result.corrected} corrected, {result.uncorrected} not; {result.poisoned} reads "
            "poisoned",
        )
    for status, count in result.read_statuses.items():
        if status:
            table.add_row("reads refused", f"{count} {status.name}")
    for block in result.named_blocks:
        table.add_row("block", ", ".join(f"{name} {value}" for name, value in block.items()))
    if run.topology.sideband:
        table.add_row("registers set in", f"{result.set_up_clocks:,} clocks over the sideband")
    table.add_row("clocks", f"{result.cycles:,} at {result.clock_hz / 1e9:g} GHz")
    table.add_row(
        "simulated in", f"{result.wall_s:.2f} s, {result.cycles / result.wall_s:,.0f} clocks/s"
    )
    return table
