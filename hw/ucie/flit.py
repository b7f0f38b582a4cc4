"""The flits of UCIe as data: which byte of a flit is what.

Plain Python, so that RTL, tests and pages read the same description. A link at more than 32 GT/s
knows no flit but those of 256 bytes; small machines have smaller ones of the same layout. Of the
formats of UCIe two are here:

- Format 6, latency-optimised with optional bytes: each half of the flit ends with its own CRC, so
  that the first half can be used before the second is in. It carries the most.
- Format 3, standard with end header: both CRCs are the last bytes of the flit.

Source: UCIe 3.0 chapter 3.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain

FLIT_BYTES = 256
HALVES = 2
CRC_MESSAGE_BYTES = 128


@dataclass(frozen=True, kw_only=True)
class FlitFormat:
    """What each byte of a flit is; ranges are of byte numbers.

    Attributes
    ----------
    header
        The two bytes of the flit header.
    protocol
        The payload, in this order.
    reserved
        Sent as zero.
    crc
        Both CRCs, the low byte first.
    covered
        The message of each CRC.
    """

    number: int
    name: str
    flit_bytes: int = FLIT_BYTES
    header: range
    protocol: tuple[range, ...]
    reserved: tuple[range, ...] = ()
    crc: tuple[range, range]
    covered: tuple[range, range]

    def __post_init__(self) -> None:
        uses = sorted(place for _, part in self.parts() for place in part)
        if uses != list(range(self.flit_bytes)):
            wrong = next(place for place in range(self.flit_bytes) if uses.count(place) != 1)
            raise ValueError(f"byte {wrong} has {uses.count(wrong)} uses in format {self.number}")
        if len(self.header) != 2:
            raise ValueError(f"a flit header has 2 bytes, not {len(self.header)}")
        for crc, message in zip(self.crc, self.covered, strict=True):
            if len(crc) != 2 or len(message) > CRC_MESSAGE_BYTES:
                raise ValueError(
                    f"a CRC has 2 bytes over at most 128, not {len(crc)} over {len(message)}"
                )

    def parts(self) -> Iterator[tuple[str, range]]:
        """Every range with its use: ``header``, ``protocol``, ``reserved``, ``crc0``, ``crc1``."""
        found = [
            ("header", self.header),
            *(("protocol", part) for part in self.protocol),
            *(("reserved", part) for part in self.reserved),
            *((f"crc{half}", part) for half, part in enumerate(self.crc)),
        ]
        return iter(sorted(found, key=lambda item: item[1].start))

    @property
    def payload_bytes(self) -> int:
        return sum(map(len, self.protocol))

    @property
    def payload_places(self) -> tuple[int, ...]:
        """The byte of the flit that holds each byte of the payload."""
        return tuple(chain(*self.protocol))

    @property
    def efficiency(self) -> Fraction:
        """Share of the flit that is payload."""
        return Fraction(self.payload_bytes, self.flit_bytes)


def latency_optimised(flit_bytes: int) -> FlitFormat:
    """Format 6, or a smaller flit like it: header in front, a CRC at the end of each half."""
    if flit_bytes % 4 or not 16 <= flit_bytes <= FLIT_BYTES:
        raise ValueError(f"flit_bytes must be a multiple of 4 from 16 to 256, not {flit_bytes!r}")
    half, quarter = flit_bytes // 2, flit_bytes // 4
    return FlitFormat(
        number=6,
        name=f"latency-optimised {flit_bytes} B with optional bytes",
        flit_bytes=flit_bytes,
        header=range(0, 2),
        protocol=(
            range(2, quarter),
            range(quarter, half - 2),
            range(half, half + quarter),
            range(half + quarter, flit_bytes - 2),
        ),
        crc=(range(half - 2, half), range(flit_bytes - 2, flit_bytes)),
        covered=(range(0, half - 2), range(half, flit_bytes - 2)),
    )


LATENCY_OPTIMISED = latency_optimised(FLIT_BYTES)
STANDARD = FlitFormat(
    number=3,
    name="standard 256 B with end header",
    header=range(236, 238),
    protocol=(range(0, 236), range(238, 242)),
    reserved=(range(242, 252),),
    crc=(range(252, 254), range(254, 256)),
    covered=(range(0, 128), range(128, 242)),
)
FORMATS = (STANDARD, LATENCY_OPTIMISED)
