"""Moved to policies.bounds.fluid."""
from policies.bounds.fluid import fluid, fluid_bound, least_each

__all__ = ["fluid", "fluid_bound", "least_each"]
