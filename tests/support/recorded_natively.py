"""Scripts that are recorded in this process, and their packages run on the same ciphertexts and keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from penstock.program.openfhe.recorder import Recording, ScriptRun, run_script
from penstock.program.openfhe.recorder.packaging import Packaging
from penstock.program.openfhe.recorder.packagings import Packagings
from penstock.program.package.content import ConstantsInMemory, Package
from penstock.program.package.replay import run_package
from penstock.runtime.native.client import PreparedEnds
from penstock.runtime.native.engine import EngineHere, make_context
from penstock.runtime.native.evaluator import NativeEvaluator
from penstock.runtime.native.keys import KeysInMemory
from penstock.scheme.operations import CONJ_KEY, RELIN_KEY

SCRIPTS = Path(__file__).parents[1] / "scripts"


@dataclass
class Seen:
    """What went through the hands of the key's owner in one context, in OpenFHE's bytes."""

    values: list[Any] = field(default_factory=list)
    """That were encrypted, (length,) each."""
    encrypted: list[bytes] = field(default_factory=list)
    results: list[bytes] = field(default_factory=list)
    decrypted: list[Any] = field(default_factory=list)
    """All slots."""
    decrypt: Callable[[bytes], Any] | None = None
    """All slots of another ciphertext."""
    relinearization: bytes = b""
    automorphisms: bytes = b""


@dataclass
class Recorded:
    """A script's run, and what was seen of each context that has a package."""

    run: ScriptRun
    packages: list[Package]
    seen: list[Seen]


@contextmanager
def watched(fhe: Any, keys: dict[str, tuple[bytes, bytes]] | None = None) -> Iterator[dict[int, Seen]]:
    """Notes what is encrypted and decrypted, by packaging.

    Args:   keys: bytes of the relinearization and the automorphism keys by the key pair's tag, of pairs that make no
            more of them.
    """
    seen: dict[int, Seen] = {}
    handlers: Any = Packaging._encrypt, Packaging._decrypt

    def encrypt(packaging: Packaging, done: Any, before: Any) -> None:
        handlers[0](packaging, done, before)
        noted = seen.setdefault(id(packaging), Seen())
        noted.values.append(np.array(packaging._plaintexts.get(done.args[1]).values))  # type: ignore[union-attr]
        noted.encrypted.append(bytes(fhe.Serialize(done.result, fhe.BINARY)))

    def decrypt(packaging: Packaging, done: Any, before: Any) -> None:
        handlers[1](packaging, done, before)
        noted = seen[id(packaging)]
        noted.results.append(bytes(fhe.Serialize(done.args[0], fhe.BINARY)))
        noted.decrypted.append(np.array(done.result.GetCKKSPackedValue()))
        cc, secret = packaging.recording.cc, done.args[1]

        def again(content: bytes) -> Any:
            found = fhe.DeserializeCiphertextString(content, fhe.BINARY)
            return np.array(cc.Decrypt(found, secret).GetCKKSPackedValue())

        noted.decrypt = again
        if noted.relinearization or noted.automorphisms:
            return
        tag = done.args[1].GetKeyTag()
        if keys is None or tag not in keys:
            found = _evaluation_keys(fhe, tag)
            if keys is not None:
                keys[tag] = found
        else:
            found = keys[tag]
        noted.relinearization, noted.automorphisms = found

    Packaging._encrypt, Packaging._decrypt = encrypt, decrypt  # type: ignore[method-assign]
    try:
        yield seen
    finally:
        Packaging._encrypt, Packaging._decrypt = handlers  # type: ignore[method-assign]


def _evaluation_keys(fhe: Any, tag: str) -> tuple[bytes, bytes]:
    relinearization = automorphisms = b""
    if made := fhe.CryptoContext.GetAllEvalMultKeys().get(tag):
        relinearization = bytes(fhe.Serialize(made[0], fhe.BINARY))
    if fhe.CryptoContext.GetExistingEvalAutomorphismKeyIndices(tag):
        automorphisms = bytes(fhe.Serialize(fhe.CryptoContext.GetEvalAutomorphismKeyMap(tag), fhe.BINARY))
    return relinearization, automorphisms


def packagings_of(recording: Recording) -> list[Packaging]:
    """The packages in the making of one context."""
    assert isinstance(recording.packaging, Packagings)
    return recording.packaging.packages


def recorded(fhe: Any, script: Path) -> Recorded:
    """Run a script, with constants in memory."""
    with watched(fhe) as seen:
        run = run_script(script, sinks=lambda number: ConstantsInMemory())
    found = [package for each in run.recordings for package in packagings_of(each)]
    packagings = [each for each in found if each.refusal is None]
    return Recorded(run, [each.package() for each in packagings], [seen[id(each)] for each in packagings])


def named_inputs(package: Package, seen: Seen) -> dict[str, Any]:
    return {given.name: values for given, values in zip(package.inputs, seen.values, strict=True)}


def run_natively(package: Package, seen: Seen) -> list[bytes]:
    """The results of the native evaluator, in OpenFHE's bytes."""
    context = make_context(package.params)
    held = KeysInMemory(package.params, context)
    if RELIN_KEY in package.keys:
        held.put(RELIN_KEY, seen.relinearization)
    if seen.automorphisms:
        for element, key in context.import_automorphism_keys(seen.automorphisms).items():
            held._keys[CONJ_KEY if element == 2 * package.params.ring_dim - 1 else f"rot:{element}"] = key
    ends = PreparedEnds(package.params, seen.encrypted)
    run_package(NativeEvaluator(EngineHere(package.params, context, held), ends), package, named_inputs(package, seen))
    return ends.outputs


def difference(package: Package, ours: bytes, theirs: bytes) -> str:
    """Where two ciphertexts differ; empty where limbs, degree, scale and every word are equal."""
    context = make_context(package.params)
    a, b = context.import_ciphertext(ours), context.import_ciphertext(theirs)
    if (a.limbs, a.degree, a.polynomials) != (b.limbs, b.degree, b.polynomials):
        return f"{a.limbs} limbs of degree {a.degree}, and OpenFHE's {b.limbs} of {b.degree}"
    for k in range(a.polynomials):
        differ = np.any(a.words(k) != b.words(k), axis=-1)
        if differ.any():
            return f"polynomial {k}: words of limbs {np.flatnonzero(differ).tolist()}"
    return "" if b.scale in (0, a.scale) else f"scale {a.scale}, OpenFHE's {b.scale}"
