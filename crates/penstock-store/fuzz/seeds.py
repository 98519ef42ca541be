"""Write the fuzz targets' first inputs into fuzz/corpus/: small serialized keys, ciphertexts and segment headers."""

from __future__ import annotations

import struct
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
LIMBS_OF_Q = 3


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_seeds(Path(folder))


def write_seeds(samples: Path) -> None:
    subprocess.run([sys.executable, HERE.parent / "tests/openfhe_samples.py", samples], check=True)
    data = sorted(samples.glob("*.bin"))
    keys = {path.stem: path.read_bytes() for path in data if "ciphertext" not in path.stem}
    ciphertexts = {path.stem: path.read_bytes() for path in data if "ciphertext" in path.stem}
    for target, seeds in [
        # The target's first byte is the number of limbs of Q.
        ("import", {name: bytes([LIMBS_OF_Q]) + content for name, content in keys.items()}),
        ("ciphertext", ciphertexts),
        ("header", {"header": segment_header(samples / "relin.bin"), **formed_headers(samples / "relin.bin")}),
    ]:
        folder = HERE / "corpus" / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in seeds.items():
            (folder / name).write_bytes(content)
        print(f"{folder}: {len(seeds)} seeds")


def formed_headers(relin: Path) -> dict[str, bytes]:
    """The same header as one of version 2: of a seeded key, whose rows and so checksums are as many, and of a second
    pair. The target makes the checksum good."""
    whole = segment_header(relin)

    def with_fields(expansion: int, pair: int) -> bytes:
        fields = struct.pack("<II32sI", LIMBS_OF_Q, expansion, bytes(range(32)) if expansion else bytes(32), pair)
        return whole[:8] + struct.pack("<I", 2) + whole[12:200] + fields + whole[200 + len(fields) :]

    return {"seeded": with_fields(1, 1), "second-pair": with_fields(0, 2)}


def segment_header(relin: Path) -> bytes:
    """The header of a segment as the store writes it."""
    from penstock.runtime.keystore import KeyStore

    with tempfile.TemporaryDirectory() as folder:
        store = KeyStore(Path(folder))
        store.import_openfhe("alice", relin, num_q=LIMBS_OF_Q, key="relin")
        segment = next(Path(folder).rglob("*.pkey")).read_bytes()
    (length,) = struct.unpack_from("<I", segment, 12)
    return segment[:length]


if __name__ == "__main__":
    main()
