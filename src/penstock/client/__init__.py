"""The key owner's side, without OpenFHE: key pairs, evaluation keys, encryption and decryption.

It needs the distribution `penstock-client`, which a machine that only evaluates or serves does without. Nothing that
evaluates or serves imports this room.
"""

from penstock.client.pair import KeyPair as KeyPair
from penstock.client.public import PublicKey as PublicKey
from penstock.client.service import Service as Service
