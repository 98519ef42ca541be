"""The files of the packages of one run of a script: constants are written while it runs."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from penstock.base.system.files import check_target
from penstock.errors import PenstockError
from penstock.program.openfhe.recorder.behind import Behind
from penstock.program.openfhe.recorder.packaging import Packaging
from penstock.program.openfhe.recorder.script import ScriptRun
from penstock.program.package.capture import DigestSink
from penstock.program.package.content import ConstantSink, Package
from penstock.program.package.file import PackageFile


@dataclass(frozen=True, slots=True)
class WrittenPackage:
    """A package and its file."""

    path: Path
    package: Package
    """Its constants are in the file."""
    num_constants: int
    num_bytes: int


class PackageFiles:
    """`model.pkg` for the first package, `model-2.pkg` for the second, … Files without a package disappear.

    Args:   opened: closes the files. verify: sinks know the digests of constants.
    Raises: WouldOverwrite: the first file exists, not `force`.
    """

    def __init__(self, target: Path, opened: ExitStack, *, force: bool, verify: bool) -> None:
        check_target(target, force=force)
        self._target, self._opened, self._force, self._verify = target, opened, force, verify
        self._files: dict[int, PackageFile] = {}

    def sink(self, number: int) -> ConstantSink:
        """Return a new sink for the constants of a package."""
        file = self._file(number)
        return self._opened.enter_context(Behind(DigestSink(file) if self._verify else file))

    def write(self, run: ScriptRun) -> tuple[list[WrittenPackage], list[PenstockError]]:
        """The packages of a run, each in its file, and why others are none."""
        made: list[WrittenPackage] = []
        refusals: list[PenstockError] = list(run.refused)
        for packagings in run.packagings:
            refusals += packagings.refusals
            for packaging in packagings.packages:
                if packaging.refusal is None:
                    try:
                        made.append(self._written(packaging))
                    except PenstockError as error:
                        refusals.append(error)
        return made, refusals

    def _file(self, number: int) -> PackageFile:
        known = self._files.get(number)
        if known is None:
            stem, dot, suffixes = self._target.name.partition(".")
            path = self._target if number == 1 else self._target.with_name(f"{stem}-{number}{dot}{suffixes}")
            known = self._files[number] = self._opened.enter_context(PackageFile(path, force=self._force))
        return known

    def _written(self, packaging: Packaging) -> WrittenPackage:
        file = self._file(packaging.number)
        package = packaging.package(file)
        num_constants = len(file)
        return WrittenPackage(file.path, package, num_constants, file.finish(package))
