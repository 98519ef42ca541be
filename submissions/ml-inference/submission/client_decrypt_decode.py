"""Step 8: the decrypted scores."""

import numpy as np
from network import scores
from steps import PACKAGE, ciphertexts, places

from penstock.program.package.file import open_package
from penstock.runtime.client import KeyPair

at = places()
pair = KeyPair.load(at.secret, open_package(PACKAGE).params, threads=1)
found = [scores(pair.decrypt(path.read_bytes(), result_for="owner")) for path in ciphertexts(at.downloaded)]
np.save(at.scores, np.concatenate(found)[: at.images])
