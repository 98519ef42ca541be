"""Some damaged files through the command line; `make faults` reads 10,000."""

from __future__ import annotations

from pathlib import Path

from faults.files import bench

FILES = 40


def test_damaged_files_end_in_the_right_answer_or_in_words(tmp_path: Path) -> None:
    results = bench(tmp_path, FILES, seed=0, jobs=1, openfhe=False)
    assert len(results) == FILES
    faulty = [str(each) for each in results if each.faults]
    assert not faulty, "\n".join(faulty)
    assert {"refused", "the same answer"} <= {each.ended for each in results}
