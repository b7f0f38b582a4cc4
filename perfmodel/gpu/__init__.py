"""GPU kernel timing."""

from perfmodel.gpu.devices import DEFAULT_GPU, GPUS, gpu_named
from perfmodel.gpu.roofline import SOURCE, AllReduce, Gpu, Kernel

__all__ = ["DEFAULT_GPU", "GPUS", "SOURCE", "AllReduce", "Gpu", "Kernel", "gpu_named"]
