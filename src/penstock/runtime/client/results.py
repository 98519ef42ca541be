"""The results of a program package, to which a decryption is held: headers, lengths, and noise.

Nothing here is the evaluator's word: headers follow from the package's calls, and noise is stated in the file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from penstock.base.system.files import os_errors
from penstock.base.types import Row, RowView
from penstock.errors import ParamsError, UsageError
from penstock.program.evaluator.flooding import TAIL, flooding_std
from penstock.program.evaluator.headers import Header, HeadersEvaluator
from penstock.program.evaluator.noise import NoiseModel
from penstock.program.evaluator.protocol import Values
from penstock.program.package.content import Noise, Package, Verb
from penstock.program.package.file import complex_outputs, open_package
from penstock.program.package.noise import bounded, clear_results, output_names
from penstock.program.package.replay import blank_inputs, checked_inputs, run_package
from penstock.runtime.keystore import parameter_digest
from penstock.scheme.params.ckks import CkksParameters

_KEPT = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedResult:
    """One output of a package."""

    name: str
    length: int
    is_complex: bool
    header: Header

    @property
    def stated(self) -> tuple[int, int, float, int]:
        """Limbs, degree, scale and slots, as the client's module takes them."""
        return self.header.limbs, self.header.degree, self.header.scale, self.header.slots


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramResults:
    """The outputs of a package, as far as a decryption needs to know them."""

    program: str
    params: CkksParameters
    results: tuple[StatedResult, ...]
    noise: Noise | None
    refreshes: bool
    package: Package | None = None
    """The program itself, if its file is at hand: it computes a result in the clear, to compare with."""

    @classmethod
    def of(cls, package: Package | Path | str) -> ProgramResults:
        """The results of a package, or of a package's file, which is read again where it has changed.

        Raises: PackageError: not a package, or damaged. FileError. ParamsError: its set is not for OpenFHE.
        """
        if isinstance(package, Package):
            return _results_of(package)
        path = Path(package).resolve()
        with os_errors(path, "read"):
            state = path.stat()
        return _in_file(path, (state.st_ino, state.st_mtime_ns, state.st_ctime_ns, state.st_size))

    def one(self, name: str | None) -> StatedResult:
        """The output of a name; without one the only output. Raises: UsageError: there is no such, or several."""
        names = [output.name for output in self.results]
        if name is None and len(names) == 1:
            return self.results[0]
        if name not in names:
            reason = "several results: name one of them" if name is None else f"no result '{name}'"
            raise UsageError(f"'{self.program}' has {reason} ({', '.join(names)})")
        return self.results[names.index(name)]

    def check_params(self, params: CkksParameters) -> None:
        """Raises: UsageError: a pair of other parameters."""
        if parameter_digest(self.params) != parameter_digest(params):
            raise UsageError(
                f"'{self.program}' is a program for set '{self.params.name}', and the key pair is of '{params.name}': "
                "name the package that the result comes from"
            )

    def flooding_std(self, result: StatedResult, *, queries: int, statistical_bits: int) -> float:
        """The standard deviation of the noise that hides the error of a result, in units of the ciphertext.

        Raises: ParamsError: the package states no noise, or the modulus does not hold it.
        """
        if self.noise is None:
            why = (
                "it refreshes, and no worst-case bound of a refresh is known"
                if self.refreshes
                else "it was made without inputs, or no bound of one of its calls is known"
            )
            raise ParamsError(
                f"the package '{self.program}' states no noise of its results ({why}). Without it, nobody knows how "
                "much noise hides the key. Keep the result with the owner (--for owner, result_for='owner'). Or make "
                "the package again with the largest inputs ('penstock package PROGRAM --data FILE -o FILE')"
            )
        header, params = result.header, self.params
        error = 2.0**self.noise.error_bits
        std = flooding_std(
            error * header.flooded_scale / math.sqrt(params.ring_dim), params.ring_dim, queries, statistical_bits
        )
        # A value sums the noise of 2 n coefficients, for n slots, and its real part has half of the variance.
        deviation = std * math.sqrt(header.slots) / header.flooded_scale
        if deviation >= 2.0**self.noise.result_bits:
            raise ParamsError(
                f"result '{result.name}' of '{self.program}' drowns in the noise that hides the key: {deviation:.2g} "
                f"in each value, where none is larger than 2^{self.noise.result_bits}. Take a larger scale ('penstock "
                "predict precision --shared' compares them), or keep the result with the owner"
            )
        largest = (2.0**self.noise.result_bits + error) * header.flooded_scale + TAIL * std
        needed, held = 1 + math.log2(largest), NoiseModel(params).log2_modulus(header.flooded_limbs)
        if needed >= held:
            raise ParamsError(
                f"result '{result.name}' of '{self.program}' needs noise of 2^{math.log2(std):.0f} to hide the key, "
                f"and its modulus holds {held:.1f} bits where {needed:.1f} are needed: take a set of more depth, or "
                "keep the result with the owner"
            )
        return std

    def check_range(self, result: StatedResult, values: Values, flooding_std: float) -> None:
        """Hold flooded values, (slots,), to the range of the stated noise.

        Raises: ParamsError: they are larger.
        """
        assert self.noise is not None
        # A value sums the noise of 2 n coefficients, for n slots.
        noise = TAIL * flooding_std * math.sqrt(2 * len(values)) / result.header.flooded_scale
        if not np.max(np.abs(values), initial=0.0) <= 2.0**self.noise.result_bits + noise:
            raise ParamsError(
                f"result '{result.name}' of '{self.program}' is larger than the values that its package states noise "
                f"for (2^{self.noise.result_bits}), so that it is given to nobody else: keep it with the owner; or "
                "make the package again with inputs as large as they get"
            )

    def check_inputs(self, eighths: int) -> None:
        """Raises: ParamsError: inputs of that size (`size_in_eighths`) that the stated noise does not cover."""
        if self.noise is not None and eighths > self.noise.input_eighths:
            raise ParamsError(
                f"inputs of '{self.program}' have values up to {2 ** (eighths / 8):.3g}, and its package states noise "
                f"for {self.noise.largest_input:.3g}, so that the result is given to nobody else: keep it with the "
                "owner; or make the package again with inputs as large as they get"
            )

    def computed(self, result: StatedResult, inputs: Mapping[str, Values]) -> tuple[Values, float]:
        """A result as the package computes it in the clear, (slots,), and the bound on the root mean square of the
        error's values of an encrypted run.

        Raises: ParamsError: there is no bound. UsageError: the package's file is not at hand; as `checked_inputs`.
        """
        if self.package is None:
            raise UsageError("a result is compared with its inputs by its package: give the package's file, too")
        given = checked_inputs(self.package, inputs)
        bound, _ = bounded(self.package, given)[result.name]
        exact = clear_results(self.package, given)[result.name]
        return exact if result.is_complex else exact.real, bound

    def check_computed(self, result: StatedResult, decrypted: Values, computed: tuple[Values, float]) -> None:
        """Compare a decrypted result, (slots,) without noise, with the computed one, up to its error.

        Raises: ParamsError: it is another one.
        """
        exact, bound = computed
        if not np.sqrt(np.mean(np.abs(decrypted - exact) ** 2)) <= bound:
            raise ParamsError(
                f"result '{result.name}' is not what '{self.program}' makes of these inputs: it is given to nobody. "
                "Whoever evaluated did something else, or it is a result of other inputs"
            )

    def check_stated(self, bound: float) -> None:
        """Raises: ParamsError: the package states less noise than its calls have for these inputs."""
        assert self.noise is not None
        if bound > 2.0**self.noise.error_bits:
            raise ParamsError(
                f"the package '{self.program}' states an error of at most 2^{self.noise.error_bits}, and its calls "
                f"have up to 2^{math.log2(bound):.1f}: its results are given to nobody "
                "else. These inputs make larger values inside than the recorded ones did: make the package again with "
                "inputs like these"
            )

    def to_dict(self) -> Row:
        """Everything but the package itself, for JSON."""
        return {
            "program": self.program,
            "params": self.params.to_dict(),
            "results": [asdict(output) for output in self.results],
            "noise": self.noise,
            "refreshes": self.refreshes,
        }

    @classmethod
    def from_dict(cls, record: RowView) -> ProgramResults:
        """The other way."""
        return cls(
            program=record["program"],
            params=CkksParameters.from_dict(record["params"]),
            results=tuple(StatedResult(**{**row, "header": Header(**row["header"])}) for row in record["results"]),
            noise=None if record["noise"] is None else Noise(*record["noise"]),
            refreshes=record["refreshes"],
        )


@lru_cache(maxsize=_KEPT)
def _in_file(path: Path, state: tuple[int, ...]) -> ProgramResults:
    return _results_of(open_package(path))


def _results_of(package: Package) -> ProgramResults:
    ev = HeadersEvaluator(package.params)
    run_package(ev, package, blank_inputs(package.inputs))
    lengths = {output.name: output.length for output in package.outputs}
    kept = complex_outputs(package)
    return ProgramResults(
        program=package.name,
        params=package.params,
        results=tuple(
            StatedResult(name=name, length=lengths[name], is_complex=name in kept, header=header)
            for name, header in zip(output_names(package), ev.headers, strict=True)
        ),
        noise=package.noise,
        refreshes=any(call.verb is Verb.BOOTSTRAP for call in package.instructions),
        package=package,
    )
