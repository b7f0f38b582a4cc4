"""Admission of waiting requests: order, headroom and limits."""

from perfmodel.scheduler.admission import Admission, Order, WaitingQueue

__all__ = ["Admission", "Order", "WaitingQueue"]
