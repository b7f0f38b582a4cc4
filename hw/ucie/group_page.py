"""Tables of the page that tell how groups are laid out and what they carry."""

from fractions import Fraction

from hw.ucie.flit import FLIT_BYTES, FORMATS, FlitFormat
from hw.ucie.framing import FILLED, LANES_PER_SLOT, SLOT_BYTES, GroupLayout, slots_of
from hw.ucie.tables import table

FLITS, LANES = 4, 128  # of the full-size link
RAW_TB_S = 2.048


def groups() -> str:
    """All tables."""
    return "\n\n".join([_slots(), *map(_example, FORMATS), *map(_efficiency, FORMATS)])


def _sizes(flit_format: FlitFormat) -> tuple[GroupLayout, int, int]:
    """Layout, bytes of payload and bytes behind the last slot of a full-size group."""
    slots = slots_of(flit_format, flits=FLITS)
    payload = FLITS * flit_format.payload_bytes
    return GroupLayout(lanes=LANES, slots=slots), payload, payload - slots * SLOT_BYTES


def _slots() -> str:
    rows = []
    for flit_format in FORMATS:
        layout, payload, unused = _sizes(flit_format)
        rows.append(
            (
                str(flit_format.number),
                str(payload),
                str(layout.slots),
                f"1-{layout.data_slots}",
                str(layout.beat_slots),
                str(unused),
            )
        )
    head = ("format", "payload bytes", "slots", "data region", "slots of a beat", "bytes unused")
    title = (
        f"Groups of {FLITS} flits, beats of {LANES} lanes, slots of {SLOT_BYTES} bytes; "
        f"bit {FILLED} of a slot with a header is set:"
    )
    return title + "\n\n" + table(head, "rrrlrr", rows)


def _example(flit_format: FlitFormat) -> str:
    layout, _, _ = _sizes(flit_format)
    region, length = layout.data_slots, layout.beat_slots
    rows, begin, names = [], 0, "ABCD"
    for group in range(3):
        parts, slot = [], 0
        while slot < region:
            place = group * region + slot
            beat, offset = divmod(place - begin, length)
            count = min(length - offset, region - slot)
            first, last = slot + 1, slot + count
            held = []
            if offset == 0:
                held.append("header")
            lanes = range(
                LANES_PER_SLOT * max(offset - 1, 0), LANES_PER_SLOT * (offset + count - 1)
            )
            if lanes:
                held.append(f"lanes {lanes[0]}-{lanes[-1]}")
            span = f"{first}-{last}" if first != last else str(first)
            parts.append(f"{span}: {names[beat]} {', '.join(held)}")
            slot += count
        rows.append((str(group), "; ".join(parts)))
    title = f"Format {flit_format.number}, beats A, B, C one after the other:"
    return title + "\n\n" + table(("group", "slots of the data region"), "rl", rows)


def _efficiency(flit_format: FlitFormat) -> str:
    layout, payload, unused = _sizes(flit_format)
    group, region, length = FLITS * FLIT_BYTES, layout.data_slots, layout.beat_slots
    factors = [
        ("flit headers, CRCs, reserved bytes", Fraction(payload, group), f"{payload}/{group}"),
        (
            "bytes behind the last slot",
            Fraction(payload - unused, payload),
            f"{payload - unused}/{payload}",
        ),
        ("message slot", Fraction(region, region + 1), f"{region}/{region + 1}"),
        ("header of the beat", Fraction(length - 1, length), f"{length - 1}/{length}"),
    ]
    rows, left = [], Fraction(1)
    for name, factor, text in factors:
        left *= factor
        percent = f"{text} = {100 * float(factor):.2f} %"
        rows.append((name, percent, f"{RAW_TB_S * float(left):.3f} TB/s"))
    beats = layout.beats_a_group
    data = Fraction(LANES * 8, group)
    assert left == beats * data
    title = (
        f"Format {flit_format.number}: {beats} = {float(beats):.4f} beats of {LANES * 8} bytes in "
        f"a group; {float(25 / beats):.2f} groups hold 25 beats. Of {RAW_TB_S} TB/s raw:"
    )
    return title + "\n\n" + table(("without", "share", "left"), "lrr", rows)
