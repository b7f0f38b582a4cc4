"""Memory timing, the timing record, placement and delivery; the twin of the RTL is in ``twin``."""

from perfmodel.memory.delivery import Delivery, ExpertDelivery
from perfmodel.memory.placement import Placement, place
from perfmodel.memory.record import TimingRecord, load_record, save_record
from perfmodel.memory.timing import MemoryTiming, PathTiming, from_record, link_limited, load_timing
from perfmodel.memory.traffic import Traffic

__all__ = [
    "Delivery",
    "ExpertDelivery",
    "MemoryTiming",
    "PathTiming",
    "Placement",
    "TimingRecord",
    "Traffic",
    "from_record",
    "link_limited",
    "load_record",
    "load_timing",
    "place",
    "save_record",
]
