"""GPU kernel times from three sources behind one interface.

    queries         the kernels that can be asked for: columns, operations, bytes
    calls           the kernels that serving a model is made of
    answer          what an answer says
    source          fitted rooflines and measured tables; ``base`` constants
    loads           what a roofline is asked with; ``fit`` and ``refit`` find its parameters
    fits            the file of parameters and errors, ``fits.json``
    table           interpolation; ``holdout`` measures its errors
    profile_csv     the format of measured tables
    aiconfigurator  tables of that package, as profiles
    profiler        measuring one's own GPU
    report          the table of errors in the documentation

The roofline itself, published peaks and the constants of source ``base`` are in ``perfmodel.gpu``.
"""

from perfmodel.kernels.answer import KernelSource, KernelTime
from perfmodel.kernels.base import BaseSource
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
from perfmodel.kernels.source import SOURCES, kernel_source
from perfmodel.kernels.table import OutsideMeasured

__all__ = [
    "KERNELS",
    "SOURCES",
    "BaseSource",
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
