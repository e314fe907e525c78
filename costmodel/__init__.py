"""How long and how large: fitted and analytic prices of stages, messages and memory."""

from costmodel.catalogue import cost_model, least_gpus
from costmodel.hardware import cluster_names, cluster_spec, model_names, model_spec
from costmodel.memory import AnalyticMemory, Breakdown

__all__ = [
    "AnalyticMemory",
    "Breakdown",
    "cluster_names",
    "cluster_spec",
    "cost_model",
    "least_gpus",
    "model_names",
    "model_spec",
]
