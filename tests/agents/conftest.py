"""Fixtures of the agents floor; a test that trains a policy builds its own."""

import pytest

from agents.policy import SearchPolicy
from tests.agents import builds


@pytest.fixture(scope="session")
def policy() -> SearchPolicy:
    """The tiny model with random adapters, shared: read only."""
    return builds.build_policy(b_std=0.1)
