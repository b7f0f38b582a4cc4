"""Student's t against printed tables, and the interval against hand arithmetic."""

import pytest

from perfmodel.serving.confidence import Estimate, estimate, student_t


@pytest.mark.parametrize(
    ("freedom", "printed"),
    # Two-sided 95 %, as any statistics book prints them.
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (5, 2.571), (9, 2.262), (10, 2.228),
     (29, 2.045), (30, 2.042), (120, 1.980)],
)  # fmt: skip
def test_quantiles(freedom, printed):
    assert student_t(freedom) == pytest.approx(printed, abs=5.1e-4)


def test_other_levels():
    assert student_t(4, 0.99) == pytest.approx(4.604, abs=5e-4)
    assert student_t(1, 0.5) == pytest.approx(1.0, abs=1e-9)  # a quarter of the circle each way


def test_interval_of_five_values():
    found = estimate([2.0, 4.0, 4.0, 5.0, 5.0])
    assert found.mean == 4.0
    assert found.half_width == pytest.approx(2.776 * (1.5 / 5) ** 0.5, rel=1e-3)
    assert estimate([3.0]) == Estimate(3.0, None)
