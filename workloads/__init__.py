"""Tenants and the sequences they bring: published workloads, and the user's own."""
