"""Orders of micro-batches in pipelines that are not flushed: adapters step one by one while others' work goes on."""
