"""Step 8: the encrypted query."""

import numpy as np
from steps import fresh, places

from penstock.similarity.owner import Owner

at = places()
query = np.fromfile(at.data / "query.bin", dtype=np.float32)
fresh(at.query).write_bytes(Owner.load(at.secret).encrypt_query(query))
