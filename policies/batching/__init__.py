"""From sequences to micro-batches: padding to bucket widths, or packing up to a token budget."""
