"""How the counts and messages of both ends of a credited link belong together.

They are consequences of what is proved of the link, stated so that a proof gets on faster.
"""

from amaranth.hdl import Assert, Mux


def message_lemmas(giver, taker, bits, depth, k, *, kept, kept_valid, since, total) -> list:
    bits = slice(0, bits)
    offer, freed = giver.message.payload, giver.state[k].freed
    offered_since = (freed - offer.freed[k])[bits]
    return [
        Assert(total == freed, "freed is what was freed"),
        Assert(
            ~giver.message.valid
            | (
                (offer.received[k] == giver.state[k].began)
                & (offered_since <= (freed - taker.state[k].freed)[bits])
            ),
            "an offer is news",
        ),
        Assert(
            ~kept_valid | (since > depth) | ((freed - kept.freed[k])[bits] == since),
            "kept so long",
        ),
    ]


def channel_lemmas(giver, taker, bits, k, *, flight, fresh, held, owed, refund, firsts) -> list:
    there, here, bits = giver.state[k], taker.state[k], slice(0, bits)
    taker_first, giver_first = firsts
    settled, pulse = taker.settled, giver.credit[k]
    arrived = Mux(taker_first, there.received, there.began)
    return [
        Assert(
            (here.sent - there.received)[bits] == flight + fresh + refund,
            "sent is received or under way or lost",
        ),
        Assert((there.received - there.freed)[bits] == held + pulse, "received is held or freed"),
        Assert(
            (there.freed - here.freed)[bits] + here.pending + pulse + refund == owed,
            "owed is untold or pending or lost",
        ),
        Assert(
            ~giver_first | (there.began == there.received),
            "the receiver stands still while its sender is in reset",
        ),
        Assert(
            settled
            | giver_first
            | ((here.before - arrived)[bits] == refund + Mux(taker_first, flight, 0)),
            "not told yet",
        ),
        Assert(~settled | (refund == 0), "nothing lost is untold once settled"),
        Assert((fresh == 0) | taker_first, "fresh only while one end is cleared"),
    ]
