"""Tables of run folders: one of another run, of other columns, or that was changed is named, and never shown."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.base.runs import record
from penstock.base.runs.folder import RunFolder
from penstock.base.runs.record import DamagedRun
from penstock.base.runs.tables import RESULTS_SCHEMA, signed
from penstock.base.system.tables import parquet
from penstock.errors import PenstockError
from penstock.front.cli.main import main
from penstock.front.explorer.library import Library
from penstock.lab.measure.bench.results import BENCH_SCHEMA, load_results, read_part, table_of
from penstock.lab.prediction.importers import load
from penstock.lab.sweeps.play import SCHEMA
from penstock.lab.sweeps.store import DamagedResults, read_results
from penstock_studies.cryptoracle.figures import load_events
from support.bench_rows import folder_of, points_of, rows_of

CONFIG = {"workload": "inner-product", "params": "toy-insecure", "seed": 3, "threads": 1}
Exchange = Callable[[Path, Path], None]


def run_of(path: Path, value: float = 1.5, *, finished: bool = True) -> Path:
    row = {"quantity": "cycles_per_call", "value": value, "unit": "1", "provenance": "measured"}
    with RunFolder.create(path, CONFIG) as run:
        run.append_rows("measured", [row])
        if finished:
            run.finish()
    return path


def written_before(path: Path) -> Path:
    """The folder as a version without checksums left it."""
    text = json.loads((path / "run.json").read_text())
    text.pop("id")
    text.pop("artifacts", None)
    (path / "run.json").write_text(json.dumps(text))
    return path


def of_another_run(mine: Path, other: Path) -> None:
    shutil.copy(other, mine)


def of_other_columns(mine: Path, other: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), mine)


def of_other_types(mine: Path, other: Path) -> None:
    table = pq.read_table(mine)
    texts = [pa.array(map(str, column.to_pylist())) for column in table.columns]
    pq.write_table(pa.table(texts, names=table.column_names).replace_schema_metadata(table.schema.metadata), mine)


def of_many_rows(mine: Path, other: Path) -> None:
    table = pq.read_table(mine)
    pq.write_table(table.take([0] * 100), mine)


def of_text(mine: Path, other: Path) -> None:
    mine.write_text("no Parquet")


EXCHANGES = [of_another_run, of_other_columns, of_other_types, of_many_rows, of_text]


@pytest.fixture
def few_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(parquet.CELLS_VARIABLE, "1000")


@pytest.mark.parametrize("exchange", EXCHANGES)
@pytest.mark.usefixtures("few_cells")
def test_an_exchanged_stage_is_left_out_with_a_warning(tmp_path: Path, exchange: Exchange) -> None:
    mine, other = run_of(tmp_path / "mine"), run_of(tmp_path / "other", 7.0)
    stage = Path("stages/measured.parquet")
    exchange(mine / stage, other / stage)
    run = RunFolder.open(mine)
    assert run.stage_rows("measured") == []
    assert "stages/measured.parquet is damaged" in run.warnings[0]["what"]
    assert not run.results().num_rows


def test_a_stage_of_the_same_run_under_another_name_is_noticed(tmp_path: Path) -> None:
    mine = run_of(tmp_path / "mine")
    shutil.copy(mine / "stages" / "measured.parquet", mine / "stages" / "fit.parquet")
    run = RunFolder.open(mine)
    assert run.stages() == ["measured"]
    assert "it is stage 'measured'" in run.warnings[0]["what"]


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_exchanged_results_are_named_wherever_they_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], exchange: Exchange
) -> None:
    mine, other = run_of(tmp_path / "mine"), run_of(tmp_path / "other", 7.0)
    exchange(mine / "results.parquet", other / "results.parquet")
    problem = r"mine/results\.parquet is not the file that the run wrote: .*delete it and run the same command again"
    for read in (
        lambda: RunFolder.open_or_resume(mine, CONFIG),
        lambda: RunFolder.open(mine).check_tables(),
        lambda: load_events(mine),
        lambda: Library(runs=tmp_path).open_run("mine"),
    ):
        with pytest.raises(DamagedRun, match=problem):
            read()
    for command in (["report", str(mine)], ["report", str(other), str(mine), "-o", str(tmp_path / "c.html")]):
        assert main(command) == 1
        assert "mine/results.parquet is not the file" in " ".join(capsys.readouterr().err.split())
    (mine / "results.parquet").unlink()
    with RunFolder.open_or_resume(mine, CONFIG) as run:
        run.finish()
    assert load_events(mine)[0]["value"] == 1.5


def test_results_of_an_unfinished_run_are_checked_too(tmp_path: Path) -> None:
    mine = run_of(tmp_path / "mine", finished=False)
    with RunFolder.open_or_resume(mine, CONFIG) as run:
        run.write_results()
    of_many_rows(mine / "results.parquet", mine)
    with pytest.raises(DamagedRun, match=r"results\.parquet is not the file"):
        RunFolder.open(mine).check_tables()
    with RunFolder.open_or_resume(mine, CONFIG) as run:
        run.finish()
    RunFolder.open(mine).check_tables()


def test_a_run_that_was_made_before_is_read_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new_record = record.new_record
    monkeypatch.setattr(
        "penstock.base.runs.folder.new_record",
        lambda config: {k: v for k, v in new_record(config).items() if k != "id"},
    )
    mine = run_of(tmp_path / "mine", finished=False)
    monkeypatch.undo()
    assert RunFolder.open(mine).stage_rows("measured")[0]["value"] == 1.5
    with RunFolder.open_or_resume(mine, CONFIG) as run:
        run.append_rows("fit", [{"quantity": "fit_error", "value": 0.1, "unit": "1", "provenance": "predicted"}])
        run.finish()
    assert RunFolder.open(mine).stages() == ["measured", "fit"]
    text = json.loads((mine / "run.json").read_text())
    text.pop("artifacts")
    (mine / "run.json").write_text(json.dumps(text))
    assert [row["value"] for row in load_events(mine)] == [1.5]


# Benchmarks.


def bench(path: Path, seconds: float = 1e-3) -> Path:
    return folder_of(path, rows_of(points_of()[:2], lambda point, run: seconds))


def parts(path: Path, seconds: float = 1e-3) -> Path:
    """An unfinished run with one part."""
    with RunFolder.create(path, {"verb": "bench"}) as run:
        (path / "bench").mkdir()
        table = table_of(rows_of(points_of()[:1], lambda point, run: seconds))
        pq.write_table(signed(table, run.id), path / "bench" / "one.parquet")
    return path


def test_exchanged_timings_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine, other = bench(tmp_path / "mine"), bench(tmp_path / "other", 2e-3)
    assert load_results(mine).num_rows == load_results(other).num_rows == 6
    of_another_run(mine / "bench.parquet", other / "bench.parquet")
    problem = r"mine/bench\.parquet is not the file that the run wrote: .*delete it and run the same command again"
    for path in (mine, mine / "bench.parquet"):
        with pytest.raises(DamagedRun, match=problem):
            load_results(path)
        with pytest.raises(DamagedRun, match=problem):
            load(path)
    assert main(["bench", "compare", str(other), str(mine)]) == 1
    assert "mine/bench.parquet is not the file" in " ".join(capsys.readouterr().err.split())
    shutil.copy(mine / "bench.parquet", tmp_path / "copied.parquet")
    assert load_results(tmp_path / "copied.parquet").num_rows == 6


def test_exchanged_parts_are_named(tmp_path: Path) -> None:
    mine, other = parts(tmp_path / "mine"), parts(tmp_path / "other", 2e-3)
    assert load_results(mine).num_rows == 3
    part = Path("bench/one.parquet")
    of_another_run(mine / part, other / part)
    with pytest.raises(PenstockError, match=r"one\.parquet is not the file .*: it is a table of another run; m"):
        load_results(mine)
    of_many_rows(other / part, mine)
    with pytest.raises(PenstockError, match=r"one\.parquet is not .*: its checksum does not match; measure again"):
        load_results(other)
    # A run of a version without checksums wrote no identity.
    pq.write_table(table_of(rows_of(points_of()[:1])), mine / part)
    with pytest.raises(PenstockError, match="it is a table of another run"):
        read_part(mine / part, "0123456789abcdef")
    assert load_results(written_before(mine)).num_rows == 3


@pytest.mark.usefixtures("few_cells")
def test_timings_of_many_rows_or_of_another_format_are_named(tmp_path: Path) -> None:
    path = tmp_path / "bench.parquet"
    table = table_of(rows_of(points_of()[:2]))
    pq.write_table(table.take([0] * 30), path)
    with pytest.raises(PenstockError, match=r"bench\.parquet has 1,\d+ values; at most 1,000 are read"):
        load_results(path)
    pq.write_table(table.set_column(0, "point", pa.array([1] * 6)), path)
    with pytest.raises(PenstockError, match=r"bench\.parquet is not a table of .*: column 'point' has type"):
        load_results(path)
    pq.write_table(table.replace_schema_metadata({b"penstock_bench_schema": b"x"}), path)
    with pytest.raises(PenstockError, match=r"bench\.parquet has benchmark results of format x"):
        load_results(path)
    of_text(path, path)
    with pytest.raises(PenstockError, match=r"bench\.parquet is truncated, corrupt or no Parquet file .*measure again"):
        load_results(path)


# Sweeps.


def sweep(path: Path, table: pa.Table | None = None) -> Path:
    with RunFolder.create(path, {"kind": "sweep"}):
        pq.write_table(SCHEMA.empty_table() if table is None else table, path / "results.parquet")
    return path


@pytest.mark.parametrize("content", ["", "[]", "[" * 3000, '{"sha256": 5}', "\xff"])
def test_a_damaged_end_of_a_sweep_is_named(tmp_path: Path, content: str) -> None:
    path = sweep(tmp_path / "sweep")
    (path / ".complete").write_text(content, encoding="latin-1")
    with pytest.raises((DamagedRun, DamagedResults), match=r"sweep/(\.complete|results\.parquet).*run the same"):
        read_results(path)


def test_results_of_a_sweep_have_its_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = sweep(tmp_path / "sweep", pa.table({"a": [1]}))
    with pytest.raises(DamagedResults, match=r"results\.parquet is not a table of sweep results: it has no column"):
        read_results(path)
    rows = pa.table([pa.array([0] * 1000).cast(field.type) for field in SCHEMA], schema=SCHEMA)
    pq.write_table(rows, path / "results.parquet")
    monkeypatch.setenv(parquet.CELLS_VARIABLE, "1000")
    with pytest.raises(DamagedResults, match=r"results\.parquet has [\d,]+ values; at most 1,000 are read"):
        read_results(path)


def test_columns_are_those_of_the_format() -> None:
    assert signed(RESULTS_SCHEMA.empty_table(), "a").schema.equals(RESULTS_SCHEMA)
    assert signed(BENCH_SCHEMA.empty_table(), None).schema.metadata.keys() > BENCH_SCHEMA.metadata.keys()
