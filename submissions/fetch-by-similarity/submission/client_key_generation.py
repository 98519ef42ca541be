"""Step 3: the secret keys, and the evaluation keys of a search."""

from steps import places

from penstock.keystore import KeyStore
from penstock.similarity.owner import Owner

at = places()
owner = Owner.generate()
owner.save(at.secret)
owner.make_keys(owner.layout(at.size.records, at.size.dim), KeyStore(at.keys), count_only=at.count_only)
