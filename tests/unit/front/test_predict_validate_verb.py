"""`penstock predict validate`: which results it reads, what it prints, and its exit codes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from penstock.base.runs.folder import RunFolder
from penstock.errors import PenstockError
from penstock.front.cli.main import main
from penstock.front.cli.verbs.predict import validate as validate_verb
from penstock.lab.fit.measurements import Measurement
from penstock.lab.measure.bench.results import FILE, table_of
from penstock.lab.measure.bench.spec import SuitePlan
from penstock.lab.prediction.importers import load
from penstock.lab.prediction.measuring import measure_quietly
from support.imagined_cpu import COLUMNS, ran, sweep


def rows_of(measurements: list[Measurement]) -> list[dict]:
    """Rows of a `bench run` that gave these measurements."""
    rows = []
    for number, m in enumerate(measurements):
        params = m.params
        rows.append(
            {
                "point": f"point-{number}", "suite": "imagined", "group": m.group, "item": m.item, "size": m.size,
                "kind": m.shape.kind if m.shape else None, "params": params.name, "ring_dim": params.ring_dim,
                "slots": params.slots, "depth": params.depth, "num_q": params.num_q, "num_p": params.num_p,
                "dnum": params.dnum, "parameters": json.dumps(params.to_dict()),
                "limbs": m.shape.limbs_in if m.shape else None, "threads": m.threads, "across": 1, "condition": "warm",
                "note": json.dumps({"server_s": m.seconds}), "run": 0, "calls": 1, "seconds_per_call": m.seconds,
                "total_s": m.seconds, "wall_s": m.seconds, "provenance": "measured",
            }
        )  # fmt: skip
    return rows


def store(path: Path, rows: list[dict], config: dict | None = None) -> Path:
    """A finished bench run with these rows."""
    with RunFolder.create(path, config or {"verb": "bench", "suite": "imagined"}) as run:
        pq.write_table(table_of(rows), path / FILE)
        run.append_rows("points", [{"quantity": "seconds", "value": 1.0, "unit": "s", "provenance": "measured"}])
        run.finish()
    return path


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    programs = [ran("inner-product", "ci", 1), ran("sign-evaluation", "ci", 1)]
    return store(
        tmp_path_factory.mktemp("results") / "elsewhere",
        rows_of([*sweep(rings=(11, 12, 13), depths=(6, 8, 12)), *programs]),
    )


def printed(capsys: pytest.CaptureFixture[str]) -> list[dict]:
    return json.loads(capsys.readouterr().out)


def test_json_has_a_row_for_each_model_protocol_and_application(results, capsys):
    assert main(["predict", "validate", str(results), "--format", "json", "-q"]) == 0
    rows = printed(capsys)
    assert all(set(row) == COLUMNS for row in rows)
    assert {row["model"] for row in rows} == {"penstock", "additive", "log-quadratic"}
    assert {row["protocol"] for row in rows} == {
        "unseen-application",
        "unseen-ring-dim",
        "unseen-depth",
        "unseen-operation",
    }
    found = {(row["model"], row["protocol"], row["application"]): row for row in rows}
    assert found["penstock", "unseen-application", "all"]["mean_abs_error"] < 0.01
    assert found["additive", "unseen-application", "inner-product"]["coverage90"] is None


def test_one_protocol_and_one_model_are_printed_alone_and_a_table_names_what_is_missing(results, capsys):
    arguments = ["predict", "validate", str(results), "--protocol", "unseen-depth", "--protocol", "unseen-threads"]
    assert main([*arguments, "--model", "log-quadratic"]) == 0
    output = capsys.readouterr()
    assert "unseen-depth: predicted / measured - 1" in output.out
    assert "log-quadratic" in output.out
    assert "additive" not in output.out
    said = " ".join(output.err.split())
    assert "unseen-threads: it needs" in said
    assert "penstock bench run --suite fit" in said


def test_the_newest_run_is_read_where_none_is_named(results, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store(tmp_path / "runs" / "20260101T000000-bench-fit", rows_of(sweep(rings=(11, 12), depths=(6,))))
    assert main(["predict", "validate", "--protocol", "unseen-ring-dim", "--model", "additive"]) == 0
    assert "runs/20260101T000000-bench-fit" in capsys.readouterr().err.replace("\n", "")


def test_without_results_the_exit_code_is_3_and_the_message_has_the_command_that_makes_them(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert main(["predict", "validate"]) == 3
    assert "penstock bench run --suite fit" in capsys.readouterr().err


def test_results_that_allow_no_protocol_exit_with_3(tmp_path, capsys):
    path = store(tmp_path / "few", rows_of(sweep(rings=(12,), depths=(8,))[:4]))
    assert main(["predict", "validate", str(path), "--protocol", "unseen-ring-dim"]) == 3
    assert "these results allow none of the protocols" in capsys.readouterr().err


def test_a_threshold_that_is_missed_exits_with_4_and_one_that_is_met_with_0(tmp_path, capsys):
    slow = [ran("inner-product", "ci", 1, factor=1.25)]  # so that the prediction is 20 % too low
    path = store(tmp_path / "slow", rows_of([*sweep(rings=(11, 12), depths=(6, 8)), *slow]))
    arguments = ["predict", "validate", str(path), "--protocol", "unseen-application", "-q", "--format", "json"]
    assert main([*arguments, "--fail-above", "25%"]) == 0
    assert main([*arguments, "--fail-above", "1%", "--fail-above", "unseen-application=0.25"]) == 0
    capsys.readouterr()
    assert main([*arguments, "--fail-above", "15%"]) == 4
    output = capsys.readouterr()
    assert re.search(r"unseen-application 2\d\.\d% \(limit 15\.0%\)", output.err)
    assert json.loads(output.out)
    assert main([*arguments, "--model", "additive", "--fail-above", "50%"]) == 4
    assert "was not scored" in capsys.readouterr().err


def test_a_limit_for_all_holds_what_the_results_allow_and_a_named_one_says_what_they_lack(results, capsys):
    arguments = ["predict", "validate", str(results), "-q", "--format", "json"]
    assert main([*arguments, "--fail-above", "50%"]) == 0  # no second number of threads, no other machine
    capsys.readouterr()
    assert main([*arguments, "--fail-above", "50%", "--fail-above", "unseen-machine=50%"]) == 4
    said = capsys.readouterr().err
    assert "unseen-machine was not scored (it needs another machine's results: name them with --other)" in said
    assert "unseen-threads" not in said
    both = ["--protocol", "unseen-depth", "--protocol", "unseen-threads", "--model", "penstock"]
    assert main([*arguments, *both, "--fail-above", "50%"]) == 4
    assert "unseen-threads was not scored (it needs" in capsys.readouterr().err
    assert main([*arguments, "--model", "additive", "--fail-above", "50%"]) == 4
    assert "no protocol was scored" in capsys.readouterr().err


def test_a_folder_for_plots_that_cannot_be_is_refused_before_anything_is_fitted(results, tmp_path, capsys, monkeypatch):
    def fitted(*_: object, **__: object) -> None:
        raise AssertionError("fitted first")

    monkeypatch.setattr("penstock.front.cli.verbs.predict.validate.validate", fitted)
    (tmp_path / "file").write_text("mine")
    assert main(["predict", "validate", str(results), "--figures", str(tmp_path / "file")]) == 2
    assert "is a file; name a folder" in capsys.readouterr().err
    assert main(["predict", "validate", str(results), "--figures", str(tmp_path / "file" / "in")]) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "not a folder" in said
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (["--fail-above", "none"], "write a share above zero"),
        (["--fail-above", "unseen-deep=5%"], "is not among the protocols"),
        (["--protocol", "unseen-deep"], "unseen-depth"),
        (["--model", "additiv"], "additive"),
        (["--measure"], "leave RESULTS and --data out"),
    ],
)
def test_what_cannot_be_asked_for_exits_with_2(results, capsys, option, said):
    assert main(["predict", "validate", str(results), *option]) == 2
    assert said in capsys.readouterr().err


def test_another_machines_results_are_rescaled_by_a_few_primitives(results, tmp_path, capsys):
    slower = [Measurement(**{**_fields(m), "seconds": 3 * m.seconds}) for m in sweep(rings=(11, 12), depths=(6, 8))]
    other = store(tmp_path / "other", rows_of(slower))
    arguments = ["predict", "validate", str(results), "--other", str(other), "--protocol", "unseen-machine"]
    assert main([*arguments, "--model", "penstock", "--format", "json", "-q"]) == 0
    row = printed(capsys)[0]
    assert row["application"] == "all"
    assert row["mean_abs_error"] < 0.02


def test_the_cpu_that_is_chosen_is_chosen_of_the_other_machines_results_too(results, monkeypatch):
    asked = []

    def load_all(paths, *, log, cpu=None):
        asked.append(cpu)
        return real(paths, log=log)

    real = validate_verb.load_all
    monkeypatch.setattr(validate_verb, "load_all", load_all)
    words = ["predict", "validate", str(results), "--other", str(results), "--cpu", "AMD", "-q", "--model", "additive"]
    for more in ([], ["--other-cpu", "Intel"]):
        assert main([*words, "--protocol", "unseen-application", *more]) == 0
    assert asked == ["AMD", "AMD", "AMD", "Intel"]


def _fields(m: Measurement) -> dict:
    return {name: getattr(m, name) for name in Measurement.__dataclass_fields__}


def test_plots_are_written_where_they_are_asked_for(results, tmp_path):
    few = ["--protocol", "unseen-depth", "--protocol", "unseen-application"]
    assert main(["predict", "validate", str(results), *few, "--figures", str(tmp_path / "figures"), "-q"]) == 0
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert names == {"predicted-measured.svg", "errors.svg", "coverage.svg"}


def test_the_time_of_a_program_is_that_of_the_servers_operations(tmp_path):
    row = rows_of([ran("inner-product", "ci", 1)])[0] | {"seconds_per_call": 2.0, "total_s": 2.0}
    (measurement,) = load(store(tmp_path / "a", [row | {"note": json.dumps({"server_s": 1.125})}]))
    assert measurement.seconds == 1.125
    older = store(tmp_path / "b", [row | {"note": json.dumps({"encode_s": 0.5})}])
    with pytest.raises(PenstockError, match="server_s"):
        load(older)  # nothing is left
    for number, note in enumerate(("[]", "{", json.dumps({"server_s": -1.0}))):
        with pytest.raises(PenstockError, match=r"not a JSON object|more than zero"):
            load(store(tmp_path / f"c{number}", [row | {"note": note}]))


# Measuring.


def measured_with(noises: list[float | None]):
    """Stands in for the bench: each run states the next noise."""
    left = list(noises)

    def measure(planned: SuitePlan, run: RunFolder) -> None:
        assert planned.points
        run.update(noise={"during_spread": left.pop(0)})
        run.append_rows("points", [])
        run.finish()

    return measure


def test_a_quiet_measurement_is_kept_at_once(tmp_path):
    told: list[str] = []
    path = measure_quietly(tmp_path, measure=measured_with([0.01, 9.0]), on_attempt=told.append)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    assert told == []


def test_a_noisy_measurement_is_repeated_at_most_three_times_and_the_quietest_kept(tmp_path):
    told: list[str] = []
    path = measure_quietly(tmp_path, measure=measured_with([0.4, 0.2, 0.3, 0.0]), on_attempt=told.append)
    assert RunFolder.open(path).record["noise"]["during_spread"] == 0.2
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    assert [text.split(";")[1].strip() for text in told] == [
        "measuring again",
        "measuring again",
        "the quietest is kept",
    ]


def test_a_measurement_becomes_quiet_on_the_second_attempt(tmp_path):
    path = measure_quietly(tmp_path, measure=measured_with([None, 0.02]))
    assert RunFolder.open(path).record["noise"]["during_spread"] == 0.02
