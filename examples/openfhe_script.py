"""Simple real numbers with OpenFHE, after its own documentation. It knows nothing of penstock."""
# ruff: noqa: F403, F405

from openfhe import *

parameters = CCParamsCKKSRNS()
parameters.SetMultiplicativeDepth(3)
parameters.SetScalingModSize(50)
parameters.SetBatchSize(8)
parameters.SetSecurityLevel(HEStd_NotSet)
parameters.SetRingDim(1 << 12)
cc = GenCryptoContext(parameters)
for feature in (PKESchemeFeature.PKE, PKESchemeFeature.KEYSWITCH, PKESchemeFeature.LEVELEDSHE):
    cc.Enable(feature)
keys = cc.KeyGen()
cc.EvalMultKeyGen(keys.secretKey)
cc.EvalRotateKeyGen(keys.secretKey, [1, -2])

ptx1 = cc.MakeCKKSPackedPlaintext([0.25, 0.5, 0.75, 1.0, 2.0, 3.0, 4.0, 5.0])
ptx2 = cc.MakeCKKSPackedPlaintext([5.0, 4.0, 3.0, 2.0, 1.0, 0.75, 0.5, 0.25])
c1, c2 = cc.Encrypt(keys.publicKey, ptx1), cc.Encrypt(keys.publicKey, ptx2)
results = {"x1 + x2": c1 + c2, "x1 - x2": cc.EvalSub(c1, c2), "4 * x1": cc.EvalMult(c1, 4.0)}
results["x1 * x2"] = cc.EvalMult(c1, c2)
results["x1 ^ 3 + x2"] = cc.EvalMult(cc.EvalSquare(c1), c1)
cc.EvalAddInPlace(results["x1 ^ 3 + x2"], ptx2)
results["x1 rotated by 1, and by -2"] = cc.EvalAdd(cc.EvalRotate(c1, 1), cc.EvalRotate(c1, -2))
for name, ciphertext in results.items():
    plain = cc.Decrypt(ciphertext, keys.secretKey)
    plain.SetLength(8)
    print(name, "=", [round(value, 3) + 0.0 for value in plain.GetRealPackedValue()])
