"""Step 4: the encrypted database."""

from secret_keys import opened_owner
from steps import places

at = places()
owner = opened_owner(at.secret)
owner.encrypt_database(at.records(), None if at.count_only else at.payloads(), at.database)
