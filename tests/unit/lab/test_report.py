"""The report: whole, offline, escaped, and readable whatever is missing."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from penstock.base.runs.folder import RunFolder
from penstock.base.system.drawing import written
from penstock.base.system.files import FileError, WouldOverwrite
from penstock.base.system.palette import NAMES
from penstock.front.cli.main import main
from penstock.lab.reports import build, build_report, plots
from penstock.lab.reports.data import load
from penstock.lab.reports.markup import Markup, tag
from penstock.lab.reports.working_set import key_windows, unexpanded_composites
from penstock.scheme.operations import OpKind
from penstock.scheme.traces.builder import TraceBuilder
from penstock.scheme.traces.schema import TraceMeta
from support.fake_run import MACHINES, PARAMS, TIERS, config, fake_trace, simulate_rows, write_fake_run
from support.pictures import picture, texts, titled
from support.report_pages import Page

EVIL = """<img src=x onerror="document.title='hit'"></script><script>alert(1)</script>$\\frac{ %{x} & 'quoted'"""


@pytest.fixture(scope="module")
def fake(tmp_path_factory):
    with write_fake_run(tmp_path_factory.mktemp("runs") / "run") as run:
        build_report(run)
    return run


@pytest.fixture
def copy(fake, tmp_path):
    """A copy of the fake run that a test may change."""
    shutil.copytree(fake.path, tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture(scope="module")
def page(fake):
    return Page(fake.report_path.read_text())


@pytest.fixture
def light(monkeypatch):
    """Reports without the picture, for tests that look at something else."""
    monkeypatch.setattr(build, "_overview", lambda run, data: None)


# The page as a whole.


def test_every_section_is_there_and_linked(page):
    idents = {a.get("id") for name, a in page.elements if name == "section"}
    assert idents == {
        "legend",
        "check",
        "warnings",
        "time",
        "bytes",
        "slowdown",
        "hit-ratio",
        "cache",
        "keys",
        "fit",
        "assumptions",
        "parameters",
        "host",
        "reproduce",
        "not-modelled",
    }
    links = {a["href"] for name, a in page.elements if name == "a"}
    assert links == {f"#{i}" for i in idents - {"legend"}}
    assert "Left out" not in page.text
    assert page.open == []


def test_the_report_asks_the_network_for_nothing_and_stays_small(fake, page):
    assert fake.report_path.stat().st_size < 1e6
    for name, attributes in page.elements:
        for key in ("src", "href", "srcset", "action", "data", "poster"):
            assert re.match(r"#|data:", attributes.get(key) or "#"), (name, attributes)
        assert name not in ("link", "iframe", "object", "embed", "form", "base")
    style = (Path(build.__file__).parent / "report.css").read_text()
    assert "url(" not in style
    assert "@import" not in style
    policy = next(a["content"] for _, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "http" not in policy


def test_only_our_script_may_run_and_its_digest_matches(page):
    policy = next(a["content"] for _, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    code = [text for attributes, text in page.scripts if "type" not in attributes]
    assert len(code) == 1
    for text in code:
        assert base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() in policy
    assert "unsafe-inline" not in policy.split("script-src")[1].split(";")[0]


def test_the_headline_says_what_ran_where_it_stands_and_whether_it_is_right(page, fake):
    wall = next(r["value"] for r in fake.stage_rows("measured") if r["quantity"] == "wall_s")
    assert "logistic-regression (demo) with openfhe-demo (N = 2¹⁵, 128-bit security) ran encrypted in" in page.text
    assert f"{wall:.4g} s ● measured" in page.text
    assert "differ by at most 3.2e-05 (bound 0.001)" in page.text
    assert "96.44 % against 96.44 % in the clear (chance 50.4 %)" in page.text


def test_every_figure_and_every_table_of_results_says_where_its_numbers_come_from(page):
    without = {"Assumed and calibrated values", "Parameters", "Configuration"}
    for caption in page.captions:
        badge = re.search(r"[●◆▲■] (measured|predicted|simulated|published)", caption)
        assert badge or caption in without, caption
    assert len(page.captions) > 20


def test_every_plot_has_its_data_a_description_and_a_table_in_its_section(page):
    drawn = [a for _, a in page.elements if a.get("class") == "plot"]
    assert [a["data-figure"] for a in drawn] == list(page.figures)
    assert all(a["role"] == "img" and a["aria-label"].startswith("Plot: ") for a in drawn)
    kinds = {re.sub(r"figure-\d+-", "", name) for name in page.figures}
    assert kinds == {"time-by-kind", "time-by-limbs", "bytes", "slowdown", "hit-ratio", "cache", "keys", "fit"}
    assert len(page.tables) > len(kinds)


def test_every_axis_has_a_title_with_its_unit(page):
    for name, figure in page.figures.items():
        for axis in (panel[side] for panel in figure["panels"] for side in ("x", "y")):
            assert axis["title"] or axis["names"], (name, axis)
            if axis["unit"]:
                sign = {"x": "(×", "%": "(%"}.get(axis["unit"], f"({axis['unit']}")
                assert sign in axis["title"], (name, axis)


def test_colours_are_named_so_that_the_theme_decides(fake):
    style = (Path(build.__file__).parent / "report.css").read_text()
    text = "".join(re.findall("<svg.*?</svg>", fake.report_path.read_text(), re.DOTALL))
    assert not re.search(r"#[0-9a-fA-F]{6}", text)
    light, dark = style.split("@media screen and (prefers-color-scheme: dark)")
    names = set(re.findall(r"var\(--([a-z0-9]+)", text))
    assert len(names) > 8
    for name in names:
        assert f"--{name}:" in light
        assert f"--{name}:" in dark


def contrast(a: str, b: str) -> float:
    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        r, g, b = (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_and_marks_stand_out_from_the_background(theme):
    style = (Path(build.__file__).parent / "report.css").read_text()
    part = style.split("@media screen and (prefers-color-scheme: dark)")[theme == "dark"]
    colours = dict(re.findall(r"--([a-z0-9]+): (#[0-9a-f]{6})", part))
    for name in ("fg", "muted", "link", "good", "bad", "measured", "predicted", "simulated", "published"):
        assert contrast(colours[name], colours["bg"]) >= 4.5, name
    for i in range(len(NAMES)):
        assert contrast(colours[f"c{i}"], colours["bg"]) >= 2.8, i


def test_the_same_run_gives_the_same_report_and_picture(copy):
    first = build_report(RunFolder.open(copy)).read_bytes()
    picture = (copy / "report" / "overview.svg").read_bytes()
    assert build_report(RunFolder.open(copy)).read_bytes() == first
    assert (copy / "report" / "overview.svg").read_bytes() == picture
    assert picture.startswith(b"<?xml")


def test_the_still_picture_has_each_panel_with_its_provenance_and_every_number(fake):
    drawn = picture(fake.path / "report" / "overview.svg")
    assert {
        "Time by operation kind (measured)", "Every key from the tier (simulated)", "sharp: keys that hit (simulated)",
        "Key working set (counted in the trace)", "80 % of the ideal", *MACHINES, *TIERS,
    } <= set(texts(drawn))  # fmt: skip
    shown = [title for title, _ in titled(drawn)]
    for row in fake.stage_rows("simulate"):
        if row["quantity"] == "slowdown" and row["mode"] == "serial" and row["hit_ratio"] == 0 and not row["policy"]:
            assert f"{row['machine']}, {written(row['value'], 'x')}, {row['tier']}" in shown
    described = drawn.findtext("{http://www.w3.org/2000/svg}desc") or ""
    assert described.startswith("measured ")
    assert described.count("simulated slowdown of") == len(MACHINES) * len(TIERS)


# Numbers.


def test_times_by_kind_add_up_to_what_was_measured(page, fake):
    rows = [r for r in fake.stage_rows("measured") if r["quantity"] == "op_seconds"]
    figure = page.figures["figure-1-time-by-kind"]["panels"][0]["series"][0]
    assert sum(figure["x"]) == pytest.approx(sum(r["value"] for r in rows), rel=1e-4)
    shares = [line[3] for line in page.table("Share")[1:]]
    assert sum(float(s.split()[0]) for s in shares[:-1]) == pytest.approx(100, abs=0.5)
    stacked = page.figures["figure-2-time-by-limbs"]["panels"][0]["series"]
    assert sum(sum(series["y"]) for series in stacked) == pytest.approx(sum(r["value"] for r in rows), rel=1e-4)
    drawn = re.findall("<svg.*?</svg>", fake.report_path.read_text(), re.DOTALL)
    svg = next(text for text in drawn if "Limbs of the ciphertext" in text)
    assert len(set(re.findall('<pattern id="([^"]+)"', svg))) == len(stacked) - 1  # the first is plain


def test_more_kinds_than_colours_are_summed_up_and_none_is_lost():
    rows = [{"kind": f"kind{i}", "limbs": 1, "value": float(i)} for i in range(1, 12)]
    drawn = plots.time_by_limbs(rows).series
    assert len(drawn) == len(NAMES)
    assert drawn[-1].name == "5 other kinds"
    assert sum(series.y[0] for series in drawn) == pytest.approx(66.0)


def test_the_slowdown_plot_shows_only_runs_without_hits_in_the_main_mode(page, fake):
    (panel,) = page.figures["figure-4-slowdown"]["panels"]
    rows = {
        (r["machine"], r["tier"]): r["value"]
        for r in fake.stage_rows("simulate")
        if r["quantity"] == "slowdown" and r["mode"] == "serial" and r["hit_ratio"] == 0 and r["policy"] is None
    }
    tiers = panel["y"]["names"]
    drawn = {(s["name"], tiers[int(y)]): x for s in panel["series"] for y, x in zip(s["y"], s["x"], strict=True)}
    assert drawn == pytest.approx(rows, rel=1e-5)
    assert panel["x"]["log"]


def test_tiers_run_from_fast_to_slow_and_machines_as_configured(fake):
    data = load(fake)
    assert data.tiers() == ["hbm", "ddr5", "pcie5", "rdma"]
    assert data.machines() == list(MACHINES)
    assert data.modes() == ["serial", "overlap", "bound"]


def test_stars_stand_where_the_needed_hit_ratio_crosses_80_percent(page):
    drawn = [f["panels"][0]["series"] for n, f in page.figures.items() if n.endswith("hit-ratio")]
    series = next(each for each in drawn if len(each) == 8)
    for line, star in zip(series[::2], series[1::2], strict=True):
        assert star["mark"] == "star"
        assert star["y"] == [1.25]
        ideal = np.interp(star["x"][0], line["x"], line["y"])
        assert ideal == pytest.approx(1.25, abs=0.01), line["name"]
    shown = page.table("a100-tensorfhe")
    assert shown[0] == ["Tier", *MACHINES]


def test_a_cache_row_with_its_hit_ratio_is_not_taken_for_a_forced_one(fake):
    data = load(fake)
    for machine in MACHINES:
        drawn = plots.slowdown_by_hit_ratio(data, machine, "serial").series
        assert {x for series in drawn if series.dash for x in series.x} <= {i / 10 for i in range(11)}
        cached = plots.slowdown_by_cache(data, machine, "serial")
        assert len(cached.series) == 2 * len(TIERS)


# Keys over time.


def small_trace(limbs_of_calls: list[tuple[str | None, int]], **meta: object) -> object:
    builder = TraceBuilder(PARAMS)
    value = builder.ciphertext(PARAMS.num_q)
    for key, limbs in limbs_of_calls:
        kind = OpKind.ADD if key is None else OpKind.ROTATE
        out = builder.ciphertext(limbs)
        builder.add(kind, limbs_in=limbs, limbs_out=limbs, operands=[value], output=out, key=key)
    params = meta.pop("params", None) or {
        "ring_dim": PARAMS.ring_dim,
        "q_bits": PARAMS.q_bits,
        "p_bits": PARAMS.p_bits,
        "dnum": PARAMS.dnum,
        "word_bits": 64,
        "key_form": "full",
    }
    return builder.finish(TraceMeta(workload="w", params=params, reading="openfhe"))


def test_windows_count_keys_once_a_window_and_once_over_all():
    calls = [("rot:5", 16), ("rot:5", 6), (None, 6), ("rot:25", 6), ("rot:5", 6), (None, 6), ("rot:25", 6)]
    first, second, third = key_windows(small_trace(calls), num_windows=3)
    full, low = PARAMS.key_bytes(), PARAMS.key_bytes(6)
    assert low < full
    assert (first.key_accesses, first.distinct_keys, first.touched_bytes) == (2, 1, full + low)
    assert (second.key_accesses, second.distinct_keys, second.touched_bytes) == (2, 2, 2 * low)
    assert (first.unique_bytes, second.unique_bytes) == (full, 2 * full)
    assert (first.cumulative_unique_bytes, second.cumulative_unique_bytes) == (full, 2 * full)
    assert second.cumulative_distinct_keys == 2
    assert (third.unique_bytes, third.cumulative_unique_bytes, third.cumulative_distinct_keys) == (full, 2 * full, 2)


def test_the_last_window_may_be_shorter_and_no_operation_is_lost():
    trace = small_trace([("rot:5", 16)] * 7)
    windows = key_windows(trace, num_windows=3)
    assert [w.num_operations for w in windows] == [3, 3, 1]
    assert sum(w.key_accesses for w in windows) == 7


def test_a_trace_whose_parameters_are_unknown_counts_full_keys():
    trace = small_trace([("rot:5", 6)], params={"name": "foreign"})
    assert key_windows(trace)[0].touched_bytes == PARAMS.key_bytes()


def test_a_trace_without_keys_has_no_windows_and_composites_are_counted():
    assert key_windows(small_trace([(None, 3)])) == []
    builder = TraceBuilder(PARAMS)
    value = builder.ciphertext(3)
    builder.add(OpKind.BOOTSTRAP, limbs_in=1, limbs_out=3, operands=[value], output=value, origin="composite")
    assert unexpanded_composites(builder.finish(TraceMeta(workload="w", params={}, reading="openfhe"))) == 1


def test_the_windows_of_the_report_cover_the_whole_trace(page):
    total = len([k for k in fake_trace().operations["key"].to_pylist() if k is not None])
    assert sum(int(line[1]) for line in page.table("Key accesses")[1:]) == total


# What may be missing or hostile.


def test_names_that_try_to_run_code_stay_text(tmp_path, monkeypatch):
    monkeypatch.setitem(MACHINES, EVIL, 2e11)
    monkeypatch.setitem(TIERS, EVIL, 3e9)
    with write_fake_run(tmp_path / "run", workload=EVIL, size=EVIL, command=EVIL) as run:
        run.update(
            params={"name": EVIL, "security_bits": 0, EVIL: EVIL},
            check={"passed": False, EVIL: EVIL},
            warnings=[{"what": EVIL, "remedy": EVIL}],
            assumptions=[dict.fromkeys(("machine", "field", "value", "kind", "source"), EVIL)],
        )
        page = Page(build_report(run).read_text())
    assert page.open == []
    assert "img" not in [name for name, _ in page.elements]
    assert not [a for _, a in page.elements if any(key.startswith("on") for key in a)]
    assert len([a for a, _ in page.scripts if "type" not in a]) == 1
    assert page.text.count("onerror=") > 10
    assert "Check failed." in page.text
    assert "insecure parameters" in page.text
    picture = (run.path / "report" / "overview.svg").read_text()
    assert "<script" not in picture
    assert "<img" not in picture.replace("<image", "")


def test_data_of_a_figure_cannot_end_its_script():
    element = build._held("f", json.dumps({"name": "</script><!--"}))
    assert element.count("</script>") == 1
    assert "<!--" not in element
    assert Page(element).figures == {"f": {"name": "</script><!--"}}


def test_tags_escape_text_and_attributes_but_not_markup():
    assert tag("p", "a<b & c", title='"x"') == '<p title="&quot;x&quot;">a&lt;b &amp; c</p>'
    assert tag("p", Markup("<b>x</b>"), ["<", [None, ">"]]) == "<p><b>x</b>&lt;&gt;</p>"
    assert tag("br", hidden=True, id=None, class_="a") == '<br hidden class="a">'


@pytest.mark.parametrize(
    ("stage", "section"),
    [("measured", "time"), ("bytes", "bytes"), ("simulate", "slowdown"), ("simulate", "cache")],
)
def test_a_missing_stage_leaves_its_section_out_with_a_reason(copy, light, stage, section):
    (copy / "stages" / f"{stage}.parquet").unlink()
    text = build_report(RunFolder.open(copy)).read_text()
    part = text.split(f'<section id="{section}">')[1].split("</section>")[0]
    assert "Left out: this run holds no" in part
    assert "<table" not in part
    assert f'href="#{section}"' not in text


def test_a_damaged_stage_and_a_damaged_trace_are_warnings_in_the_report(copy, light):
    for file in (copy / "stages" / "fit.parquet", copy / "trace.parquet"):
        file.write_bytes(file.read_bytes()[:200])
    page = Page(build_report(RunFolder.open(copy)).read_text())
    assert "stages/fit.parquet is damaged" in page.text
    assert "the trace of this run cannot be read" in page.text
    assert page.text.count("Left out") == 2
    assert "trace.parquet" in page.text


def test_a_run_that_has_only_begun_still_gives_a_report(tmp_path, light):
    with RunFolder.create(tmp_path / "run", {}) as run:
        page = Page(build_report(run).read_text())
    assert "a run without a workload" in page.text
    assert "was not checked" in page.text
    assert "This run was not finished when the report was written. Stages done: none." in page.text
    assert page.figures == {}


def test_a_report_written_between_the_results_and_the_end_does_not_call_the_run_unfinished(tmp_path, light):
    with write_fake_run(tmp_path / "run", finish=False) as run:
        assert "not finished" in build_report(run).read_text()
        run.write_results()
        assert "not finished" not in build_report(run).read_text()


def test_machines_simulated_at_other_parameters_are_named(tmp_path, light):
    with RunFolder.create(tmp_path / "run", config()) as run:
        for machine in ("this-cpu", "sharp"):
            rows = [r for r in simulate_rows(2.0, 1e9) if r["machine"] == machine]
            run.append_rows(f"simulate-{machine}", [{**r, "params": "big"} if machine == "sharp" else r for r in rows])
        page = Page(build_report(run).read_text())
    assert "at other parameters: sharp at big." in page.text
    assert {(line[0], line[1]) for line in page.table("Key I/O")[1:]} == {
        ("this-cpu", "openfhe-demo"),
        ("sharp", "big"),
    }


def test_rows_without_the_usual_dimensions_do_not_stop_the_report(tmp_path, light):
    bare = {"unit": "1", "provenance": "simulated"}
    with RunFolder.create(tmp_path / "run", config()) as run:
        run.append_rows(
            "measured",
            [
                {**bare, "quantity": "op_seconds", "value": 1.0, "kind": "add"},
                {**bare, "quantity": "op_seconds", "value": None, "kind": "mult", "limbs": 3},
                {**bare, "quantity": "wall_s", "value": 0.0},
            ],
        )
        run.append_rows("bytes", [{**bare, "quantity": "bytes_unique", "value": 0.0, "kind": "key"}])
        run.append_rows("fit", [{**bare, "quantity": "fit_error", "value": 0.1}])
        run.append_rows(
            "simulate",
            [
                {**bare, "quantity": "slowdown", "value": float("inf"), "tier": "usb", "machine": "x"},
                {**bare, "quantity": "slowdown", "value": 1.0, "tier": "usb", "machine": "x", "hit_ratio": 1.0},
                {
                    **bare,
                    "quantity": "slowdown",
                    "value": 1.0,
                    "tier": "usb",
                    "machine": "x",
                    "hit_ratio": 0.5,
                    "cache_bytes": 0,
                    "policy": "lru",
                },
            ],
        )
        run.append_rows("required", [{**bare, "quantity": "hit_ratio_for_80_percent", "value": 0.2, "tier": "usb"}])
        page = Page(build_report(run).read_text())
    assert "unlimited" in page.text
    assert "Parts of the measured time" in page.text


def test_the_page_and_the_picture_need_no_drawing_library(copy, monkeypatch):
    for name in [n for n in sys.modules if n.partition(".")[0] == "matplotlib"] + ["matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    (copy / "report" / "overview.svg").unlink()
    page = Page(build_report(RunFolder.open(copy)).read_text())
    assert len(page.figures) > 8
    assert [p.name for p in (copy / "report").iterdir()] == ["overview.svg"]


def test_only_one_mode_and_a_tier_of_the_users_own_are_enough(tmp_path, light):
    with RunFolder.create(tmp_path / "run", config()) as run:
        rows = [r for r in simulate_rows(2.0, 1e9) if r["mode"] == "overlap" and r["tier"] == "rdma"]
        run.append_rows("simulate", [{**r, "tier": "3.5 GB/s"} for r in rows])
        page = Page(build_report(run).read_text())
    assert "Slowdown by tier and machine, overlap" in page.text
    assert any(line[:3] == ["this-cpu", "openfhe-demo", "3.5 GB/s"] for line in page.table("Key I/O"))


# Writing it, and the command.


def test_the_report_of_a_folder_that_cannot_be_written_is_an_error_with_a_remedy(copy):
    shutil.rmtree(copy / "report")
    (copy / "report").write_text("in the way")
    with pytest.raises(FileError, match="it exists already"):
        build_report(RunFolder.open(copy))


def test_another_file_is_overwritten_only_with_force(copy, tmp_path, light):
    target = tmp_path / "mine.html"
    target.write_text("mine")
    with pytest.raises(WouldOverwrite):
        build_report(RunFolder.open(copy), target)
    assert target.read_text() == "mine"
    assert build_report(RunFolder.open(copy), target, force=True) == target
    assert target.read_text().startswith("<!doctype html>")


def test_a_report_is_not_written_among_the_files_of_a_run(copy, tmp_path, light, capsys, monkeypatch):
    other = tmp_path / "other"
    shutil.copytree(copy, other)
    (tmp_path / "link.html").symlink_to(other / "run.json")
    before = (other / "run.json").read_bytes()
    inside = [copy / "run.json", copy / "stages" / "new.html", other / "results.csv", tmp_path / "link.html"]
    for words in ([copy], [copy, other]):
        for target in [*inside, *([other / "report.html"] if len(words) == 2 else [])]:
            there = target.read_bytes() if target.exists() else None
            assert main(["report", *map(str, words), "-o", str(target), "--force"]) == 2
            assert "lies in the run folder" in (said := capsys.readouterr().err)
            assert "name a file elsewhere" in said
            assert (target.read_bytes() if target.exists() else None) == there
    assert (other / "run.json").read_bytes() == before
    # Where a report goes by default may be named, too.
    assert main(["report", str(copy), "-o", str(copy / "report" / ".." / "report.html"), "--force"]) == 0
    monkeypatch.chdir(copy)
    assert main(["report", str(copy), str(other)]) == 0
    assert (copy / "comparison.html").is_file()


def test_the_command_writes_the_report_again_and_prints_its_path(copy, capsys, light):
    (copy / "report.html").unlink()
    assert main(["report", str(copy)]) == 0
    assert capsys.readouterr().out == f"{copy / 'report.html'}\n"
    assert (copy / "report.html").is_file()


@pytest.mark.parametrize(
    ("make", "message"),
    [(lambda p: p / "missing", "does not exist"), (lambda p: p, "not a run folder: it holds no run.json"),
     (lambda p: (p / "f").write_text("x") and p / "f", "is a file")],
)  # fmt: skip
def test_the_command_names_a_folder_that_is_no_run(tmp_path, capsys, make, message):
    assert main(["report", str(make(tmp_path))]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


def test_a_benchmark_run_is_not_compared_with_another_sort_of_run(copy, tmp_path, capsys):
    with RunFolder.create(tmp_path / "bench", {"verb": "bench"}) as run:
        run.finish()
    for words, said in (
        (["bench"], "holds no benchmark results"), ([copy, "bench"], "name benchmark runs only"),
        (["bench", "--figures", "figures"], "without --figures"),
    ):  # fmt: skip
        assert main(["report", *(str(tmp_path / word if word == "bench" else word) for word in words)]) == 2
        assert said in " ".join(capsys.readouterr().err.split())


def test_the_command_refuses_to_replace_a_file_without_force(copy, tmp_path, capsys, light):
    (tmp_path / "out.html").write_text("mine")
    assert main(["report", str(copy), "-o", str(tmp_path / "out.html")]) == 2
    assert "--force" in capsys.readouterr().err
    assert main(["report", str(copy), "-o", str(tmp_path / "nowhere" / "out.html")]) == 1
    assert "nowhere does not exist" in capsys.readouterr().err
