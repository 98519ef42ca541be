"""The package of a program that a service runs, as the client itself knows it: never by the service's word."""

from __future__ import annotations

from pathlib import Path

from penstock.errors import UsageError
from penstock.runtime.client.described import DeployedProgram
from penstock.runtime.client.journal import Record
from penstock.runtime.client.results import ProgramResults
from penstock.runtime.client.uploads import digest_of


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
