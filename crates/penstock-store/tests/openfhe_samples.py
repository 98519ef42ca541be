"""Write small keys and a ciphertext, as OpenFHE serializes them: N = 16, 3 limbs of Q, 2 digits, no security.

Keys of bootstrapping with an ephemeral sparse secret have N = 512.
"""

from __future__ import annotations

import sys
from pathlib import Path

import openfhe


def context(highest_power: int = 2) -> openfhe.CryptoContext:
    parameters = openfhe.CCParamsCKKSRNS()
    parameters.SetMultiplicativeDepth(2)
    parameters.SetRingDim(16)
    parameters.SetBatchSize(8)
    parameters.SetSecurityLevel(openfhe.HEStd_NotSet)
    parameters.SetScalingTechnique(openfhe.FIXEDMANUAL)
    parameters.SetKeySwitchTechnique(openfhe.HYBRID)
    parameters.SetScalingModSize(50)
    parameters.SetFirstModSize(60)
    parameters.SetNumLargeDigits(2)
    parameters.SetMaxRelinSkDeg(highest_power)
    made = openfhe.GenCryptoContext(parameters)
    for feature in (openfhe.PKE, openfhe.KEYSWITCH, openfhe.LEVELEDSHE, openfhe.ADVANCEDSHE):
        made.Enable(feature)
    return made


def encapsulated() -> tuple[openfhe.CryptoContext, openfhe.KeyPair]:
    """A context with the keys of a bootstrapping that raises the modulus under an ephemeral sparse secret."""
    parameters = openfhe.CCParamsCKKSRNS()
    parameters.SetSecretKeyDist(openfhe.SPARSE_ENCAPSULATED)
    parameters.SetMultiplicativeDepth(1 + openfhe.CryptoContext.GetBootstrapDepth([1, 1], openfhe.SPARSE_ENCAPSULATED))
    parameters.SetRingDim(512)
    parameters.SetBatchSize(8)
    parameters.SetSecurityLevel(openfhe.HEStd_NotSet)
    parameters.SetScalingTechnique(openfhe.FLEXIBLEAUTO)
    parameters.SetScalingModSize(50)
    parameters.SetFirstModSize(60)
    parameters.SetNumLargeDigits(2)
    made = openfhe.GenCryptoContext(parameters)
    for feature in (openfhe.PKE, openfhe.KEYSWITCH, openfhe.LEVELEDSHE, openfhe.ADVANCEDSHE, openfhe.FHE):
        made.Enable(feature)
    keys = made.KeyGen()
    made.EvalBootstrapSetup([1, 1], [0, 0], 8)
    made.EvalBootstrapKeyGen(keys.secretKey, 8)
    return made, keys


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)

    def path(name: str) -> str:
        return str(folder / f"{name}.bin")

    cc = context()
    keys = cc.KeyGen()
    tag = keys.secretKey.GetKeyTag()
    cc.EvalRotateKeyGen(keys.secretKey, [1, 2])
    cc.EvalMultKeyGen(keys.secretKey)
    openfhe.SerializeToFile(path("rotations"), cc.GetEvalAutomorphismKeyMap(tag), openfhe.BINARY)
    openfhe.SerializeToFile(path("relin"), cc.GetEvalMultKeyVector(tag)[0], openfhe.BINARY)
    cc.SerializeEvalAutomorphismKey(path("context-rotations"), openfhe.BINARY)
    cc.SerializeEvalMultKey(path("context-relin"), openfhe.BINARY, tag)
    ciphertext = cc.Encrypt(keys.publicKey, cc.MakeCKKSPackedPlaintext([0.25, 0.5]))
    openfhe.SerializeToFile(path("ciphertext"), ciphertext, openfhe.BINARY)
    other = cc.KeyGen()
    cc.EvalRotateKeyGen(other.secretKey, [1, 3])
    cc.SerializeEvalAutomorphismKey(path("two-secrets"), openfhe.BINARY)
    cubes = context(highest_power=3)
    keys = cubes.KeyGen()
    cubes.EvalMultKeysGen(keys.secretKey)
    cubes.SerializeEvalMultKey(path("powers"), openfhe.BINARY, keys.secretKey.GetKeyTag())
    openfhe.CryptoContext.ClearEvalAutomorphismKeys()
    sparse, keys = encapsulated()
    tag = keys.secretKey.GetKeyTag()
    sparse.SerializeEvalAutomorphismKey(path("context-encapsulated"), openfhe.BINARY, tag)
    openfhe.SerializeToFile(path("encapsulated"), sparse.GetEvalAutomorphismKeyMap(tag), openfhe.BINARY)
    (folder / "encapsulated.txt").write_text(str(tag))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
