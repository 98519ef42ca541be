"""Step 4: the encrypted database."""

from steps import places

from penstock.similarity.owner import Owner

at = places()
owner = Owner.load(at.secret)
owner.encrypt_database(at.records(), None if at.count_only else at.payloads(), at.database)
