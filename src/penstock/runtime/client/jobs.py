"""The jobs that a client has begun: inputs encrypted on its disk, records in its journal, and their packages."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from penstock.base.system.files import os_errors, write_atomic
from penstock.errors import PenstockError, UsageError
from penstock.program.evaluator.protocol import Values
from penstock.program.package.noise import size_in_eighths
from penstock.runtime.client.described import DeployedProgram
from penstock.runtime.client.journal import Journal, Record
from penstock.runtime.client.pair import OWNER, KeyPair
from penstock.runtime.client.results import ProgramResults
from penstock.runtime.client.uploads import digest_of

JOBS = "jobs"
"""Folder of the jobs' ciphertexts inside a pair's."""
_JOB = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_SAME = 1e-3
"""Inputs of a job that goes on differ from the first ones by at most this share."""


class BegunJobs:
    """The jobs of a pair's folder at one service.

    Args:   folder: the pair's. url: the service's.
    """

    def __init__(self, folder: Path, journal: Journal, url: str) -> None:
        self._place, self._journal, self._url = folder / JOBS, journal, url

    def key(self, job: str) -> str:
        """A job's name in the journal: the same identity at two services is two jobs."""
        return f"{self._url} {job}"

    def folder(self, job: str) -> Path:
        return self._place / job

    def prepared(
        self,
        program: DeployedProgram,
        values: Mapping[str, Values],
        pair: KeyPair,
        job: str | None,
        package: Record | None,
    ) -> tuple[str, Record]:
        """A job with its encrypted inputs on the disk, and its record: a new one, or one that was begun."""
        if job is None:
            prefix = self.key("")
            for key, record in self._journal.all("job").items():
                begun = key.startswith(prefix) and record["state"] == "prepared" and record["program"] == program.name
                begun = begun and digest_in(record) == (package or {}).get("sha256")
                if begun and self._is_same(key.removeprefix(prefix), record, values, pair):
                    return key.removeprefix(prefix), record
            job = uuid.uuid4().hex
        known = self._journal.get("job", self.key(checked_job(job)))
        if known is not None:
            if known["program"] != program.name:
                raise UsageError(f"job '{job}' is one of program '{known['program']}': choose another identity")
            if known["state"] == "prepared" and not self._is_same(job, known, values, pair):
                raise UsageError(f"job '{job}' was begun with other inputs: choose another identity")
            if digest_in(known) != (package or {}).get("sha256"):
                raise UsageError(f"job '{job}' was begun with another package: choose another identity")
            return job, known
        folder = self.folder(job)
        with os_errors(folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        inputs = {}
        for at, (name, vector) in enumerate(values.items()):
            file = f"input-{at}.ct"
            # A fresh ciphertext has the whole chain; the program drops the limbs that it does not use.
            write_atomic(folder / file, pair.encrypt_seeded(vector), force=True, mode=0o600)
            sha256, size = digest_of(folder / file)
            inputs[name] = {"file": file, "sha256": sha256, "bytes": size}
        record = {
            "program": program.name,
            "state": "prepared",
            "inputs": inputs,
            "outputs": {output.name: output.length for output in program.outputs},
            "complex": [output.name for output in program.outputs if output.is_complex],
            "params": program.params.to_dict(),
            "input_eighths": size_in_eighths(values),
        }
        if package is not None:
            record["package"] = package
        self._journal.note("job", self.key(job), **record)
        return job, record

    def _is_same(self, job: str, record: Record, values: Mapping[str, Values], pair: KeyPair) -> bool:
        """Whether the encrypted inputs of a job that was begun are these values. Only this machine's files are read."""
        if record["inputs"].keys() != values.keys():
            return False
        for name, sent in record["inputs"].items():
            path = self.folder(job) / sent["file"]
            if not path.exists() or digest_of(path) != (sent["sha256"], sent["bytes"]):
                return False
            try:
                slots = pair.decrypt(path.read_bytes(), result_for=OWNER)
            except PenstockError:
                return False
            wanted = np.asarray(values[name])
            bound = _SAME * max(1.0, float(np.max(np.abs(wanted), initial=0.0)))
            if float(np.max(np.abs(slots[: len(wanted)] - wanted), initial=0.0)) > bound:
                return False
        return True


def checked_job(job: str) -> str:
    if _JOB.fullmatch(job) is None:
        raise UsageError(
            f"'{job}' cannot be the identity of a job: take up to 64 letters, digits, '.', '_' and '-', "
            "a letter or a digit first"
        )
    return job


# The package of a job's program, as the client itself knows it: never by the service's word.
def told_by(package: Path, sha256: str) -> Record:
    """The journal's record of a package. Raises: as `ProgramResults.of`."""
    return {"sha256": sha256, "results": ProgramResults.of(package).to_dict()}


def digest_in(record: Record) -> str | None:
    """The digest of the package that a job was submitted for."""
    stated = record.get("package")
    return None if stated is None else str(stated["sha256"])


def package_of(program: DeployedProgram, package: Path | None, deployed: Record | None) -> Record | None:
    """The record of a program's package: of the named one, else of the one that this client deployed.

    Raises: UsageError: it is the package of another program.
    """
    if package is None and deployed is None:
        return None
    known: Record = (deployed or {})["package"] if package is None else told_by(package, digest_of(package)[0])
    results = ProgramResults.from_dict(known["results"])
    results.check_params(program.params)
    outputs = {output.name: output.length for output in results.results}
    if outputs != {output.name: output.length for output in program.outputs}:
        raise UsageError(
            f"'{program.name}' has outputs {', '.join(output.name for output in program.outputs)} at the service, and "
            f"package '{results.program}' has {', '.join(outputs)}: name the package that is deployed"
        )
    return known


def results_of(job: str, record: Record, package: Path | None, *, is_shared: bool) -> ProgramResults | None:
    """The results of a job's program. `None`: the client was not told which program it is.

    Raises: UsageError: another package than the job's. ParamsError: shared, and its inputs were too large.
    """
    stated = record.get("package")
    if package is not None and digest_in(record) not in (None, digest_of(package)[0]):
        raise UsageError(f"job '{job}' was submitted for another package than {package}: name that one, or none")
    if package is None and stated is None:
        return None
    results = (
        ProgramResults.of(package) if package is not None else ProgramResults.from_dict(record["package"]["results"])
    )
    if is_shared:
        if "input_eighths" not in record:
            raise UsageError(
                f"job '{job}' was submitted by an earlier version, which kept no size of its inputs: its result is for "
                "the owner, or submit it again"
            )
        results.check_inputs(record["input_eighths"])
    return results
