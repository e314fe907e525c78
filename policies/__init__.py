"""Who trains together, on which replicas, in which micro-batches, and where: policies are composed of four parts."""
