"""The front hall, `import penstock as ps`: its functions, their results, and what they refuse."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import subprocess
import sys
from collections.abc import Callable
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock.front.cli.main import main
from penstock.front.hall.result import Result
from penstock.scheme.machines.written import write_machine

FUNCTIONS = sorted(set(ps.__all__) - {"PenstockError", "__version__"})
WITHOUT_PICTURE = {"catalogue"}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    """A result of each function that gives one."""
    program = "inner-product"
    return {
        "trace": ps.trace(program, "sharp"),
        "simulate": ps.simulate(program, "sharp", ["hbm", "pcie5"], params="sharp", cache=["1 GiB", "on-chip"]),
        "predict": ps.predict(program, "sharp", params="sharp"),
        "what_if": ps.what_if(program, ["sharp", "ark"], params="sharp", dnum=[3, 5]),
        "precision": ps.precision(program, size="ci", scale_bits=[35, 40], draws=1),
        "suggest": ps.suggest(program, "sharp", params="sharp", ring_dims=[2**16]),
        "sizes": ps.sizes("openfhe-demo", rotations=[1, 2]),
        "catalogue": ps.catalogue("machines"),
        "run": ps.run(program, reading="clear", size="ci"),
        "sweep": ps.sweep(
            {"workload": program, "machine": "sharp", "params": "sharp", "cache": ["1 GiB", "4 GiB"], "tier": "pcie5"},
            output=tmp_path_factory.mktemp("sweep") / "run",
        ),
    }


def test_dir_shows_the_functions_and_nothing_else_is_public() -> None:
    assert set(dir(ps)) == set(ps.__all__)
    assert 10 <= len(FUNCTIONS) <= 17
    with pytest.raises(AttributeError, match="has no attribute 'simulat'"):
        _ = ps.simulat  # type: ignore[attr-defined]


def test_no_module_takes_the_place_of_a_function() -> None:
    for found in pkgutil.walk_packages(ps.__path__, "penstock."):
        # A worker starts by its module's name, and runs as it is imported.
        if not found.name.endswith(("client_worker", "__main__")):
            importlib.import_module(found.name)
    for name in FUNCTIONS:
        assert inspect.isfunction(getattr(ps, name)), name


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_says_what_it_takes_gives_and_refuses(name: str) -> None:
    function = getattr(ps, name)
    said = inspect.getdoc(function) or ""
    assert "Raises:" in said
    assert said.splitlines()[0].endswith(".")
    signature = inspect.signature(function, eval_str=False)
    assert signature.return_annotation is not inspect.Signature.empty
    for parameter in signature.parameters.values():
        assert parameter.annotation is not inspect.Parameter.empty, parameter


def test_import_is_quick_because_it_imports_nothing_large() -> None:
    code = "import sys, penstock; print([m for m in ('numpy', 'pyarrow', 'click', 'pydantic') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_result_is_rows_with_units_in_their_names(results: dict[str, Result]) -> None:
    for name, result in results.items():
        assert isinstance(result, Result), name
        assert result.to_dicts() == list(result), name
        assert result.provenance in ("measured", "predicted", "simulated", "published"), name
        table = result.to_arrow()
        assert isinstance(table, pa.Table), name
        if name != "trace":  # its rows are counts, its table has every operation
            assert table.to_pylist() == result.to_dicts(), name


def test_every_result_shows_itself_in_a_notebook_and_at_a_prompt(results: dict[str, Result]) -> None:
    for name, result in results.items():
        page = result._repr_html_()
        assert result.title in repr(result), name
        assert page.count("<tr>") == min(len(result), 40) + 1, name
        assert "<script" not in page, name


def test_a_name_of_a_file_is_no_markup() -> None:
    class Hostile(Result):
        pass

    page = Hostile(rows=({"name": "<img src=x onerror=alert(1)>"},), title="<b>", provenance="measured")._repr_html_()
    assert "<img" not in page
    assert "&lt;b&gt;" in page


def test_every_result_is_a_data_frame(results: dict[str, Result]) -> None:
    pandas = pytest.importorskip("pandas")
    for name, result in results.items():
        frame = result.to_pandas()
        assert isinstance(frame, pandas.DataFrame), name
        assert list(frame.columns) == result.to_arrow().column_names, name
    frame = results["simulate"].to_pandas()
    assert frame.pivot(index="cache_bytes", columns="tier", values="slowdown").shape == (2, 2)
    assert str(frame["total_s"].dtype) == "float64"


def test_every_result_with_numbers_has_a_picture(results: dict[str, Result]) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    matplotlib.rcdefaults()  # figures of studies, drawn by another test, have a style of their own
    for name, result in results.items():
        if name in WITHOUT_PICTURE or not len(result):
            with pytest.raises(ps.PenstockError, match="nothing to draw"):
                result.plot()
            continue
        axes = result.plot()
        assert axes.get_title() == f"{result.title} ({result.provenance})", name
        assert axes.patches or axes.lines, name
        assert axes.get_xlabel(), name
        pyplot.close(axes.figure)
    bars = results["simulate"].plot()
    assert len(bars.get_legend().get_texts()) == 2, "a colour for each cache"
    heights = sorted(patch.get_height() for patch in bars.patches)
    assert heights == sorted(row["slowdown"] for row in results["simulate"])
    pyplot.close(bars.figure)
    with pytest.raises(ps.PenstockError, match="unknown column 'slow': did you mean 'slowdown'"):
        results["simulate"].plot("slow")


def test_a_missing_library_is_named_with_how_to_get_it(
    results: dict[str, Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, call in (("pandas", results["simulate"].to_pandas), ("matplotlib", results["simulate"].plot)):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(ps.PenstockError, match=rf"need {module}: pip install 'penstock\[notebook\]'"):
            call()


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert main([*words, "--format", "json"]) == 0
    return json.loads(capsys.readouterr().out)


SIMULATED = (
    (
        ["--tier", "hbm", "--tier", "3.5 GB/s", "--cache", "on-chip", "--policy", "lru", "--policy", "belady"],
        {"tiers": ["hbm", "3.5 GB/s"], "cache": "on-chip", "policy": ["lru", "belady"]},
    ),
    (["--mode", "overlap", "--prefetch", "next-2"], {"mode": "overlap", "prefetch": "next-2"}),
    (["--hit-ratio", "0.5", "--classes", "keys,plaintexts"], {"hit_ratio": 0.5, "classes": ["keys", "plaintexts"]}),
    (
        ["--tier", "pcie5", "--hosts", "1,2", "--network", "ethernet-400"],
        {"tiers": "pcie5", "hosts": [1, 2], "network": "ethernet-400"},
    ),
    (
        ["--levels", "on-chip,hbm:2 GB,nvme-gen5", "--with", "inner-product", "--pin", "keys=hbm"],
        {"levels": "on-chip,hbm:2 GB,nvme-gen5", "beside": "inner-product", "pin": "keys=hbm"},
    ),
)


@pytest.mark.parametrize(("options", "arguments"), SIMULATED, ids=lambda each: str(each)[:40])
def test_simulate_gives_the_rows_of_the_verb(
    capsys: pytest.CaptureFixture[str], options: list[str], arguments: dict[str, Any]
) -> None:
    rows = printed(capsys, "simulate", "inner-product", "--params", "sharp", "--machine", "sharp", *options)
    found = ps.simulate("inner-product", "sharp", params="sharp", **arguments)
    assert {str(each) for row in rows for each in row.pop("assumptions")} == {str(each) for each in found.assumed}
    assert json.loads(json.dumps(found.to_dicts())) == rows


def test_predict_gives_the_numbers_of_the_verb(capsys: pytest.CaptureFixture[str]) -> None:
    said = printed(capsys, "predict", "run", "inner-product", "--params", "sharp", "--machine", "sharp")
    found = ps.predict("inner-product", "sharp", params="sharp")
    assert (found.seconds, found.joules, found.peak_bytes, found.key_bytes, found.num_operations) == tuple(
        said[name] for name in ("predicted_s", "predicted_j", "peak_bytes", "key_bytes", "num_operations")
    )
    assert sum(row["predicted_s"] for row in found) == pytest.approx(found.seconds)
    assert list(found.warnings) == said["warnings"]


def test_sizes_gives_the_numbers_of_the_verb(capsys: pytest.CaptureFixture[str]) -> None:
    said = printed(capsys, "params", "size", "openfhe-demo", "--workload", "logistic-regression")
    found = ps.sizes("openfhe-demo", program="logistic-regression")
    assert (found.total_key_bytes, found.num_keys) == (said["total_key_bytes"], said["num_keys"])


def test_a_trace_a_file_and_a_name_stand_for_the_same_program(tmp_path: Path) -> None:
    made = ps.trace("inner-product", "sharp")
    path = made.save(tmp_path / "inner.parquet")
    with pytest.raises(ps.PenstockError, match="exists"):
        made.save(path)
    by_name = ps.simulate("inner-product", "sharp", "pcie5", params="sharp").to_dicts()
    for program in (made, made.trace, path, str(path)):
        assert ps.simulate(program, "sharp", "pcie5").to_dicts() == by_name
        assert ps.predict(program, "sharp").seconds == pytest.approx(by_name[0]["compute_s"])
    with pytest.raises(ps.PenstockError, match="is a trace and has its parameters and size"):
        ps.simulate(path, "sharp", params="sharp")


def test_machines_and_sets_are_names_files_or_values(tmp_path: Path) -> None:
    sharp, chosen = ps.machine("sharp"), ps.parameters("sharp")
    write_machine(sharp, tmp_path / "mine.toml")
    rows = ps.simulate("inner-product", "sharp", "pcie5", params="sharp").to_dicts()
    assert ps.simulate("inner-product", sharp, "pcie5", params=chosen).to_dicts() == rows
    assert ps.simulate("inner-product", tmp_path / "mine.toml", "pcie5", params=chosen).to_dicts() == rows
    with pytest.raises(ps.PenstockError, match="two machines are named 'sharp'"):
        ps.simulate("inner-product", [sharp, "sharp"], "pcie5", params=chosen)


def test_a_suggested_set_goes_on_to_other_functions(results: dict[str, Result], tmp_path: Path) -> None:
    found = ps.suggest("inner-product", "sharp", params="sharp", ring_dims=[2**16])
    first = found.params()
    assert ps.predict("inner-product", "sharp", params=first).seconds == pytest.approx(found[0]["predicted_s"])
    path = found.save(tmp_path / "best.toml")
    assert ps.parameters(path).ring_dim == first.ring_dim
    with pytest.raises(ps.PenstockError, match=r"written as \.toml"):
        found.save(tmp_path / "best.json")


def test_an_interrupted_or_finished_sweep_is_read_back_and_not_played_again(tmp_path: Path) -> None:
    axes = {"workload": "inner-product", "machine": "sharp", "params": "sharp", "cache": ["1 GiB", "4 GiB"]}
    first = ps.sweep(axes, output=tmp_path / "run")
    again = ps.sweep(axes, output=tmp_path / "run")
    assert first.to_dicts() == again.to_dicts()
    assert len(first) == 8
    assert first.folder == tmp_path / "run"
    with pytest.raises(ps.PenstockError):
        ps.sweep({**axes, "cache": "2 GiB"}, output=tmp_path / "run")
    with pytest.raises(ps.PenstockError, match="unknown key 'caceh'"):
        ps.sweep({**axes, "caceh": "2 GiB"}, output=tmp_path / "other")


REFUSED: tuple[tuple[list[str], Callable[[], object]], ...] = (
    (["simulate", "inner-product", "--machine", "shrp"], lambda: ps.simulate("inner-product", "shrp")),
    (["simulate", "inner-prodct", "--machine", "sharp"], lambda: ps.simulate("inner-prodct", "sharp")),
    (
        ["simulate", "inner-product", "--machine", "sharp", "--cache", "64"],
        lambda: ps.simulate("inner-product", "sharp", cache="64"),
    ),
    (
        ["simulate", "inner-product", "--machine", "sharp", "--cache", "1 GiB", "--hit-ratio", "0.5"],
        lambda: ps.simulate("inner-product", "sharp", cache="1 GiB", hit_ratio=0.5),
    ),
    (
        ["simulate", "inner-product", "--machine", "sharp", "--policy", "lru"],
        lambda: ps.simulate("inner-product", "sharp", policy="lru"),
    ),
    (
        ["simulate", "inner-product", "--machine", "sharp", "--prefetch", "next-2"],
        lambda: ps.simulate("inner-product", "sharp", prefetch="next-2"),
    ),
    (
        ["simulate", "inner-product", "--machine", "sharp", "--hosts", "2"],
        lambda: ps.simulate("inner-product", "sharp", hosts=2),
    ),
    (
        ["simulate", "inner-product", "--machine", "sharp", "--levels", "on-chip,hbm", "--pin", "keys"],
        lambda: ps.simulate("inner-product", "sharp", levels="on-chip,hbm", pin="keys"),
    ),
    (["params", "size", "openfhe-demoo"], lambda: ps.sizes("openfhe-demoo")),
    (["params", "size", "sharp", "--size", "full"], lambda: ps.sizes("sharp", size="full")),
    (["trace", "inner-product", "--params", "sharpp"], lambda: ps.trace("inner-product", "sharpp")),
    (["predict", "run", "nothing.parquet", "--machine", "sharp"], lambda: ps.predict("nothing.parquet", "sharp")),
    (
        ["run", "inner-product", "--reading", "clear", "--key-budget", "1 GiB"],
        lambda: ps.run("inner-product", reading="clear", key_budget="1 GiB"),
    ),
    (
        ["run", "inner-product", "--tenant", "ann", "--reading", "native"],
        lambda: ps.run("inner-product", reading="native", tenant="ann"),
    ),
)


def letters(text: str) -> str:
    return "".join(each for each in text.removeprefix("penstock: ") if each.isalnum())


@pytest.mark.parametrize(("words", "call"), REFUSED, ids=lambda each: " ".join(each) if isinstance(each, list) else "")
def test_what_the_command_line_refuses_the_functions_raise(
    capsys: pytest.CaptureFixture[str], words: list[str], call: Callable[[], object]
) -> None:
    code = main(words)
    said = capsys.readouterr().err
    with pytest.raises(ps.PenstockError) as raised:
        call()
    assert raised.value.exit_code == code
    assert "--" not in str(raised.value).split("penstock ")[0], "a function has arguments, no options"
    # The same rule in the same words, but for how the front end writes them.
    assert SequenceMatcher(None, letters(str(raised.value)), letters(said)).ratio() > 0.8, said


def test_an_error_has_fields() -> None:
    with pytest.raises(ps.PenstockError) as raised:
        ps.simulate("inner-product", "shrp")
    error: Any = raised.value
    assert (error.what, error.name, error.nearest, error.exit_code) == ("machine", "shrp", "sharp", 2)
    assert "ark" in error.known


def test_what_is_no_program_is_refused() -> None:
    with pytest.raises(ps.PenstockError, match="int is not a program"):
        ps.trace(3)
    with pytest.raises(ps.PenstockError, match="of operations without values"):
        ps.run(ps.trace("inner-product", "sharp"))  # type: ignore[arg-type]


def test_each_machine_takes_its_own_set_unless_one_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    both = ps.simulate("inner-product", ["sharp", "ark"], "pcie5")
    assert [(row["machine"], row["params"]) for row in both] == [("sharp", "sharp"), ("ark", "ark")]
    alone = [ps.simulate("inner-product", each, "pcie5")[0] for each in ("sharp", "ark")]
    assert both.to_dicts() == alone
    said = printed(capsys, "simulate", "inner-product", "--machine", "sharp", "--machine", "ark", "--tier", "pcie5")
    assert [row for row in said if row.pop("assumptions")] == json.loads(json.dumps(alone))
    assert len(both.warnings) >= 2, "a line for each machine's set"


@pytest.mark.parametrize(
    "call",
    [
        lambda: ps.simulate("inner-product", "sharp", params=["sharp", "ark"]),  # type: ignore[arg-type]
        lambda: ps.simulate("inner-product", "sharp", tiers=[7e9]),  # type: ignore[list-item]
        lambda: ps.simulate("inner-product", 3),  # type: ignore[arg-type]
        lambda: ps.sizes(5),  # type: ignore[arg-type]
    ],
)
def test_a_value_of_another_type_is_refused_as_any_other_slip(call: Callable[[], object]) -> None:
    with pytest.raises(ps.PenstockError):
        call()


def test_a_picture_names_sizes_with_units_and_no_column_that_says_nothing() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    axes = ps.simulate("inner-product", ["sharp", "ark"], ["hbm", "pcie5"], params="sharp", cache="on-chip").plot()
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["sharp", "ark"], "on-chip follows from it"
    sizes = ps.simulate("inner-product", "sharp", ["hbm", "pcie5"], params="sharp", cache=["256 MB", "1 GB"]).plot()
    assert [text.get_text() for text in sizes.get_legend().get_texts()] == ["256 MB", "1 GB"]
    matplotlib.pyplot.close("all")
