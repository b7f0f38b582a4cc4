"""Serving agent sessions over a hierarchy of HBM, HBF, DRAM and SSD."""

from perfmodel.agents.architecture import (
    Architecture,
    Composition,
    Host,
    Movement,
    architecture_named,
)
from perfmodel.agents.endurance import Endurance
from perfmodel.agents.energy import Energy, Prices, energy
from perfmodel.agents.machine import Machine, WeightTier
from perfmodel.agents.run import Outcome, Setup, serve_agents

__all__ = [
    "Architecture",
    "Composition",
    "Endurance",
    "Energy",
    "Host",
    "Machine",
    "Movement",
    "Outcome",
    "Prices",
    "Setup",
    "WeightTier",
    "architecture_named",
    "energy",
    "serve_agents",
]
