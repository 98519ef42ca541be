"""The `openfhe` reading: real ciphertexts, timed."""

from __future__ import annotations

import ctypes
import importlib
import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.base.system import remedy
from penstock.base.system.limits import shortage
from penstock.base.types import Row
from penstock.errors import CapabilityMissing, EvaluationRefused, ParamsError, PenstockError
from penstock.program.evaluator.call import Call, ChebyshevSeries, Cipher, Executed, Manner, Period, Powers
from penstock.program.evaluator.circuit_evaluator import CircuitEvaluator
from penstock.program.evaluator.circuits.bootstrap import slots_in
from penstock.program.evaluator.composites import CompositeEvaluator
from penstock.program.evaluator.fits import check_vector
from penstock.program.evaluator.protocol import Plain, Values, check_real
from penstock.program.evaluator.rows import ciphertext
from penstock.program.evaluator.scaling import ScaleState
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.program.openfhe.paging import PagedKeys
from penstock.program.openfhe.turn import TURN, Held
from penstock.program.openfhe.types import Ciphertext, CryptoContext, Key, Method, Plaintext
from penstock.scheme.operations import CONJ_KEY, RELIN_KEY, OpKind
from penstock.scheme.params.ckks import CkksParameters, Scaling
from penstock.scheme.params.secrets import SPARSE_ENCAPSULATED, SPARSE_TERNARY, UNIFORM_ENCAPSULATED, UNIFORM_TERNARY
from penstock.scheme.traces.builder import TraceBuilder
from penstock.scheme.traces.schema import Trace

SCALING_NAMES = {scaling: scaling.value.replace("-", "").upper() for scaling in Scaling}
"""Scaling rule -> OpenFHE's name of it."""
_SECRET_NAMES = {
    UNIFORM_TERNARY: "UNIFORM_TERNARY",
    SPARSE_TERNARY: "SPARSE_TERNARY",
    SPARSE_ENCAPSULATED: "SPARSE_ENCAPSULATED",
    # Its key generation would draw a sparse secret: `OpenFheContext.create` takes the pair from elsewhere.
    UNIFORM_ENCAPSULATED: "SPARSE_ENCAPSULATED",
}

_OF_OPERANDS = {
    OpKind.ADD: "EvalAdd", OpKind.SUB: "EvalSub", OpKind.MULT: "EvalMult", OpKind.MULT_NO_RELIN: "EvalMultNoRelin",
    OpKind.ADD_PLAIN: "EvalAdd", OpKind.SUB_PLAIN: "EvalSub", OpKind.MULT_PLAIN: "EvalMult",
    OpKind.ADD_SCALAR: "EvalAdd", OpKind.SUB_SCALAR: "EvalSub", OpKind.MULT_SCALAR: "EvalMult",
    OpKind.NEGATE: "EvalNegate", OpKind.SQUARE: "EvalSquare", OpKind.RELINEARIZE: "Relinearize",
    OpKind.RESCALE: "Rescale",
}  # fmt: skip
"""Operations whose call takes their operands, and nothing else."""
_UNIFORM_PAIRS = "penstock.runtime.client.uniform_pair"


def load_openfhe() -> ModuleType:
    """The `openfhe` module.

    Raises: CapabilityMissing: it is not installed, or its shared object does not load here.
    """
    # libgomp reads it when it is loaded: spinning threads make 2 threads slower than 1 on a busy machine.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        return importlib.import_module("openfhe")
    except ImportError as error:
        if (lacking := shortage(error)) is not None:
            raise PenstockError(lacking) from error
        raise CapabilityMissing(
            f"OpenFHE cannot be imported ({error}). Its wheel holds the shared object of one interpreter only: "
            "CPython 3.10, or 3.12 with a libstdc++ that has GLIBCXX_3.4.32. Run 'penstock doctor' for what fits here, "
            f"then {remedy.install('openfhe')}."
        ) from error


_THREAD_LIMIT = "_ZN8lbcrypto23OpenFHEParallelControlsE"


def set_threads(threads: int) -> None:
    """Threads that OpenFHE uses inside one operation, from now on, in all threads of this process.

    OpenFHE 1.6 asks OpenMP for up to `OpenFHEParallelControls.machineThreads` threads in every parallel region, which
    overrides `omp_set_num_threads`; that number is read once, when the library is loaded. It is the object's first
    member, and is set here.
    """
    if threads < 1:
        raise ParamsError(f"threads {threads}: ask for at least 1")
    load_openfhe()
    ctypes.CDLL("libgomp.so.1").omp_set_num_threads(threads)
    core = _loaded_library("libOPENFHEcore")
    if core is not None:
        with suppress(ValueError):  # a library without it follows OpenMP's own number
            ctypes.c_int.in_dll(ctypes.CDLL(core), _THREAD_LIMIT).value = threads


def _loaded_library(name: str) -> str | None:
    """The file that a library of this process was loaded from."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = line.rpartition(" ")[2]
        if name in path.rpartition("/")[2]:
            return path
    return None


@dataclass(slots=True)
class OpenFheContext:
    """A CryptoContext with its keys, and the time of making them."""

    params: CkksParameters
    context: CryptoContext
    public_key: Key
    secret_key: Key
    automorphism_keys: Key = None
    paged: PagedKeys | None = None
    """Rotation keys on disk; `None`: all of them are in OpenFHE's registry."""
    setup_s: dict[str, float] = field(default_factory=dict)
    held: Held | None = field(default=None, repr=False)
    """This thread's turn at OpenFHE, until the release."""

    @classmethod
    def create(
        cls,
        params: CkksParameters,
        *,
        rotation_steps: Iterable[int] = (),
        relinearize: bool = True,
        conjugate: bool = False,
        bootstrap: Iterable[int] = (),
        key_folder: Path | None = None,
        key_budget_bytes: int = 0,
        client_keys: Callable[[CryptoContext], tuple[Key, Key]] | None = None,
    ) -> OpenFheContext:
        """Context and keys for a program that uses these rotations, and bootstraps at these numbers of slots.

        With `key_folder` its rotation keys lie there, and `key_budget_bytes` of them in memory; the keys of
        bootstrapping stay in memory, since the library reads them from there. `client_keys` gets the library's context
        and returns the public and the secret key of an earlier one of these parameters; without it new ones are drawn.
        Until its release no other thread uses OpenFHE; a context of another thread is waited for.
        Raises: ParamsError: the set is not for OpenFHE, or OpenFHE builds another modulus chain from it.
                CapabilityMissing: OpenFHE cannot be imported. PenstockError: in a child that was forked after that.
        """
        if params.library != "openfhe":
            raise ParamsError(
                f"set '{params.name}' is for accelerators ({params.word_bits}-bit words): it has sizes and traces; "
                "to run encrypted take an OpenFHE set ('penstock params list')"
            )
        fhe = load_openfhe()
        with TURN.kept() as held:
            started = time.perf_counter()
            context = cls._context(fhe, params)
            setup = {"context_s": time.perf_counter() - started}

            started = time.perf_counter()
            if client_keys is None and params.secret == UNIFORM_ENCAPSULATED:
                # No module here imports a client library before it is needed.
                client_keys = partial(importlib.import_module(_UNIFORM_PAIRS).uniform_pair, params)
            if client_keys is None:
                pair = context.KeyGen()
                made = cls(params, context, pair.publicKey, pair.secretKey, setup_s=setup, held=held)
            else:
                made = cls(params, context, *client_keys(context), setup_s=setup, held=held)
            if key_folder is not None:
                made.paged = PagedKeys(fhe, context, key_folder, key_budget_bytes)
            made._make_keys(sorted(set(rotation_steps)), relinearize, conjugate, sorted(set(bootstrap)))
            setup["keys_s"] = time.perf_counter() - started
        return made

    def _make_keys(self, steps: list[int], relinearize: bool, conjugate: bool, bootstrap: list[int]) -> None:
        """Raises: as `create`."""
        context, secret, params = self.context, self.secret_key, self.params
        if relinearize:
            context.EvalMultKeyGen(secret)
        if self.paged is not None:
            self.paged.generate(secret, steps)
        if bootstrap:
            assert params.bootstrap is not None
            if params.bootstrap.order == "stc-first":
                raise ParamsError(
                    f"set '{params.name}' bootstraps with SlotsToCoeffs first, and OpenFHE ends with it: take the "
                    "native reading, or order 'stc-last'"
                )
            budget = [params.bootstrap.cts_stages, params.bootstrap.stc_stages]
            # Keys that are there stay: the first number of slots draws the ephemeral secret of all.
            for slots in bootstrap:
                context.EvalBootstrapSetup(budget, [0, 0], slots)
                context.EvalBootstrapKeyGen(secret, slots)
        if self.paged is not None:
            if bootstrap:
                self.paged.adopt_bootstrap(context.GetEvalAutomorphismKeyMap(secret.GetKeyTag()))
        elif steps:
            context.EvalRotateKeyGen(secret, steps)
        if conjugate:
            # Bootstrapping has made this key already, and making it again would give an empty map.
            if not bootstrap:
                context.EvalAutomorphismKeyGen(secret, [2 * params.ring_dim - 1])
            self.automorphism_keys = context.GetEvalAutomorphismKeyMap(secret.GetKeyTag())

    @staticmethod
    def _context(fhe: ModuleType, params: CkksParameters) -> CryptoContext:
        wanted = fhe.CCParamsCKKSRNS()
        wanted.SetRingDim(params.ring_dim)
        wanted.SetBatchSize(params.slots)
        wanted.SetMultiplicativeDepth(params.depth)
        wanted.SetFirstModSize(params.first_mod_bits or params.q_bits[0])
        wanted.SetScalingModSize(params.scale_bits)
        wanted.SetNumLargeDigits(params.dnum)
        wanted.SetScalingTechnique(getattr(fhe, SCALING_NAMES[params.scaling]))
        wanted.SetKeySwitchTechnique(fhe.HYBRID)
        wanted.SetSecretKeyDist(getattr(fhe, _SECRET_NAMES[params.secret]))
        # OpenFHE enforces the level that the set asks for, by its own table, on top of the set's own check.
        level = f"HEStd_{params.security_asked}_classic" if params.security_asked else "HEStd_NotSet"
        wanted.SetSecurityLevel(getattr(fhe, level))
        try:
            context = fhe.GenCryptoContext(wanted)
        except RuntimeError as error:
            raise ParamsError(f"OpenFHE refuses set '{params.name}': {str(error).rpartition(': ')[2]}") from error
        for feature in (fhe.PKE, fhe.KEYSWITCH, fhe.LEVELEDSHE, fhe.ADVANCEDSHE, fhe.FHE):
            context.Enable(feature)
        return context

    def plaintext(self, values: Values, degree: int = 1, level: int = 0) -> Plaintext:
        """OpenFHE's plaintext of `values`, (slots,), at a level.

        Raises: PenstockError: complex values, or some that no coefficient holds; OpenFHE would encode others.
        """
        TURN.check_process()
        check_real(values)
        state = ScaleState.encrypted(self.params, self.params.num_q - level)
        check_vector(self.params, "encode", values, ScaleState(state.limbs, max(degree, state.degree)))
        try:
            return self.context.MakeCKKSPackedPlaintext(values.real.tolist(), degree, level, None, self.params.slots)
        except RuntimeError as error:
            raise EvaluationRefused(f"encode: OpenFHE refuses a vector: {str(error).rpartition(': ')[2]}") from error

    def decrypt(self, ciphertext: Ciphertext, limbs: int) -> Plaintext:
        """OpenFHE's plaintext. Raises: PenstockError: the values outgrew the modulus."""
        TURN.check_process()
        try:
            return self.context.Decrypt(ciphertext, self.secret_key)
        except RuntimeError as error:
            raise PenstockError(
                f"decryption failed at {limbs} limbs: {str(error).rpartition(': ')[2]}; the values outgrew the "
                "modulus or the noise drowned them: scale the data down, or take a set with a wider first modulus"
            ) from error

    def slots_of(self, plain: Plaintext) -> Values:
        """What a decrypted plaintext holds, (slots,) complex128."""
        plain.SetLength(self.params.slots)
        return np.asarray(plain.GetCKKSPackedValue(), dtype=np.complex128)

    def release(self) -> None:
        """Forget the evaluation keys that were registered since the context was made, and give the memory back."""
        fhe = load_openfhe()
        self.automorphism_keys = None
        if self.paged is not None:
            self.paged.release()
        TURN.forget_keys(fhe)
        ctypes.CDLL("libc.so.6").malloc_trim(0)
        if self.held is not None:
            self.held.give()


class OpenFheEvaluator(CompositeEvaluator):
    """Each call runs in OpenFHE; rows carry the limbs of the real ciphertexts and the time of the call."""

    def __init__(self, context: OpenFheContext, builder: TraceBuilder | None = None) -> None:
        super().__init__(context.params, builder)
        self.context = context
        self._cc = context.context
        self._paged = context.paged
        self._num_q = context.params.num_q
        self._origin = time.perf_counter()
        self.encode_s = 0.0
        """Seconds spent on encoding plaintext operands: not part of any operation."""

    # Client side.
    def _encrypt(self, values: Values) -> Executed:
        plain = self._encode(values, self._num_q, 1)
        start = time.perf_counter()
        made = self._cc.Encrypt(self.context.public_key, plain)
        return self._done(made, start, time.perf_counter())

    def _decrypt(self, a: Cipher) -> tuple[Values, Executed]:
        start = time.perf_counter()
        plain = self.context.decrypt(a.value, a.state.limbs)
        end = time.perf_counter()
        return self.context.slots_of(plain), Executed(a.state, None, start - self._origin, end - self._origin)

    def _encode(self, values: Values, limbs: int, degree: int) -> Plaintext:
        start = time.perf_counter()
        plain = self.context.plaintext(values, degree, self._num_q - limbs)
        self.encode_s += time.perf_counter() - start
        return plain

    def _encoded(self, plain: Plain, state: ScaleState, kind: OpKind) -> Plaintext:
        degree = state.degree if kind in (OpKind.ADD_PLAIN, OpKind.SUB_PLAIN) else 1
        kept = plain.kept(self)
        known = kept.get((state.limbs, degree))
        if known is None:
            known = kept[state.limbs, degree] = self._encode(plain.values, state.limbs, degree)
        return known

    def _done(self, made: Ciphertext, start: float, end: float) -> Executed:
        state = ScaleState(self._num_q - made.GetLevel(), made.GetNoiseScaleDeg())
        return Executed(state, made, start - self._origin, end - self._origin)

    def _model(self) -> CircuitEvaluator:
        return SymbolicEvaluator(self.params, self.builder)

    def mult_by_i(self, a: Cipher) -> Cipher:
        ciphertext("mult_by_i", a)
        raise PenstockError(
            "mult_by_i: OpenFHE's contexts are of real data here, and a product with i is complex: keep real and "
            "imaginary parts in ciphertexts of their own, or take '--reading native'"
        )

    def _rotation_key(self, step: int) -> str:
        return f"rot:{self._cc.FindAutomorphismIndex(step)}"

    def execute(self, call: Call) -> Executed:
        cc, kind, operands, predicted, how = self._cc, call.kind, call.operands, call.state, call.how
        step = call.argument
        a = operands[0].value
        if call.plain is not None:
            # A product's own degree is 2; the ciphertext that meets the plaintext has degree 1.
            encoded = self._encoded(call.plain, predicted, kind)
            if kind is OpKind.MULT_PLAIN and predicted.limbs == 1 < operands[0].state.limbs:
                # The library does not rescale a product to the last limb for a plaintext, but does so otherwise.
                return self._timed(lambda: cc.EvalMult(cc.Compress(a, 1), encoded))
            return self._timed(getattr(cc, _OF_OPERANDS[kind]), a, encoded)
        if call.scalar is not None:
            if call.scalar.imag != 0:
                raise PenstockError(
                    f"{kind}: OpenFHE's Python takes real numbers only, not {call.scalar}; encode it as a vector"
                )
            number = float(call.scalar.real)
            pair = (number, a) if how is Manner.REVERSED else (a, number)
            return self._timed(getattr(cc, _OF_OPERANDS[kind]), *pair)
        if kind is OpKind.ROTATE:
            if self._paged is not None:
                index = cc.FindAutomorphismIndex(step)
                return self._timed(cc.EvalAutomorphism, a, index, self._paged.get(index))
            return self._timed(cc.EvalRotate, a, step)
        if kind is OpKind.ROTATE_HOISTED:
            if self._paged is not None:
                self._paged.register(self._paged.get(cc.FindAutomorphismIndex(step)))
            return self._timed(cc.EvalFastRotation, a, step, 2 * self.params.ring_dim, operands[1].value)
        if kind is OpKind.DECOMPOSE:
            start = time.perf_counter()
            digits = cc.EvalFastRotationPrecompute(a)
            return Executed(predicted, digits, start - self._origin, time.perf_counter() - self._origin)
        if kind is OpKind.CONJUGATE:
            return self._timed(cc.EvalAutomorphism, a, 2 * self.params.ring_dim - 1, self.context.automorphism_keys)
        if kind is OpKind.MOD_DROP:
            if self.params.scaling.automatic:
                return self._timed(cc.Compress, a, predicted.limbs)
            return self._timed(cc.LevelReduce, a, None, operands[0].state.limbs - predicted.limbs)
        if isinstance(how, Period):
            if self._paged is not None:
                self._paged.register_bootstrap()
            return self._timed(self._bootstrap, a, how.slots, predicted.limbs)
        if isinstance(how, ChebyshevSeries):
            return self._timed(cc.EvalChebyshevSeries, a, list(how.coefficients), how.lower, how.upper)
        if isinstance(how, Powers):
            return self._timed(cc.EvalPoly, a, list(how.coefficients))
        if kind not in _OF_OPERANDS:
            raise PenstockError(f"{kind}: OpenFHE has no such operation; take another reading ('--reading native')")
        return self._timed(getattr(cc, _OF_OPERANDS[kind]), *(operand.value for operand in operands))

    def _bootstrap(self, a: Ciphertext, slots: int, refreshed_limbs: int) -> Ciphertext:
        """EvalBootstrap leaves a product; where the program rescales, the refresh ends with that rescale.

        A ciphertext states its number of slots; repeated values need no change for fewer slots. The library gives an
        operand back that has no fewer limbs than it leaves: limbs are dropped first.
        """
        manual, limbs = not self.params.scaling.automatic, self._num_q - a.GetLevel()
        surplus = limbs - (refreshed_limbs + manual) + 1
        if surplus > 0:
            a = self._cc.LevelReduce(a, None, surplus) if manual else self._cc.Compress(a, limbs - surplus)
        if slots != self.params.slots:
            a = a.Clone()
            a.SetSlots(slots)
        refreshed = self._cc.EvalBootstrap(a)
        if refreshed.GetLevel() >= a.GetLevel():  # a rescale would spoil the operand that the library gave back
            limbs = self._num_q - a.GetLevel()
            raise PenstockError(
                f"bootstrap of a ciphertext with {limbs} limbs leaves no more than it has: refresh it where it has "
                "fewer ('ev.levels'), or leave the refresh out at these parameters"
            )
        refreshed.SetSlots(self.params.slots)
        return refreshed if self.params.scaling.automatic else self._cc.Rescale(refreshed)

    def _timed(self, call: Method, *arguments: object) -> Executed:
        start = time.perf_counter()
        try:
            made = call(*arguments)
        except RuntimeError as error:
            raise PenstockError(f"OpenFHE refuses a call: {str(error).rpartition(': ')[2]}") from error
        return self._done(made, start, time.perf_counter())


def needed_keys(trace: Trace) -> Row:
    """The keys of a context for a program with this trace, as arguments of `OpenFheContext.create`.

    They belong to its operations, inside its composites too. Only a bootstrapping makes its own rotation and
    conjugation keys.
    """
    table = trace.view().operations
    whole = trace.view(composites=True).operations
    refreshes = whole.filter(pc.equal(whole["kind"].cast(pa.string()), OpKind.BOOTSTRAP.value))
    refreshed = set(refreshes["scope"].unique().to_pylist())
    within = {
        scope: any("/".join(parts[:end]) in refreshed for end in range(1, len(parts) + 1))
        for scope, parts in ((path, path.split("/")) for path in table["scope"].unique().to_pylist())
    }
    inside = pa.array([within[scope] for scope in table["scope"].to_pylist()], type=pa.bool_())
    own = table.filter(pc.invert(inside))
    return {
        "rotation_steps": sorted(step for step in own["step"].unique().to_pylist() if step is not None),
        "relinearize": RELIN_KEY in table["key"].unique().to_pylist(),
        "conjugate": CONJ_KEY in own["key"].unique().to_pylist(),
        "bootstrap": slots_in(trace.parameters(), refreshed),
    }
