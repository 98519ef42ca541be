"""Key pairs with a uniform secret for OpenFHE contexts that raise the modulus under an ephemeral one.

OpenFHE evaluates with such pairs in a context of `SPARSE_ENCAPSULATED`, and makes their evaluation keys. Its key
generation in that context draws a sparse secret, so penstock's client makes the pair, in OpenFHE's bytes.
"""

from __future__ import annotations

from penstock.base.system.temporary import temporary_folder
from penstock.errors import CapabilityMissing
from penstock.program.openfhe.key_pair import loaded, prove, read_files
from penstock.program.openfhe.types import CryptoContext, Key
from penstock.runtime.client.pair import KeyPair
from penstock.scheme.params.ckks import CkksParameters


def uniform_pair(params: CkksParameters, context: CryptoContext) -> tuple[Key, Key]:
    """The public and the secret key of a new pair, for the library's `context` of `params`.

    Its files are in a folder of this process's user alone until this returns.
    Raises: CapabilityMissing: penstock's client is not installed.
    """
    with temporary_folder("penstock-making-") as folder:
        try:
            made = KeyPair.generate(params)
        except CapabilityMissing as error:
            raise CapabilityMissing(
                f"set '{params.name}': OpenFHE's key generation has no name for secret '{params.secret}'. Penstock's "
                f"client makes such pairs for it, and is missing ({error}). Install it, or take a set whose secret is "
                "'sparse-encapsulated'"
            ) from error
        place = folder / "pair"
        made.to_openfhe(place)
        public, secret = loaded(place, read_files(place))
        prove(place, context, public, secret)
        return public, secret
