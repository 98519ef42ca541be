"""Step 3: the secret keys, and the evaluation keys of a search."""

from secret_keys import made_owner
from steps import places

from penstock.runtime.keystore import KeyStore

at = places()
owner = made_owner(at.secret)
owner.make_keys(owner.layout(at.size.records, at.size.dim), KeyStore(at.keys), count_only=at.count_only)
