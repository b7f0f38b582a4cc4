"""The CREDIT message: what a receiver tells the far sender about its buffers, header only.

It overlays :class:`~hw.ucie.transaction.Header`: ``message_class`` is where a header has it, and
the last bit stays free for the framing. All counts are cumulative and wrap, so a message that is
lost or comes twice does no harm: the next one says it all again.
"""

from amaranth.lib import data

from hw.ucie.transaction import HEADER_BYTES, Header

CHANNELS = 4
COUNT_BITS = 12
EPOCH_BITS = 2


def least_count_bits(depths: tuple[int, ...]) -> int:
    """Bits that tell a count up to the largest depth ahead from one up to it behind."""
    return (2 * max(depths)).bit_length()  # clog2(2 * depth + 1)


def credit_message_layout(
    *, channels: int = CHANNELS, bits: int = COUNT_BITS, epoch_bits: int = EPOCH_BITS
) -> data.StructLayout:
    """128 bits of a CREDIT message.

    ``freed`` are the places that each channel's receiver has freed so far, ``received`` what had
    come of it when ``epoch`` began. The second does not move within an epoch: the sender may go on
    before it hears the first message of one.
    """
    counts = data.ArrayLayout(bits, channels)
    operation, message_class = (Header.as_shape()[f].width for f in ("operation", "message_class"))
    used = operation + message_class + epoch_bits + 2 * counts.size
    spare = 8 * HEADER_BYTES - used
    if spare < 1:
        raise ValueError(
            f"{channels} channels with counts of {bits!r} bits leave no free bit at the end"
        )
    return data.StructLayout(
        {
            "operation": operation,  # unused
            "message_class": message_class,
            "epoch": epoch_bits,
            "freed": counts,
            "received": counts,
            "spare": spare,
        }
    )


def check_ledger(depths: tuple[int, ...], bits: int, epoch_bits: int) -> None:
    """What both ends demand of their parameters, which must be the same.

    Raises:
        ValueError: they do not fit.
    """
    if not 1 <= len(depths) <= CHANNELS:
        raise ValueError(f"a CREDIT message has 1 to {CHANNELS} channels, not {len(depths)}")
    if min(depths) < 1:
        raise ValueError(f"the depth of a buffer must be at least 1, not {min(depths)!r}")
    if bits < least_count_bits(depths):
        raise ValueError(
            f"counts of a buffer of {max(depths)} need at least {least_count_bits(depths)} bits, "
            f"not {bits!r}"
        )
    if epoch_bits < 1:
        raise ValueError(f"the epoch must have at least 1 bit, not {epoch_bits!r}")
    credit_message_layout(channels=len(depths), bits=bits, epoch_bits=epoch_bits)
