"""Ciphertexts as bytes: the way out of an OpenFHE context and back into one."""

from __future__ import annotations

from collections.abc import Callable

from penstock.errors import PenstockError
from penstock.program.evaluator.call import Cipher
from penstock.program.evaluator.scaling import ScaleState
from penstock.program.openfhe.evaluator import OpenFheEvaluator, load_openfhe
from penstock.program.openfhe.types import Ciphertext


def ciphertext_bytes(a: Cipher) -> bytes:
    """A ciphertext in OpenFHE's binary serialization."""
    fhe = load_openfhe()
    content: bytes = fhe.Serialize(a.value, fhe.BINARY)
    return content


def library_ciphertext(content: bytes) -> Ciphertext:
    """The library's ciphertext in `ciphertext_bytes`. May run in a second thread next to the evaluator's.

    Raises: PenstockError: the bytes are not a ciphertext.
    """
    fhe = load_openfhe()
    try:
        return fhe.DeserializeCiphertextString(content, fhe.BINARY)
    except RuntimeError as error:
        raise PenstockError(f"{len(content)} bytes are not a ciphertext of OpenFHE: {error}") from error


def ciphertext_reader(ev: OpenFheEvaluator) -> Callable[[bytes], Ciphertext]:
    """What turns `ciphertext_bytes` into the library's ciphertext as its own operations make them.

    OpenFHE gives each deserialized ciphertext a separate copy of the ring's parameters. Operations take longer as long
    as that copy is passed on: a sum of two ten times (1.6 for 0.11 ms at N = 2^14 and 3 limbs), a rescale twice. The
    sum of a zero of this context and the ciphertext is the same ciphertext, word by word, with the context's own
    parameters. The function may run in a second thread next to the evaluator's.
    """
    cc = ev.context.context
    some = cc.Encrypt(ev.context.public_key, cc.MakeCKKSPackedPlaintext([0.0], 1, 0, None, ev.params.slots))
    zero = cc.EvalSub(some, some)

    def read(content: bytes) -> Ciphertext:
        loaded = library_ciphertext(content)
        # At fewer limbs or another scale a sum would change the ciphertext.
        same = loaded.GetLevel() == 0 and loaded.GetNoiseScaleDeg() == 1 and loaded.GetSlots() == ev.params.slots
        return cc.EvalAdd(zero, loaded) if same else loaded

    return read


def adopt(ev: OpenFheEvaluator, ciphertext: Ciphertext, name: str) -> Cipher:
    """A ciphertext that was made earlier as an operand of `ev`; its trace shows an object without an encryption.

    Raises: PenstockError: it belongs to another parameter set.
    """
    limbs = ev.params.num_q - ciphertext.GetLevel()
    if not 1 <= limbs <= ev.params.num_q or ciphertext.GetSlots() != ev.params.slots:
        raise PenstockError(f"{name}: a ciphertext of another parameter set than '{ev.params.name}'")
    state = ScaleState(limbs, ciphertext.GetNoiseScaleDeg())
    return Cipher(ev.builder.ciphertext(limbs, name=name), state, value=ciphertext)
