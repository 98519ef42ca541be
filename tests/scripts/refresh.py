# ruff: noqa: F405
"""The calls of OpenFHE's example simple-ckks-bootstrapping, at its parameters."""

from openfhe import *  # noqa: F403

p = CCParamsCKKSRNS()
secret, level_budget = SecretKeyDist.UNIFORM_TERNARY, [4, 4]
p.SetSecretKeyDist(secret)
p.SetSecurityLevel(SecurityLevel.HEStd_NotSet)
p.SetRingDim(1 << 12)
p.SetScalingModSize(59)
p.SetScalingTechnique(ScalingTechnique.FLEXIBLEAUTO)
p.SetFirstModSize(60)
depth = 10 + CryptoContext.GetBootstrapDepth(level_budget, secret)
p.SetMultiplicativeDepth(depth)
cc = GenCryptoContext(p)
for feature in (PKESchemeFeature.PKE, PKESchemeFeature.KEYSWITCH, PKESchemeFeature.LEVELEDSHE):
    cc.Enable(feature)
cc.Enable(PKESchemeFeature.ADVANCEDSHE)
cc.Enable(PKESchemeFeature.FHE)
cc.EvalBootstrapSetup(level_budget)
keys = cc.KeyGen()
cc.EvalMultKeyGen(keys.secretKey)
cc.EvalBootstrapKeyGen(keys.secretKey, cc.GetRingDimension() // 2)
x = [0.25, 0.5, 0.75, 1.0, 2.0, 3.0, 4.0, 5.0]
plaintext = cc.MakeCKKSPackedPlaintext(x, 1, depth - 1)
plaintext.SetLength(len(x))
exhausted = cc.Encrypt(keys.publicKey, plaintext)
print(depth - exhausted.GetLevel())
refreshed = cc.EvalBootstrap(exhausted)
print(depth - refreshed.GetLevel() - (refreshed.GetNoiseScaleDeg() - 1))
result = cc.Decrypt(refreshed, keys.secretKey)
result.SetLength(len(x))
print(result)
