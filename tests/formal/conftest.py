"""Notes the proofs of each test in its report, which reaches the process that prints them."""

import dataclasses

import pytest

from tests.formal import harness


@pytest.fixture(autouse=True)
def _note_proofs(record_property):
    before = len(harness.finished)
    yield
    for proof in harness.finished[before:]:
        record_property("proof", dataclasses.asdict(proof))
