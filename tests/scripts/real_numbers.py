# ruff: noqa: F405
"""The calls of OpenFHE's example simple-real-numbers, at its parameters."""

from openfhe import *  # noqa: F403

p = CCParamsCKKSRNS()
p.SetMultiplicativeDepth(1)
p.SetScalingModSize(50)
p.SetBatchSize(8)
cc = GenCryptoContext(p)
for feature in (PKESchemeFeature.PKE, PKESchemeFeature.KEYSWITCH, PKESchemeFeature.LEVELEDSHE):
    cc.Enable(feature)
keys = cc.KeyGen()
cc.EvalMultKeyGen(keys.secretKey)
cc.EvalRotateKeyGen(keys.secretKey, [1, -2])

rising = cc.MakeCKKSPackedPlaintext([0.25, 0.5, 0.75, 1.0, 2.0, 3.0, 4.0, 5.0])
falling = cc.MakeCKKSPackedPlaintext([5.0, 4.0, 3.0, 2.0, 1.0, 0.75, 0.5, 0.25])
print(rising, falling)
a = cc.Encrypt(keys.publicKey, rising)
b = cc.Encrypt(keys.publicKey, falling)

total = cc.EvalAdd(a, b)
difference = cc.EvalSub(a, b)
fourfold = cc.EvalMult(a, 4)
product = cc.EvalMult(a, b)
left = cc.EvalRotate(a, 1)
right = cc.EvalRotate(a, -2)

print(cc.Decrypt(total, keys.secretKey))
for ciphertext in (a, fourfold, product, left, right):
    result = cc.Decrypt(ciphertext, keys.secretKey)
    result.SetLength(8)
    print(result.GetFormattedValues(8))
