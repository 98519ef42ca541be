"""The key owner's side of penstock. Use it through `penstock.runtime.client`, which checks parameters and folders."""

from penstock_client._client import (
    ClientError,
    Damaged,
    EvaluationKey,
    Other,
    Passphrase,
    PublicKey,
    Ring,
    SecretKey,
    __version__,
    expand,
    samples,
)

__all__ = [
    "ClientError",
    "Damaged",
    "EvaluationKey",
    "Other",
    "Passphrase",
    "PublicKey",
    "Ring",
    "SecretKey",
    "__version__",
    "expand",
    "samples",
]
