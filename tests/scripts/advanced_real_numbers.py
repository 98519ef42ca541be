# ruff: noqa: F405
"""The calls of OpenFHE's example advanced-real-numbers, at its parameters: six contexts, and one with BV keys."""

from openfhe import *  # noqa: F403


def context(depth=5, **settings):
    p = CCParamsCKKSRNS()
    p.SetMultiplicativeDepth(depth)
    p.SetScalingModSize(50)
    p.SetBatchSize(8)
    for name, value in settings.items():
        getattr(p, "Set" + name)(value)
    cc = GenCryptoContext(p)
    for feature in (PKESchemeFeature.PKE, PKESchemeFeature.KEYSWITCH, PKESchemeFeature.LEVELEDSHE):
        cc.Enable(feature)
    return cc, cc.KeyGen()


def shown(cc, keys, ciphertext):
    result = cc.Decrypt(ciphertext, keys.secretKey)
    result.SetLength(8)
    print(result)


def automatic(technique):
    """x^18 + x^9 + 1."""
    cc, keys = context(ScalingTechnique=technique)
    cc.EvalMultKeyGen(keys.secretKey)
    x = cc.Encrypt(keys.publicKey, cc.MakeCKKSPackedPlaintext([1.0, 1.01, 1.02, 1.03, 1.04, 1.05, 1.06, 1.07]))
    x2 = cc.EvalMult(x, x)
    x4 = cc.EvalMult(x2, x2)
    x8 = cc.EvalMult(x4, x4)
    x16 = cc.EvalMult(x8, x8)
    x9 = cc.EvalMult(x8, x)
    x18 = cc.EvalMult(x16, x2)
    shown(cc, keys, cc.EvalAdd(cc.EvalAdd(x18, x9), 1.0))


def manual():
    """The same; the script rescales. The example leaves the scaling technique at its default."""
    cc, keys = context()
    cc.EvalMultKeyGen(keys.secretKey)
    x = cc.Encrypt(keys.publicKey, cc.MakeCKKSPackedPlaintext([1.0, 1.01, 1.02, 1.03, 1.04, 1.05, 1.06, 1.07]))
    x2 = cc.Rescale(cc.EvalMult(x, x))
    x4 = cc.Rescale(cc.EvalMult(x2, x2))
    x8 = cc.Rescale(cc.EvalMult(x4, x4))
    x16 = cc.Rescale(cc.EvalMult(x8, x8))
    x9 = cc.EvalMult(x8, x)
    x18 = cc.EvalMult(x16, x2)
    shown(cc, keys, cc.Rescale(cc.EvalAdd(cc.EvalAdd(x18, x9), 1.0)))


def rotations(digits):
    cc, keys = context(ScalingTechnique=ScalingTechnique.FLEXIBLEAUTO, NumLargeDigits=digits)
    cc.EvalRotateKeyGen(keys.secretKey, [1, -2])
    x = cc.Encrypt(keys.publicKey, cc.MakeCKKSPackedPlaintext([1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7]))
    shown(cc, keys, cc.EvalRotate(cc.EvalRotate(x, 1), -2))


def hoisted(**settings):
    cc, keys = context(**settings)
    cc.EvalRotateKeyGen(keys.secretKey, list(range(1, 8)))
    x = cc.Encrypt(keys.publicKey, cc.MakeCKKSPackedPlaintext([0, 0, 0, 0, 0, 0, 0, 1]))
    plain = x
    for step in range(1, 8):
        plain = plain + cc.EvalRotate(x, step)
    digits, order = cc.EvalFastRotationPrecompute(x), 2 * cc.GetRingDimension()
    fast = x
    for step in range(1, 8):
        fast = fast + cc.EvalFastRotation(x, step, order, digits)
    shown(cc, keys, plain)
    shown(cc, keys, fast)


automatic(ScalingTechnique.FLEXIBLEAUTO)
automatic(ScalingTechnique.FIXEDAUTO)
manual()
rotations(2)
rotations(3)
hoisted()
hoisted(
    depth=1,
    ScalingTechnique=ScalingTechnique.FLEXIBLEAUTO,
    KeySwitchTechnique=KeySwitchTechnique.BV,
    FirstModSize=60,
    DigitSize=3,
)
