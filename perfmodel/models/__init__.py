"""Model shapes: from a Hugging Face ``config.json`` to bytes, parameters and operations."""

from perfmodel.models.catalog import MODELS, load_model
from perfmodel.models.router import Router
from perfmodel.models.shape import Component, ModelShape

__all__ = ["MODELS", "Component", "ModelShape", "Router", "load_model"]
