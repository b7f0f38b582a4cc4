"""Profiles made up from a known formula."""

import pytest

from perfmodel.kernels import Gemm
from perfmodel.kernels.profile_csv import Measurement, ProfileFile, write_profile_file


def _power_us(call):
    return 0.5 * call.m**0.25 * call.n**0.75 * call.k**0.5


@pytest.fixture
def power_us():
    """A power law in every size: what interpolation in logarithms reproduces exactly."""
    return _power_us


@pytest.fixture
def gemm_file():
    """A grid of GEMMs on an unknown GPU, 3 x 4 x 3 points of a power law."""
    calls = [
        Gemm(dtype="bf16", m=m, n=n, k=k)
        for m in (1, 4, 16)
        for n in (512, 1024, 2048, 4096)
        for k in (256, 1024, 4096)
    ]
    rows = tuple(Measurement(call, _power_us(call)) for call in calls)
    return ProfileFile(kernel=Gemm, gpu="abacus", source="made up", rows=rows)


@pytest.fixture
def profile_folder(gemm_file, tmp_path):
    """The same as a folder on disk."""
    folder = tmp_path / "profile"
    write_profile_file(folder / "gemm.csv", gemm_file)
    return folder
