"""The storage hierarchy of KV: tiers, least-recently-used order, movement, and its ledger."""

from perfmodel.tiers.block_cache import BlockCacheHits, block_cache_hits
from perfmodel.tiers.flash_log import FlashLog
from perfmodel.tiers.ledger import Ledger
from perfmodel.tiers.lru import Entry, LruOrder
from perfmodel.tiers.store import GRANULE_TOKENS, Store
from perfmodel.tiers.tier import NOWHERE, Tier

__all__ = [
    "GRANULE_TOKENS",
    "NOWHERE",
    "BlockCacheHits",
    "Entry",
    "FlashLog",
    "Ledger",
    "LruOrder",
    "Store",
    "Tier",
    "block_cache_hits",
]
