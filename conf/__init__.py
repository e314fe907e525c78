"""Configuration: YAML alone, shipped as package data and found by Hydra as `pkg://conf`."""
