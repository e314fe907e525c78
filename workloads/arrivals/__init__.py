"""Tenants that come and go: who arrives when, with how much to train; drawn from laws or read from a trace."""
