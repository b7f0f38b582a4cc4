"""A small register map with large steps, so that carries between words are frequent."""

from pathlib import Path

from hw.registers.description import Description, describe, load

SMALL_RDL = """
field config { sw = rw; hw = r; };
field strobe { sw = w; hw = r; singlepulse; reset = 0; };
addrmap small {
    default accesswidth = 32;
    reg {
        config low[4:0] = 3;
        field { sw = r; hw = na; } fixed[9:7] = 5;
        strobe go[10:10];
        strobe clear[11:11];
        config top[31:20];
    } mixed @ 0x4;
    reg {
        regwidth = 64;
        field { sw = r; hw = na; counter; incrwidth = 40; reset = 0; } wide[47:8];
    } wide @ 0x10;
    reg {
        regwidth = 64;
        field { sw = r; hw = na; counter; incrwidth = 3; reset = 0; } left[3:0];
        field { sw = r; hw = na; counter; incrwidth = 32; reset = 0; } right[63:32];
    } two @ 0x18;
    reg { field { sw = r; hw = w; } state[31:0]; } state @ 0x20;
    reg { strobe alone[0:0]; } alone @ 0x800000;
    wide.wide->hwclr = mixed.clear;
    two.left->hwclr = mixed.clear;
    two.right->hwclr = alone.alone;
};
"""
SMALL_RESETS = {"top": 0xABC}


def describe_text(directory: Path, text: str) -> Description:
    """The description of that RDL text."""
    file = directory / "map.rdl"
    file.write_text(text)
    return describe(load(file))
