"""Records any OpenFHE Python program: `penstock record script.py`, or one line in the script.

>>> import penstock
>>> cc = penstock.record(cc)                    # doctest: +SKIP
>>> cc.save_trace("mine.parquet")               # doctest: +SKIP

Source: tested against OpenFHE 1.6.1. CKKS only; other contexts are passed through.
"""

from penstock.program.openfhe.recorder.context import record, recorded, save_trace, stop
from penstock.program.openfhe.recorder.recording import Recording
from penstock.program.openfhe.recorder.script import ScriptRun, run_script

__all__ = ["Recording", "ScriptRun", "record", "recorded", "run_script", "save_trace", "stop"]
