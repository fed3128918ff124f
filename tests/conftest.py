"""Settings of all tests: no property test may fail because the machine is slow."""

from hypothesis import settings

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
