"""Capacity questions: how many GPUs, who pays what, when does each finish; composed from all rooms."""
