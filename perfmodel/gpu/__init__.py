"""GPUs: their peaks, the roofline, and the constants of the serving model."""

from perfmodel.gpu.devices import DEFAULT_GPU, GPUS, STAND_IN, gpu_named
from perfmodel.gpu.gpu import AllReduce, Gpu
from perfmodel.gpu.peaks import PEAKS, Peaks, peaks_of
from perfmodel.gpu.roofline import Floats, Roofline

__all__ = [
    "DEFAULT_GPU",
    "GPUS",
    "PEAKS",
    "STAND_IN",
    "AllReduce",
    "Floats",
    "Gpu",
    "Peaks",
    "Roofline",
    "gpu_named",
    "peaks_of",
]
