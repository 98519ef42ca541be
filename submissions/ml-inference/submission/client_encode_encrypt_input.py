"""Step 6: the images, four in a ciphertext, half of each a seed."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from network import IMAGES, PIXELS, packed
from steps import PACKAGE, emptied, places

from penstock.program.package.file import open_package
from penstock.runtime.client import KeyPair

at = places()
pair = KeyPair.load(at.secret, open_package(PACKAGE).params, threads=1)
images = np.array(at.pixels.read_text().split(), dtype=np.float64).reshape(-1, PIXELS)
folder = emptied(at.uploaded)


def encrypt(first: int) -> None:
    """One ciphertext, from image `first` on."""
    content = pair.encrypt_seeded(packed(images[first : first + IMAGES]))
    (folder / f"{first:06}.ct").write_bytes(content)


with ThreadPoolExecutor() as pool:
    list(pool.map(encrypt, range(0, len(images), IMAGES)))
