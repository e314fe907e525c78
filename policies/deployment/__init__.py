"""Which replicas, and on which GPUs."""
