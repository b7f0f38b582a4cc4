"""States of a link: codes of UCIe, and what the two ends tell each other."""

from amaranth.hdl import Const, Mux, Value
from amaranth.lib import data, enum

from hw.ucie.modules import blocks

EPOCH_BITS = 2


class StateRequest(enum.Enum, shape=4):
    """``lp_state_req``."""

    NOP = 0b0000
    ACTIVE = 0b0001
    L1 = 0b0100
    L2 = 0b1000
    LINKRESET = 0b1001
    RETRAIN = 0b1011
    DISABLED = 0b1100


class StateStatus(enum.Enum, shape=4):
    """``pl_state_sts``."""

    RESET = 0b0000
    ACTIVE = 0b0001
    LINKRESET = 0b1001
    LINKERROR = 0b1010
    RETRAIN = 0b1011


class Phase(enum.Enum, shape=3):
    """Where an end stands, as it tells the other end; the messages of UCIe that stand for it.

    In the first four an end is down: it sends nothing and receives nothing.
    """

    RESET = 0  # Rsp.LinkReset, or nothing since power came
    RETRAIN = 1  # Req.Retrain, Rsp.Retrain
    LINKRESET = 2  # Req.LinkReset
    LINKERROR = 3  # Req.LinkError
    TRAIN = 4  # Req.Active: modules are trained
    TRAINED = 5  # what can be used is told
    READY = 6  # Rsp.Active: receives
    ACTIVE = 7  # receives and sends


def peer_layout(modules: int) -> data.StructLayout:
    """What an end tells the other over the sideband.

    ``attempt`` changes when the end goes down, ``seen`` is the attempt of the other end: so an
    answer to an older message is known as such. ``alive``, ``epoch`` and ``clear`` count from phase
    TRAINED on: the modules that are trained, the epoch so far, and whether it must not go on.
    """
    return data.StructLayout(
        {
            "phase": Phase,
            "attempt": 1,
            "seen": 1,
            "alive": modules,
            "epoch": EPOCH_BITS,
            "clear": 1,
        }
    )


def largest_block(alive: Value, modules: int) -> Value:
    """The largest aligned block of modules that are all alive, the lowest of these; or zero."""
    found: Value = Const(0, modules)
    for mask in reversed(blocks(modules)):
        found = Mux((alive & mask) == mask, Const(mask, modules), found)
    return found


def agreed_epoch(own: Value, other: Value, clear: Value) -> Value:
    """The epoch that both ends go on with.

    Epochs differ by one where an end has entered a new one and the other fell back before it
    could: then nothing has been sent in the new one, and both take it.
    """
    following = (own + 1)[:EPOCH_BITS]
    return Mux(other == following, other, Mux(other == own, Mux(clear, following, own), own))
