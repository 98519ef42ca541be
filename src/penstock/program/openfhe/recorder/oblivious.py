"""Whether a script does the same with other keys and inputs: it is recorded twice, and the packages are compared.

python -m penstock.program.openfhe.recorder.oblivious OUT SCRIPT [ARGS…]    # the second run
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.base.system.files import os_errors
from penstock.base.system.temporary import temporary_folder
from penstock.base.types import Row, Rows
from penstock.program.openfhe.recorder.behind import Behind
from penstock.program.openfhe.recorder.packaging import Packaging
from penstock.program.openfhe.recorder.refusals import NotPackaged
from penstock.program.openfhe.recorder.script import ScriptRun, run_script
from penstock.program.package.capture import DigestSink
from penstock.program.package.content import SHAPES

Fingerprint = Rows
"""One entry an instruction: its place, and by name each thing that must be equal in two runs."""
_RULE = (
    "a package does not depend on decrypted values, time or chance, and the second run has other keys and encrypts "
    "other values: take the same calls and constants in each run, from a fixed seed, say"
)


def fingerprint(packaging: Packaging) -> Fingerprint:
    """The fingerprint of a package whose sink is a `DigestSink`.

    Of values that are encrypted after a decryption it has a digest, since they may have been computed from decrypted
    ones. It is compared and not kept.
    """
    made = packaging.collected()
    sink = packaging.constants.sink if isinstance(packaging.constants, Behind) else packaging.constants
    digests = sink.digests if isinstance(sink, DigestSink) else {}
    entries = []
    for call, place in zip(made.instructions, packaging.builder.places, strict=True):
        entry: Row = {"call": [call.verb.value, list(call.operands)], "place": str(place)}
        entry["constant"] = [digests[number] for number in call.constants]
        entry["number"] = repr(call.number)
        argument = SHAPES[call.verb].argument
        if argument == "series":
            entry["series"] = repr(made.series[call.argument])
        elif argument == "input":
            given = made.inputs[call.argument]
            entry["input"] = [given.length, given.limbs]
            entry["given"] = packaging.given.get(call.argument, "")
        elif argument == "output":
            entry["output"] = made.outputs[call.argument].length
        else:
            entry["step or limbs"] = call.argument
        entries.append(entry)
    return entries


@dataclass(frozen=True, slots=True)
class Second:
    """The second run of a script."""

    packages: list[Fingerprint | str]
    """Of every package; the words of a refusal where it is refused."""
    ended: str
    """How the script ended early, if it did."""


def fingerprints(run: ScriptRun) -> list[Fingerprint | str]:
    """Of every package of a run; the words of a refusal where it is refused."""
    return [
        fingerprint(packaging) if packaging.refusal is None else str(packaging.refusal)
        for packagings in run.packagings
        for packaging in packagings.packages
    ]


def check_oblivious(run: ScriptRun, script: Path, args: Sequence[str], folder: Path) -> None:
    """Run the script again, in a new process, with other keys and other values in each `Encrypt`, and compare.

    Args:   folder: where the script was started.
    Raises: NotPackaged: what differs first, with its line.
    """
    first = fingerprints(run)
    if all(isinstance(package, str) for package in first):
        return
    second = _second_run(script, args, folder)
    for number, ours in enumerate(first):
        if isinstance(ours, str):
            continue
        theirs = second.packages[number] if number < len(second.packages) else []
        if isinstance(theirs, str):
            raise NotPackaged(f"{theirs} (in a second run, with other inputs)")
        compare(ours, theirs, ended=second.ended)
    if len(first) < len(second.packages):
        raise NotPackaged(
            f"{script.name}: not oblivious: {len(first)} packages in one run, {len(second.packages)} in the other"
        )


def _second_run(script: Path, args: Sequence[str], folder: Path) -> Second:
    with temporary_folder("penstock-verify-") as scratch:
        out = scratch / "fingerprints.json"
        command = [sys.executable, "-m", "penstock.program.openfhe.recorder.oblivious", str(out), str(script), *args]
        again = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            check=False,
        )
        if not out.exists():
            shown = again.stderr.decode(errors="replace").strip().splitlines()
            last = f": {shown[-1]}" if shown else ""
            raise NotPackaged(f"{script.name}: the second run ended with exit code {again.returncode}{last}")
        with os_errors(out, "read"):
            return Second(**json.loads(out.read_text(encoding="utf-8")))


def compare(first: Fingerprint, second: Fingerprint, *, ended: str = "") -> None:
    """Compare two runs.

    Args:   ended: how the second one ended early. A check of results fails with other inputs, so it may lack outputs.
    Raises: NotPackaged: the first difference.
    """
    for ours, theirs in zip(first, second, strict=False):
        for what in ours:
            if what != "place" and ours[what] != theirs.get(what):
                shown = "" if what in ("constant", "call", "given") else f" ({ours[what]} and {theirs.get(what)})"
                what = "the input that it encrypts after a decryption" if what == "given" else f"its {what}"
                raise NotPackaged(f"{ours['place']}: not oblivious: {what} differs in a second run{shown}; {_RULE}")
    if len(first) != len(second):
        longer = max(first, second, key=len)
        rest = longer[min(len(first), len(second)) :]
        if ended and longer is first:
            if all("output" in entry for entry in rest):
                return
            raise NotPackaged(
                f"{rest[0]['place']}: not oblivious: a second run, with other inputs, ended before this call "
                f"({ended}); {_RULE}"
            )
        raise NotPackaged(f"{rest[0]['place']}: not oblivious: only one of two runs makes the call; {_RULE}")


def main(out: str, script: str, *args: str) -> int:
    """The second run: its fingerprints go to a file."""
    run = run_script(Path(script), args, sinks=lambda number: DigestSink(), other_inputs=True)
    ended = next((recording.ended for recording in run.recordings if recording.ended), "")
    Path(out).write_text(json.dumps({"packages": fingerprints(run), "ended": ended}), encoding="utf-8")
    return run.exit_code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
