"""GPU kernel times from three sources behind one interface.

    queries         the kernels that can be asked for: columns, operations, bytes
    source          base constants, fitted rooflines, measured tables; what an answer says
    peaks           published peaks of the GPUs
    roofline        the form of the fits; ``fit`` and ``refit`` find their parameters
    fits            the file of parameters and errors, ``fits.json``
    table           interpolation; ``holdout`` measures its errors
    profile_csv     the format of measured tables
    aiconfigurator  tables of that package, as profiles
    profiler        measuring one's own GPU
    report          the table of errors in the documentation

The serving model has its own constants (``perfmodel.gpu``), here source ``base``.
"""

from perfmodel.kernels.queries import (
    KERNELS,
    Collective,
    Gemm,
    GqaDecode,
    GqaPrefill,
    Kernel,
    MlaDecode,
    MlaPrefill,
    Moe,
    kernel_named,
)
from perfmodel.kernels.source import SOURCES, KernelSource, KernelTime, kernel_source
from perfmodel.kernels.table import OutsideMeasured

__all__ = [
    "KERNELS",
    "SOURCES",
    "Collective",
    "Gemm",
    "GqaDecode",
    "GqaPrefill",
    "Kernel",
    "KernelSource",
    "KernelTime",
    "MlaDecode",
    "MlaPrefill",
    "Moe",
    "OutsideMeasured",
    "kernel_named",
    "kernel_source",
]
