"""Step 10: the decrypted result."""

import sys

from secret_keys import opened_owner
from steps import places, write_json

at = places()
owner = opened_owner(at.secret)
layout = owner.layout(at.size.records, at.size.dim)
result = at.result.read_bytes()
if at.count_only:
    write_json(at.decrypted, {"count": owner.decrypt_count(result, layout)})
else:
    found = owner.decrypt(result, layout)
    if found.count > len(found.payloads):
        print(f"{found.count} matches, of which the result shows {len(found.payloads)}", file=sys.stderr)
    write_json(at.decrypted, {"count": found.count, "payloads": found.payloads.tolist()})
