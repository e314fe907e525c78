"""The pool of gloo ranks, for every test of this folder."""

import pytest

from distributed.pool import Pool, shared_pool


@pytest.fixture
def pool() -> Pool:
    """Eight ranks, started once."""
    return shared_pool()
