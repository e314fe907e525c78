"""Plays directives on real devices: joint LoRA training of many tenants over heterogeneous replicas."""
