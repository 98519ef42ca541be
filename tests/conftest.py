from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import settings

# One thread an operation: tests share two cores. It must be set before OpenFHE is imported anywhere.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))
# What a shell starts in the background ignores Ctrl-C, and so would the commands that the tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A deadline fails a test for what else the machine is doing.
settings.register_profile("penstock", deadline=None)
settings.load_profile("penstock")


@pytest.fixture(scope="session")
def openfhe():
    """OpenFHE, or a skip that names what is missing."""
    from penstock.errors import CapabilityMissing
    from penstock.openfhe.evaluator import load_openfhe

    try:
        return load_openfhe()
    except CapabilityMissing as error:
        pytest.skip(str(error))
