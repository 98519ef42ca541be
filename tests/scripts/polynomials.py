# ruff: noqa: F405
"""The calls of OpenFHE's example polynomial-evaluation, at its parameters."""

from openfhe import *  # noqa: F403

p = CCParamsCKKSRNS()
p.SetMultiplicativeDepth(6)
p.SetScalingModSize(50)
cc = GenCryptoContext(p)
for feature in (PKESchemeFeature.PKE, PKESchemeFeature.KEYSWITCH, PKESchemeFeature.LEVELEDSHE):
    cc.Enable(feature)
cc.Enable(PKESchemeFeature.ADVANCEDSHE)
x = [complex(each, 0) for each in (0.5, 0.7, 0.9, 0.95, 0.93)]
short = [0.15, 0.75, 0, 1.25, 0, 0, 1, 0, 1, 2, 0, 1, 0, 0, 0, 0, 1]
steps = [1, 2, 3, 4, 5, -1, -2, -3, -4, -5]
long = steps + [each / 10 for each in steps] * 2
plaintext = cc.MakeCKKSPackedPlaintext(x)
keys = cc.KeyGen()
cc.EvalMultKeyGen(keys.secretKey)
ciphertext = cc.Encrypt(keys.publicKey, plaintext)
first = cc.EvalPoly(ciphertext, short)
second = cc.EvalPoly(ciphertext, long)
for found in (first, second):
    decrypted = cc.Decrypt(found, keys.secretKey)
    decrypted.SetLength(len(x))
    print(decrypted)
