"""The roof: composes workloads, policies, cost models and backends, and says what came of it."""
