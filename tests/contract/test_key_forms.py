"""What every form of evaluation keys promises, in every verb that knows forms: a new form joins by itself."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.errors import UnknownName, UsageError
from penstock.front.cli.main import main
from penstock.front.explorer.asked import Asked
from penstock.front.explorer.engine import Engine
from penstock.front.explorer.library import Library
from penstock.front.explorer.state import State
from penstock.lab.reports.working_set import key_windows
from penstock.program.running import trace_workload
from penstock.runtime.native.prepared import key_uses
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.traces.inspect import problems, summary
from penstock.scheme.traces.io import read_trace, write_trace
from penstock.scheme.traces.schema import Trace
from support.toy import toy

every_form = pytest.mark.parametrize("form", list(KeyForm))
PARAMS = catalogue.get("sharp")
SIZED = ("stored_key_bytes",)
"""Columns of simulated rows that truncation changes."""


@pytest.fixture(scope="module")
def trace() -> Trace:
    return trace_workload("bootstrapping", "sharp")


def uncut(form: KeyForm) -> KeyForm:
    """The same form with every row."""
    return KeyForm.of(seeded=form.is_seeded, truncated=False)


def sets() -> st.SearchStrategy[CkksParameters]:
    return st.builds(
        lambda limbs, special, dnum: toy(q_bits=(50,) * limbs, p_bits=(60,) * special, dnum=min(dnum, limbs)),
        st.integers(1, 30),
        st.integers(1, 10),
        st.integers(1, 6),
    )


# Words and sizes.
@every_form
def test_a_form_is_named_by_its_word_alone(form: KeyForm) -> None:
    assert KeyForm.named(form.value) is form
    assert KeyForm.of(seeded=form.is_seeded, truncated=form.is_truncated) is form
    assert CkksParameters.from_dict(toy(key_form=form).to_dict()).key_form is form
    with pytest.raises(UnknownName, match="unknown key form") as caught:
        KeyForm.named(form.value[:-1])
    assert caught.value.nearest == form.value


def test_the_words_of_a_form_have_one_order() -> None:
    with pytest.raises(UsageError, match=r"'truncated\+seeded'.*write 'seeded\+truncated'"):
        KeyForm.named("truncated+seeded")


@every_form
@given(params=sets(), data=st.data())
def test_a_stored_key_has_every_row_that_its_program_reads(form: KeyForm, params: CkksParameters, data: Any) -> None:
    most = data.draw(st.integers(1, params.num_q))
    stored = params.stored_key_bytes(most, form)
    assert max(params.key_bytes(limbs, form) for limbs in range(1, most + 1)) <= stored
    assert stored <= params.stored_key_bytes(None, form) == params.stored_key_bytes(params.num_q, form)
    assert stored <= params.stored_key_bytes(most, uncut(form)) <= params.stored_key_bytes(most, KeyForm.FULL)
    if form.is_truncated:
        # Rows by rows: two polynomials of each digit in use, one where the other is a seed.
        rows = (1 if form.is_seeded else 2) * -(-most // params.digit_limbs) * (most + params.num_p)
        assert stored == rows * params.ring_dim * 8


@every_form
@given(params=sets(), data=st.data())
def test_what_a_key_switch_reads_depends_on_seeds_alone(form: KeyForm, params: CkksParameters, data: Any) -> None:
    limbs = data.draw(st.integers(1, params.num_q))
    assert params.key_bytes(limbs, form) == params.key_bytes(limbs, uncut(form))
    assert params.key_bytes(limbs, form) * (2 if form.is_seeded else 1) == params.key_bytes(limbs, KeyForm.FULL)


@every_form
@given(params=sets(), ends=st.lists(st.integers(1, 30), max_size=8))
def test_keys_that_are_all_used_at_all_limbs_are_as_large_as_uncut(
    form: KeyForm, params: CkksParameters, ends: list[int]
) -> None:
    inside = {f"rot:{4 * i + 1}": min(end, params.num_q) for i, end in enumerate(ends)}
    assert params.total_key_bytes(inside, form) <= params.total_key_bytes(inside, uncut(form))
    whole = dict.fromkeys(inside, params.num_q)
    assert params.total_key_bytes(whole, form) == params.total_key_bytes(whole, uncut(form))


# Traces.
@every_form
def test_a_trace_of_keys_in_this_form_is_written_valid_and_read_again(form: KeyForm, tmp_path: Path) -> None:
    made = trace_workload("bootstrapping", replace(catalogue.get("insecure-resnet20"), key_form=form), "ci")
    assert list(problems(made)) == []
    write_trace(made, tmp_path / "t.parquet")
    again = read_trace(tmp_path / "t.parquet")
    assert again.parameters().key_form is form
    assert again.objects.equals(made.objects)
    sizes = [row["bytes"] for row in made.objects.to_pylist() if row["class"] == "key"]
    found = summary(again)
    assert found["key_bytes_unique"] == sum(sizes) == made.parameters().total_key_bytes(made.key_limbs())
    by_form = {row["key_form"]: row["stored_key_bytes"] for row in found["key_forms"]}
    assert list(by_form) == [each.value for each in KeyForm]
    assert by_form[form.value] == found["key_bytes_unique"]


@every_form
def test_working_sets_count_stored_keys_once_and_reads_at_their_limbs(form: KeyForm) -> None:
    params = replace(catalogue.get("insecure-resnet20"), key_form=form)
    made = trace_workload("bootstrapping", params, "ci")
    windows = key_windows(made)
    stored = params.total_key_bytes(made.key_limbs())
    assert windows[-1].cumulative_unique_bytes == stored == summary(made)["key_bytes_unique"]
    uses = [r["limbs_in"] for r in made.view().operations.to_pylist() if r["key"] is not None]
    assert sum(each.touched_bytes for each in windows) == sum(params.key_bytes(n, uncut(form)) for n in uses)


# Simulations.
ASKED: dict[str, dict[str, Any]] = {
    "serial": {"tiers": ["pcie5", "rdma"], "hit_ratio": [0.0, 0.5]},
    "caches": {"cache": ["on-chip", "300 MB"], "policy": ["lru", "belady", "optimal"], "mode": ["serial", "overlap"]},
    "classes": {"cache": "300 MB", "classes": ["keys", "plaintexts", "ciphertexts"], "write_back": True},
    "decoded": {"tiers": "rdma", "decode": "1 GB/s"},
    "levels": {"levels": "on-chip,hbm:2 GB,nvme-gen5", "pin": "keys=hbm"},
    "together": {"cache": "300 MB", "beside": ["inner-product"]},
    "hosts": {"hosts": [1, 4], "network": "ethernet-400", "partition": ["rplp", "by-digit"], "tiers": "pcie5"},
}


@every_form
@pytest.mark.parametrize("asked", ASKED)
def test_truncation_changes_no_simulated_time_and_no_byte_that_moves(form: KeyForm, asked: str) -> None:
    found = ps.simulate("bootstrapping", "sharp", params="sharp", key_form=form.value, **ASKED[asked]).rows
    whole = ps.simulate("bootstrapping", "sharp", params="sharp", key_form=uncut(form).value, **ASKED[asked]).rows
    for row, other in zip(found, whole, strict=True):
        assert {k: v for k, v in row.items() if k not in SIZED} == {k: v for k, v in other.items() if k not in SIZED}
        smaller = row["stored_key_bytes"] < other["stored_key_bytes"]
        assert smaller if form.is_truncated else row["stored_key_bytes"] == other["stored_key_bytes"]


@every_form
def test_simulated_rows_count_each_key_once_in_this_form(form: KeyForm, trace: Trace) -> None:
    (row,) = ps.simulate(trace, "sharp", "pcie5", key_form=form.value).rows
    used = {r["key"]: 0 for r in trace.view().operations.to_pylist() if r["key"] is not None}
    for r in trace.view().operations.to_pylist():
        if r["key"] is not None:
            used[r["key"]] = max(used[r["key"]], r["limbs_in"])
    ends = used.values() if form.is_truncated else [PARAMS.num_q] * len(used)
    assert row["stored_key_bytes"] == sum(PARAMS.key_bytes(limbs, form) for limbs in ends)
    (both,) = ps.simulate(trace, "sharp", "pcie5", key_form=form.value, beside=[trace]).rows
    assert both["stored_key_bytes"] == 2 * row["stored_key_bytes"]


@every_form
def test_predictions_follow_the_form_in_bytes_and_not_in_time(form: KeyForm) -> None:
    def of(each: KeyForm) -> Any:
        return ps.predict("bootstrapping", "sharp", params="sharp", key_form=each.value)

    found, whole = of(form), of(uncut(form))
    assert found.seconds == whole.seconds
    assert found.rows == whole.rows
    assert found.joules == whole.joules
    assert found.prediction.key_bytes_touched == whole.prediction.key_bytes_touched
    saved = whole.key_bytes - found.key_bytes
    assert (saved > 0) == form.is_truncated
    # An accelerator's memory is its keys and data.
    assert whole.peak_bytes - found.peak_bytes == saved
    (row,) = ps.what_if("bootstrapping", "sharp", params="sharp", key_form=form.value).rows
    assert (row["key_form"], row["key_bytes"], row["peak_bytes"]) == (form.value, found.key_bytes, found.peak_bytes)


@every_form
def test_sizes_give_the_total_of_the_form_that_is_asked_for(form: KeyForm, trace: Trace) -> None:
    found = ps.sizes("sharp", program="bootstrapping", key_form=form.value)
    assert found.by_form is not None
    assert list(found.by_form) == [each.value for each in KeyForm]
    assert found.total_key_bytes == found.by_form[form.value]
    assert found.total_key_bytes == PARAMS.total_key_bytes(trace.key_limbs(), form)
    assert found.report["key_form"] == form.value
    traced = ps.trace(trace)
    assert traced.key_bytes_by_form == found.by_form
    assert traced.key_limbs == found.report["key_limbs"]


# Verbs.
def answer(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert main([*words, "--format", "json"]) == 0
    return json.loads(capsys.readouterr().out)


VERBS = {
    "simulate": ["simulate", "bootstrapping", "--params", "sharp", "--machine", "sharp"],
    "params size": ["params", "size", "sharp", "--workload", "bootstrapping"],
    "predict run": ["predict", "run", "bootstrapping", "--params", "sharp", "--machine", "sharp"],
    "ssd near-data": ["ssd", "near-data", "bootstrapping", "--params", "sharp"],
    "predict suggest": ["predict", "suggest", "inner-product", "--machine", "sharp", "--params", "sharp",
                        "--ring-dim", "2^16", "--dnum", "1"],
}  # fmt: skip
STORED = {"simulate": "stored_key_bytes", "params size": "total_key_bytes", "predict run": "key_bytes",
          "ssd near-data": "stored_key_bytes", "predict suggest": "key_bytes"}  # fmt: skip


@every_form
@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_takes_every_form(verb: str, form: KeyForm, capsys: pytest.CaptureFixture[str]) -> None:
    def stored(each: KeyForm) -> int:
        found = answer(capsys, *VERBS[verb], "--key-form", each.value)
        return int((found[0] if isinstance(found, list) else found)[STORED[verb]])

    assert (stored(form) < stored(uncut(form))) == form.is_truncated


@pytest.mark.parametrize("verb", [*VERBS, "what-if", "explore"])
def test_every_verb_suggests_the_nearest_form(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*VERBS[verb], "--key-form", "truncatd"] if verb in VERBS else [*VERBS["predict run"]]
    words += ["--what-if", "key-form=truncatd"] if verb == "what-if" else []
    words = ["explore", "slowdown", "key_form=truncatd", "--print"] if verb == "explore" else words
    assert main(words) == 2
    assert "unknown key form 'truncatd': did you mean 'truncated'?" in capsys.readouterr().err


@every_form
def test_a_drive_s_times_do_not_depend_on_truncation(form: KeyForm, capsys: pytest.CaptureFixture[str]) -> None:
    mine, whole = (answer(capsys, *VERBS["ssd near-data"], "--key-form", each.value) for each in (form, uncut(form)))
    for row, other in zip(mine, whole, strict=True):
        assert {k: v for k, v in row.items() if k not in SIZED} == {k: v for k, v in other.items() if k not in SIZED}


@every_form
def test_the_explorer_s_rows_are_those_of_its_command(form: KeyForm, capsys: pytest.CaptureFixture[str]) -> None:
    engine = Engine(Library(runs=Path("no-such-folder")))
    state = State(workload="bootstrapping", params="sharp", machine="sharp", key_form=form.value)
    assert State.from_query(state.to_query()) == state
    asked = Asked.of(state)
    rows, _ = engine.play(asked)
    (theirs,) = answer(capsys, *shlex.split(asked.command(engine.library))[1:])
    assert rows == [{name: theirs[name] for name in rows[0]}]
    other, _ = engine.play(Asked.of(replace(state, key_form=uncut(form).value)))
    assert (rows[0]["stored_key_bytes"] < other[0]["stored_key_bytes"]) == form.is_truncated


def test_a_sweep_over_all_forms_has_a_row_of_each(tmp_path: Path) -> None:
    forms = ", ".join(f'"{form.value}"' for form in KeyForm)
    (tmp_path / "s.toml").write_text(
        f'workload = "bootstrapping"\nparams = "sharp"\nmachine = "sharp"\nkey_form = [{forms}]\ntier = "pcie5"\n'
    )
    rows = {row["key_form"]: row for row in ps.sweep(tmp_path / "s.toml", output=tmp_path / "out").rows}
    assert list(rows) == [form.value for form in KeyForm]
    for form in KeyForm:
        (one,) = ps.simulate("bootstrapping", "sharp", "pcie5", params="sharp", key_form=form.value).rows
        assert rows[form.value]["stored_key_bytes"] == one["stored_key_bytes"]
        assert rows[form.value]["total_s"] == pytest.approx(one["total_s"], rel=1e-12)


@pytest.mark.parametrize("size", ["ci", "ci-all-slots"])
def test_keys_end_where_the_native_evaluator_s_key_switches_use_them(size: str) -> None:
    made = trace_workload("bootstrapping", size=size)
    most: dict[str, int] = {}
    for key, limbs in key_uses(made):
        most[key] = max(most.get(key, 0), limbs)
    assert made.key_limbs() == most
