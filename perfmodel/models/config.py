"""Reading a Hugging Face ``config.json``: every key is checked, every error names file and key."""

import json
from pathlib import Path
from typing import Any

from hw.errors import InputError

_REQUIRED = object()


class Config:
    """One JSON object of a configuration file, with typed access to its keys.

    Raises:
        InputError: a key is missing or its value has the wrong type or range; the message names
            file, key and value.
    """

    def __init__(self, source: str, values: dict[str, Any], prefix: str = "") -> None:
        self.source = source
        self._values = values
        self._prefix = prefix

    @classmethod
    def read(cls, path: Path) -> "Config":
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(
                f"{path}: cannot read the model configuration: {error.strerror}"
            ) from None
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise InputError(f"{path}: not a JSON file: {error}") from None
        if not isinstance(values, dict):
            raise InputError(f"{path}: holds a {type(values).__name__}: must be a JSON object")
        return cls(str(path), values)

    def error(self, key: str, expected: str) -> InputError:
        """The error for a key with an unusable value."""
        value = self._values.get(key)
        return InputError(f"{self.source}: {self._prefix}{key} is {value!r}: {expected}")

    def _get(self, key: str, default: object) -> Any:
        if self._values.get(key) is not None:
            return self._values[key]
        if default is _REQUIRED:
            state = "is null" if key in self._values else "is missing"
            raise InputError(
                f"{self.source}: {self._prefix}{key} {state}: a model of this type needs it"
            )
        return default

    def integer(self, key: str, default: object = _REQUIRED, least: int = 1) -> int:
        """A whole number of at least ``least``; null counts as absent."""
        value = self._get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self.error(key, f"must be a whole number of at least {least}")
        return value

    def flag(self, key: str, default: object = _REQUIRED) -> bool:
        value = self._get(key, default)
        if not isinstance(value, bool):
            raise self.error(key, "must be true or false")
        return value

    def text(self, key: str, default: object = _REQUIRED) -> str:
        value = self._get(key, default)
        if not isinstance(value, str):
            raise self.error(key, "must be a string")
        return value

    def layers(self, key: str, count: int) -> tuple[int, ...] | None:
        """A list of layer numbers below ``count``, or None where the key is absent or null."""
        value = self._get(key, None)
        if value is None:
            return None
        numbers = isinstance(value, list) and all(
            isinstance(layer, int) and 0 <= layer < count for layer in value
        )
        if not numbers:
            raise self.error(key, f"must be a list of layer numbers from 0 to {count - 1}")
        return tuple(sorted(set(value)))

    def section(self, key: str, default: object = _REQUIRED) -> "Config":
        value = self._get(key, default)
        if not isinstance(value, dict):
            raise self.error(key, "must be a JSON object")
        return Config(self.source, value, f"{self._prefix}{key}.")

    def has(self, key: str) -> bool:
        return self._values.get(key) is not None
