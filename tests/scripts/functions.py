# ruff: noqa: F405
"""The calls of OpenFHE's example function-evaluation, at its parameters: a logistic function, and a square root."""

import math

from openfhe import *  # noqa: F403


def context(scale_bits, depth):
    p = CCParamsCKKSRNS()
    p.SetSecurityLevel(SecurityLevel.HEStd_NotSet)
    p.SetRingDim(1 << 10)
    p.SetScalingModSize(scale_bits)
    p.SetFirstModSize(60)
    p.SetMultiplicativeDepth(depth)
    cc = GenCryptoContext(p)
    for feature in (PKESchemeFeature.PKE, PKESchemeFeature.KEYSWITCH, PKESchemeFeature.LEVELEDSHE):
        cc.Enable(feature)
    cc.Enable(PKESchemeFeature.ADVANCEDSHE)
    keys = cc.KeyGen()
    cc.EvalMultKeyGen(keys.secretKey)
    return cc, keys


def shown(cc, keys, ciphertext, length):
    decrypted = cc.Decrypt(ciphertext, keys.secretKey)
    decrypted.SetLength(length)
    print(decrypted.GetCKKSPackedValue())


def logistic():
    cc, keys = context(59, 6)
    x = [-4, -3, -2, -1, 0, 1, 2, 3, 4]
    ciphertext = cc.Encrypt(keys.publicKey, cc.MakeCKKSPackedPlaintext(x))
    shown(cc, keys, cc.EvalLogistic(ciphertext, -4, 4, 16), len(x))


def root():
    cc, keys = context(50, 7)
    x = [1, 2, 3, 4, 5, 6, 7, 8, 9]
    ciphertext = cc.Encrypt(keys.publicKey, cc.MakeCKKSPackedPlaintext(x))
    result = cc.EvalChebyshevFunction(math.sqrt, ciphertext, 0, 10, 50)
    shown(cc, keys, result, len(x))
    print(EvalChebyshevFunctionPtxt(lambda each: math.sqrt(each), x, 0, 10, 50))


logistic()
root()
