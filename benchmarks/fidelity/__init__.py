"""The evidence for the cost model: one module a source of measurements."""
