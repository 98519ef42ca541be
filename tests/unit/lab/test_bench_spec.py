from __future__ import annotations

import itertools

import pytest

from penstock.errors import ParamsError, UnknownName, UsageError
from penstock.lab.measure.bench.catalogue import PRIMITIVES
from penstock.lab.measure.bench.estimate import FLUSH_BYTES_PER_S, PROBES_S, estimate, plan_rows, total_seconds
from penstock.lab.measure.bench.spec import GROUPS, SuitePlan, load_suite, parse_suite, plan, suite_names
from penstock.lab.measure.bench.timing import last_level_cache_bytes

SMALL = """
[timing]
min_time = "1 ms"
runs = 2
[[primitives]]
items = ["rotate", "add", "rescale"]
ring_dim = ["2^12", "2^11"]
depth = 4
limbs = ["fresh", "last"]
[[micro]]
workload = "matrix-multiplication"
[[workloads]]
workload = "inner-product"
"""

TABLE_2 = (
    "add", "add_plain", "sub", "sub_scalar", "mult", "mult_no_relin", "mult_plain", "mult_scalar", "square", "rotate",
    "rotate_hoisted", "bootstrap", "chebyshev_function", "chebyshev_series",
)  # fmt: skip


def small(text: str = SMALL) -> SuitePlan:
    return plan(parse_suite(text, "small", "small.toml"), threads=(1,))


def test_the_primitives_are_those_of_the_papers_table_and_seven_more() -> None:
    more = {"rescale", "relinearize", "decompose", "encode", "encrypt", "decrypt", "key_load"}
    assert {name for name, each in PRIMITIVES.items() if each.records is None} == {*TABLE_2, *more}


def test_recorded_calls_are_measured_where_they_are_asked_for() -> None:
    recorded = {name: each for name, each in PRIMITIVES.items() if each.records is not None}
    assert {each.records for each in recorded.values()} <= set(PRIMITIVES)
    assert all(name == f"recorded_{each.records}" and each.kind is None for name, each in recorded.items())
    everything = '[[primitives]]\nring_dim = "2^11"\ndepth = 6\nacross_operations = [1, 2]\n'
    assert not {p.item for p in small(everything).points} & set(recorded)
    named = small(everything.replace("ring", 'items = ["add", "recorded_add"]\nring')).points
    assert sorted((p.item, p.across) for p in named) == [("add", 1), ("add", 2), ("recorded_add", 1)]


def test_points_ascend_from_primitives_to_workloads_and_from_small_rings_to_large_ones() -> None:
    points = small().points
    assert [GROUPS.index(p.group) for p in points] == sorted(GROUPS.index(p.group) for p in points)
    rings = [p.params.ring_dim for p in points if p.group == "primitives"]
    assert rings == [2**11] * 6 + [2**12] * 6
    assert [(p.item, p.limbs) for p in points[:6]] == [
        ("add", 1),
        ("rotate", 1),
        ("rescale", 2),
        ("add", 5),
        ("rescale", 5),
        ("rotate", 5),
    ]


def test_points_of_one_parameter_set_follow_each_other() -> None:
    names = [p.params.name for p in plan(load_suite("quick")).points if p.group == "primitives"]
    changes = sum(a != b for a, b in itertools.pairwise(names))
    assert changes + 1 == len(set(names))


def test_sets_that_are_not_secure_say_so_in_their_name() -> None:
    assert all("insecure" in p.params.name for p in small().points if p.params.security_bits == 0)


def test_an_unknown_key_suggests_the_nearest() -> None:
    with pytest.raises(
        UnknownName, match=r"mine\.toml: unknown key 'primitives\[0\]\.ring_dims': did you mean 'ring_dim'"
    ):
        parse_suite('[[primitives]]\nring_dims = "2^13"', "mine", "mine.toml")


def test_an_unknown_primitive_suggests_the_nearest() -> None:
    with pytest.raises(UnknownName, match="did you mean 'rotate'"):
        small('[[primitives]]\nitems = "rotat"')


def test_an_unknown_suite_names_the_known_ones() -> None:
    with pytest.raises(UnknownName, match="did you mean 'quick'"):
        load_suite("quik")
    assert suite_names() == ["fit", "full", "quick"]


def test_a_missing_file_and_broken_toml_are_usage_errors() -> None:
    with pytest.raises(UsageError, match="no such file"):
        load_suite("nowhere/mine.toml")
    with pytest.raises(UsageError, match=r"mine\.toml: a suite is TOML, and this is not"):
        parse_suite("[[primitives", "mine", "mine.toml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[timing]\nmin_time = 500", "a time with a unit"),
        ("[timing]\nruns = 0", "runs"),
        ('[[primitives]]\nconditions = "hot"', "warm"),
        ("[[primitives]]\nlimbs = 0", "at least 1"),
        ('[[primitives]]\nlimbs = "freshest"', "did you mean 'fresh'"),
        ('[[primitives]]\nparams = "insecure-ci"\ndepth = 3', "leave depth out"),
        ('[[primitives]]\nparams = "sharp"', "accelerators"),
        ('[[workloads]]\nworkload = "logistic-regression"\nsizes = "helr"', "accelerator set"),
        ('[[workloads]]\nworkload = "no-such-thing"', "unknown workload"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_the_rule(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        small(text)


def test_an_optional_workload_that_nobody_registered_is_left_out_with_a_note() -> None:
    found = small(SMALL + '[[workloads]]\nworkload = "no-such-thing"\noptional = true\n')
    assert found.skipped == [{"what": "no-such-thing", "why": "no such workload is registered"}]
    assert len(found.points) == 14


def test_combinations_that_break_a_rule_are_left_out_with_the_reason() -> None:
    found = small('[[primitives]]\nitems = "add"\nring_dim = "2^14"\ndepth = [2, 20]\nsecurity = 128')
    assert [p.params.depth for p in found.points] == [2]
    assert "128-bit security does not hold" in found.skipped[0]["why"]


def test_a_sweep_of_which_nothing_is_left_is_an_error_with_the_reason() -> None:
    with pytest.raises(UsageError, match=r"no point to measure.*security does not hold"):
        small('[[primitives]]\nring_dim = "2^11"\ndepth = 20\nsecurity = 256')


def test_the_smallest_ring_holds_the_level_and_the_next_smaller_does_not() -> None:
    found = small('[[primitives]]\nitems = "add"\nring_dim = "smallest"\ndepth = 10\nsecurity = 128').points[0].params
    assert found.security_bits >= 128
    below = f'[[primitives]]\nitems = "add"\nring_dim = {found.ring_dim // 2}\ndepth = 10\nsecurity = 128'
    with pytest.raises(UsageError, match="does not hold"):
        small(below)


def test_smallest_needs_a_security_level() -> None:
    with pytest.raises(UsageError, match="needs a security level"):
        small('[[primitives]]\nring_dim = "smallest"')


def test_rescale_is_left_out_where_the_library_rescales_by_itself() -> None:
    items = {p.item for p in small('[[primitives]]\nring_dim = "2^11"\nscaling = "flexible-auto"').points}
    assert "rescale" not in items
    assert "mult" in items


def test_all_limbs_are_every_level_that_the_primitive_works_at() -> None:
    points = small('[[primitives]]\nitems = ["add", "mult"]\nring_dim = "2^11"\ndepth = 4\nlimbs = "all"').points
    assert [p.limbs for p in points if p.item == "add"] == [1, 2, 3, 4, 5]
    assert [p.limbs for p in points if p.item == "mult"] == [2, 3, 4, 5]


@pytest.mark.parametrize("limbs", ["fresh", "last", "all"])
@pytest.mark.parametrize("items", ["all", "chebyshev_series"])
def test_a_series_with_more_levels_than_the_set_has_limbs_is_left_out_with_the_reason(items: str, limbs: str) -> None:
    sums = '[[primitives]]\nitems = "add"\nring_dim = "2^11"\n'
    text = f'[[primitives]]\nitems = "{items}"\nring_dim = "2^11"\ndepth = 6\nlimbs = "{limbs}"\n'
    found = small(sums + text + "chebyshev_degree = 59")
    assert not [p for p in found.points if PRIMITIVES[p.item].uses_degree]
    name = next(p.params.name for p in found.points if p.params.depth == 6) if items == "all" else ""
    assert f"chebyshev_series at {name}" in found.skipped[-2 if items == "all" else -1]["what"]
    assert found.skipped[-1]["why"] == "it needs 8 limbs with degree 59, and the set has 7"
    fits = small(sums + text + "chebyshev_degree = 27")
    assert {p.limbs for p in fits.points if p.item == "chebyshev_series"} == {7}


def test_what_needs_more_limbs_than_a_set_has_is_left_out_with_the_reason() -> None:
    found = small('[[primitives]]\nitems = ["add", "mult"]\nring_dim = "2^11"\ndepth = 0')
    assert {p.item for p in found.points} == {"add"}
    assert found.skipped[-1]["why"] == "it needs 2 limbs, and the set has 1"


def test_only_keeps_groups_and_items_and_refuses_what_it_does_not_know() -> None:
    suite = parse_suite(SMALL, "small", "small.toml")
    assert {p.group for p in plan(suite, only=["micro"]).points} == {"micro"}
    assert {p.item for p in plan(suite, only=["rotate"]).points} == {"rotate"}
    with pytest.raises(UnknownName, match="did you mean 'primitives'"):
        plan(suite, only=["primitive"])


def test_threads_of_the_command_line_replace_those_of_the_suite() -> None:
    points = plan(parse_suite(SMALL, "small", "small.toml"), threads=(1, 2)).points
    assert {p.threads for p in points} == {1, 2}


def test_independent_operations_have_one_thread_each_and_are_warm() -> None:
    text = '[[primitives]]\nitems = "rotate"\nring_dim = "2^11"\ndepth = 4\nconditions = ["warm", "cold"]\n'
    points = plan(parse_suite(text, "x", "x"), threads=(1, 2), across=(1, 2)).points
    assert {(p.threads, p.across, p.condition) for p in points} == {
        (1, 1, "warm"),
        (2, 1, "warm"),
        (1, 1, "cold"),
        (2, 1, "cold"),
        (1, 2, "warm"),
    }


def test_the_same_point_of_two_tables_is_measured_once() -> None:
    text = '[[primitives]]\nitems = "add"\nring_dim = "2^11"\ndepth = 4\n'
    assert len(small(text + text).points) == 1


def test_a_points_key_depends_on_what_is_measured_and_on_nothing_else() -> None:
    one, two = small(), small(SMALL.replace('"2^12", "2^11"', '"2^11", 4096'))
    assert [p.key for p in one.points] == [p.key for p in two.points]
    assert len({p.key for p in one.points}) == len(one.points)
    other = small(SMALL.replace("1 ms", "2 ms"))
    assert not {p.key for p in one.points if p.group == "primitives"} & {p.key for p in other.points}


def test_a_bootstrap_needs_a_set_with_a_plan() -> None:
    with pytest.raises(UsageError, match="no bootstrap plan"):
        small('[[primitives]]\nitems = "bootstrap"\nring_dim = "2^11"')
    assert small('[[primitives]]\nitems = "bootstrap"\nparams = "insecure-resnet20"').points[0].limbs == 2


def test_an_unknown_parameter_set_is_refused() -> None:
    with pytest.raises((UnknownName, ParamsError), match="openfhe-bensh"):
        small('[[primitives]]\nparams = "openfhe-bensh"')


def test_predictions_grow_with_ring_and_limbs_and_are_marked_as_such() -> None:
    rows = plan_rows(small(), available=10**12)
    assert {row["provenance"] for row in rows} == {"predicted"}
    assert all(row["fits"] for row in rows)
    rotate = {(r["ring_dim"], r["limbs"]): r["predicted_call_s"] for r in rows if r["item"] == "rotate"}
    assert rotate[2**11, 1] < rotate[2**11, 5] < rotate[2**12, 5]
    assert not any(row["fits"] for row in plan_rows(small(), available=1000))


def test_a_dry_run_counts_probes_and_what_each_turn_makes_anew() -> None:
    in_blocks = {row["point"]: row for row in plan_rows(small(), None)}
    in_turns = {row["point"]: row for row in plan_rows(small('order = "turns"\n' + SMALL), None)}
    assert in_blocks.keys() == in_turns.keys()
    for key, row in in_turns.items():
        assert row["predicted_s"] > row["runs"] * (PROBES_S + row["predicted_call_s"])
        assert row["predicted_s"] >= in_blocks[key]["predicted_s"]
        if row["group"] != "primitives":
            assert row["predicted_s"] > in_blocks[key]["predicted_s"] + 0.9 * row["runs"] * row["predicted_call_s"]


def test_the_suite_of_fitting_is_predicted_to_take_what_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.lab.measure.bench.estimate.last_level_cache_bytes", lambda: 32 << 20)
    estimate.cache_clear()
    minutes = total_seconds(plan_rows(plan(load_suite("fit")), None))["total"] / 60
    estimate.cache_clear()
    assert 34 / 1.5 < minutes < 28 * 1.5  # two runs took 28 and 34 minutes


def test_cold_calls_cost_the_flush_before_each() -> None:
    text = '[timing]\nmin_time = "5 ms"\nruns = 2\n[[primitives]]\nitems = "add"\nconditions = ["warm", "cold"]\n'
    warm, cold = (estimate(point) for point in small(text).points)
    flush = 2 * last_level_cache_bytes() / FLUSH_BYTES_PER_S
    assert cold.total_s - warm.total_s > 2 * 5e-3 / cold.call_s * flush


def test_the_predicted_rotation_at_the_large_ring_is_within_a_factor_of_two_of_the_measured_one() -> None:
    text = '[[primitives]]\nitems = "rotate"\nring_dim = "2^16"\ndepth = 10\ndnum = 3'
    assert 0.1 < estimate(small(text).points[0]).call_s < 0.4
