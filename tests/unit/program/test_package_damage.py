"""Packages that are damaged, hostile, or written by a process that dies: a `PackageError`, or the file of before."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import struct
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock._engine import PackageColumns, PackageWriter
from penstock.program.package.content import PackageError
from penstock.program.package.file import check_package, open_package, package_info, write_package
from support.small_disk import needs_mounts, on_a_small_disk
from support.small_packages import PARAMS, every_verb

RECORD = PARAMS.to_dict()


def sealed(content: bytearray) -> bytes:
    """The file with a digest that agrees with its tables."""
    footer = len(content) - 64
    offset, length = struct.unpack_from("<QQ", content, footer)
    content[footer + 16 : footer + 48] = hashlib.sha256(content[offset : offset + length]).digest()
    return bytes(content)


def test_damaged_files_are_refused_with_a_package_error(tmp_path: Path) -> None:
    path, draw = tmp_path / "a.pkg", random.Random(26)
    write_package(every_verb(), path)
    whole = path.read_bytes()
    (begin,) = struct.unpack_from("<Q", whole, len(whole) - 64)
    refused = opened = 0
    for case in range(1200):
        content = bytearray(whole)
        for _ in range(draw.randint(1, 3)):
            at = draw.randrange(len(content) - 64) if case % 3 == 0 else draw.randrange(begin, len(content) - 64)
            content[at] = draw.choice([0, 1, 2, 127, 128, 255, content[at] ^ 1 << draw.randrange(8), *b'"{}[],:-0e'])
        path.write_bytes(sealed(content) if case % 3 else content)
        try:
            check_package(path)
            package_info(path)
            opened += 1
        except PackageError as error:
            refused += str(path) in str(error)
    assert refused + opened == 1200
    assert refused > 400
    assert opened > 50


def written(path: Path, params: str, provenance: str = "{}", **more: int) -> None:
    """A package without instructions whose JSON is this."""
    whole = {"ring_dim": 32768, "slots": 16384, "num_q": 14} | more
    columns = {
        "verbs": np.uint8, "arguments": np.int32, "limbs": np.uint16, "degrees": np.uint8, "scopes": np.uint32,
        "many": np.uint32, "operands": np.uint32, "constants": np.uint32, "numbers": np.complex128,
    }  # fmt: skip
    given: dict[str, Any] = {name: np.zeros(0, dtype) for name, dtype in columns.items()}
    PackageWriter(path).finish(
        name="empty", description="", params=params, provenance=provenance, columns=PackageColumns(**given),
        scopes=[("", 0)], series=[], inputs=[], outputs=[], keys=[], **whole,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ("", "the parameter set is not JSON"),
        ("[" * 10**6, "the parameter set is not JSON"),
        ("1" * 10**6, "the parameter set is not JSON"),
        ("[]", "is not an object of JSON"),
        ("null", "is not an object of JSON"),
        ("{}", "malformed"),
        (json.dumps(RECORD | {"ring_dim": -8}), "malformed"),
        (json.dumps(RECORD | {"ring_dim": 1e400}), "malformed"),
        (json.dumps(RECORD | {"q_bits": "60"}), "malformed"),
        (json.dumps(RECORD | {"q_bits": [[60]]}), "malformed"),
        (json.dumps(RECORD | {"scaling": []}), "malformed"),
        (json.dumps(RECORD | {"bootstrap": 3}), "malformed"),
        (json.dumps(RECORD | {"ring_dim": 65536}), "has N = 65536, 16384 slots and 14 limbs, the tables have 32768"),
        (json.dumps(RECORD | {"q_bits": [60]}), "16384 slots and 1 limbs"),
    ],
)
def test_a_parameter_set_that_is_none_is_refused(tmp_path: Path, params: str, says: str) -> None:
    path = tmp_path / "a.pkg"
    written(path, params)
    for read in (open_package, package_info):
        with pytest.raises(PackageError, match=says):
            read(path)


@pytest.mark.parametrize(
    ("provenance", "says"), [("[]", "no.* object"), ('{"a": 1}', "'a' is not a text"), ("{'a'}", "not JSON")]
)
def test_a_provenance_that_is_none_is_refused(tmp_path: Path, provenance: str, says: str) -> None:
    written(tmp_path / "a.pkg", json.dumps(RECORD), provenance)
    with pytest.raises(PackageError, match=says):
        open_package(tmp_path / "a.pkg")


def test_reading_does_not_run_what_a_file_says(tmp_path: Path) -> None:
    import pickle

    class Bomb:
        def __reduce__(self) -> tuple[Any, tuple[str]]:
            return os.mkdir, (str(tmp_path / "made"),)

    path = tmp_path / "a.pkg"
    path.write_bytes(pickle.dumps(Bomb()) + bytes(1000))
    with pytest.raises(PackageError, match="does not begin"):
        open_package(path)
    written(path, json.dumps(RECORD), json.dumps({"made": pickle.dumps(Bomb()).hex()}))
    open_package(path)
    assert not (tmp_path / "made").exists()


KILLED = """
    import sys
    from pathlib import Path
    import numpy as np
    from dataclasses import replace
    from penstock.program.package.file import PackageFile, open_package

    path = Path(sys.argv[1])
    package = open_package(path)
    constants = [package.constants.values(number) for number in range(len(package.constants))]
    print("ready", flush=True)
    turn = 0
    while True:
        turn += 1
        with PackageFile(path, force=True) as file:
            for number in range(len(package.constants)):
                file.add(constants[number])
            for number in range(40):
                file.add(np.sin(np.arange(1000.0) + turn + number))
            file.finish(replace(package, constants=file, description=f"turn {turn}"))
"""


def test_a_process_that_is_killed_leaves_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    path, draw = tmp_path / "a.pkg", random.Random(9)
    write_package(every_verb(), path)
    replaced = 0
    for _ in range(8):
        before = path.read_bytes()
        command = [sys.executable, "-c", textwrap.dedent(KILLED), str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            time.sleep(draw.uniform(0, 0.15))
            process.send_signal(signal.SIGKILL)
        package = check_package(path)
        assert package.instructions == every_verb().instructions
        replaced += path.read_bytes() != before
    assert replaced > 0
    write_package(every_verb(), path, force=True)
    leftovers = [each.name for each in tmp_path.iterdir() if each != path]
    assert len(leftovers) <= 8
    done = subprocess.run(
        [sys.executable, "-c", "import sys; from pathlib import Path; "
         "from penstock.base.system.files import write_atomic; write_atomic(Path(sys.argv[1]), b'')", str(tmp_path /
         "other")], check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.pkg", "other"], "the next writer removes the rest"


@needs_mounts
def test_a_full_disk_is_said_and_leaves_the_old_file(tmp_path: Path) -> None:
    done = on_a_small_disk(
        tmp_path,
        """
        import sys
        from pathlib import Path
        import numpy as np
        from penstock.program.package.content import Package
        from penstock.program.package.file import PackageFile, check_package
        from penstock.scheme.params import catalogue
        from penstock.base.system.files import FileError
        folder = Path(sys.argv[1])
        empty = Package(name="empty", params=catalogue.get("openfhe-demo"), inputs=(), outputs=(), instructions=[])
        for path, force in ((folder / "old.pkg", False), (folder / "old.pkg", True), (folder / "new.pkg", False)):
            try:
                with PackageFile(path, force) as file:
                    for number in range(2 if not force and path.name == "old.pkg" else 400):
                        file.add(np.sin(np.arange(1000.0) + number))
                    file.finish(empty)
            except FileError as error:
                print(error)
        print(len(check_package(folder / "old.pkg").constants), sorted(each.name for each in folder.iterdir()))
    """,
    )
    assert done.returncode == 0, done.stderr
    *refusals, last = done.stdout.splitlines()
    assert len(refusals) == 2
    assert all("the disk is full" in each and ".tmp" not in each for each in refusals), refusals
    assert last == "2 ['old.pkg']"
