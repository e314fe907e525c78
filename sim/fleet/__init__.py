"""A fleet in fake time: tenants arrive, queue, train together in lock step until their budget is used, and leave."""
