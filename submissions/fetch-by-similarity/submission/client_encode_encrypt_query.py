"""Step 8: the encrypted query."""

import numpy as np
from secret_keys import opened_owner
from steps import fresh, places

at = places()
query = np.fromfile(at.data / "query.bin", dtype=np.float32)
fresh(at.query).write_bytes(opened_owner(at.secret).encrypt_query(query))
