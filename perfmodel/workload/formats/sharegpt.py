"""ShareGPT JSON, the data set of vLLM's benchmarks: conversations as text, without times.

A list of conversations, each with ``conversations``, a list of messages with ``from`` and
``value``. A message from ``gpt`` ends a turn, whose new input is all that came since the answer
before. Answers without text are no turn: what was asked stays in the context. Conversations without
a turn are skipped and counted. Sessions arrive at time zero, without gaps.

The text has no token counts, and no tokenizer is run: a message of ``n`` characters counts as ``n /
chars_per_token`` tokens, rounded up. The caller has to name the number: about 4 for English text
with the tokenizers of today's models, less for code and other languages.
"""

import json
import math
from collections.abc import Iterator
from typing import Any

from hw.errors import InputError
from perfmodel.workload.formats.turn import Turn
from perfmodel.workload.trace import MOST_TOKENS

_ASKING = {"human", "user", "system", "tool"}
_ANSWERING = {"gpt", "chatgpt", "assistant", "bing", "bard", "model"}


def read(
    path: str, text: str, skipped: dict[str, int], *, chars_per_token: float | None
) -> Iterator[Turn]:
    """Every answered prompt, conversation after conversation.

    Raises:
        InputError: the text is no such JSON, or there is no usable ``chars_per_token``.
    """
    if chars_per_token is None:
        raise InputError(
            f"{path}: holds text without token counts: say how many characters count as a token "
            "(chars-per-token, about 4 for English)"
        )
    if not 0.1 <= chars_per_token <= 100:
        raise InputError(f"chars-per-token is {chars_per_token}: must be 0.1 to 100")
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", 1)
        raise InputError(f"{path}:{line}: not JSON ({error})") from None
    names: set[str] = set()
    for index, entry in enumerate(entries):
        where = f"{path}: [{index}]"
        messages = entry.get("conversations") if isinstance(entry, dict) else None
        if not isinstance(messages, list):
            raise InputError(f"{where}.conversations: must be a list of messages")
        name = f"{entry.get('id', index)}"
        while name in names:
            name += f"/{index}"
        names.add(name)
        turns = list(_turns(where, name, messages, chars_per_token))
        if not turns:
            skipped["conversations without an answer"] = (
                skipped.get("conversations without an answer", 0) + 1
            )
        yield from turns


def _turns(where: str, name: str, messages: list[Any], chars_per_token: float) -> Iterator[Turn]:
    context = 0  # tokens before the next answer
    asked = False
    for index, message in enumerate(messages):
        role, text = _message(f"{where}.conversations[{index}]", message)
        length = math.ceil(len(text) / chars_per_token)
        if role in _ANSWERING and asked and length:
            yield Turn(name, context, length)
            asked = False
        else:
            asked = asked or (role in _ASKING and length > 0)
        context += length
        if context > MOST_TOKENS:
            raise InputError(f"{where}: longer than {MOST_TOKENS} tokens")


def _message(where: str, message: Any) -> tuple[str, str]:
    if not isinstance(message, dict):
        raise InputError(f"{where}: must be an object with from and value")
    role, text = message.get("from"), message.get("value")
    if not isinstance(role, str) or role not in _ASKING | _ANSWERING:
        known = ", ".join(sorted(_ASKING | _ANSWERING))
        raise InputError(f"{where}.from is {role!r}: must be one of {known}")
    if not isinstance(text, str):
        raise InputError(f"{where}.value: must be a text")
    return role, text
