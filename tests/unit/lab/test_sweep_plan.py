"""Sweep files, and the points that follow from them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from penstock.errors import UnitError, UnknownName, UsageError
from penstock.lab.sweeps.plan import CHUNK_POINTS, SIMGRID_POINTS, _machine_text, plan
from penstock.lab.sweeps.points import Plan
from penstock.lab.sweeps.spec import load_sweep, parse_sweep
from penstock.scheme.machines import load_machine
from penstock.scheme.play.caches import ForcedHitRatio, Lru

HEAD = 'workload = "logistic-regression"\nmachine = "sharp"\nparams = "sharp"\n'


def planned(text: str) -> Plan:
    return plan(parse_sweep(HEAD + text, "test", "test"))


def points(text: str) -> list:
    return [point for chunk in planned(text).chunks for point in chunk.points]


def test_one_value_is_a_list_of_one_and_a_table_replaces_what_stands_before_it() -> None:
    sweep = parse_sweep(HEAD + 'tier = "hbm"\n[[sweep]]\n[[sweep]]\ntier = ["ddr5", "3.5 GB/s"]', "test")
    assert [table.words.tier for table in sweep.tables] == [("hbm",), ("ddr5", "3.5 GB/s")]
    assert sweep.tables[1].workload == ("logistic-regression",)


def test_plural_names_are_the_same_axes() -> None:
    plural = parse_sweep('workloads = ["logistic-regression"]\nmachines = ["sharp"]\nhit_ratios = [0, 0.5]', "test")
    singular = parse_sweep('workload = "logistic-regression"\nmachine = "sharp"\nhit_ratio = [0, 0.5]', "test")
    assert plural == singular
    with pytest.raises(UsageError, match=r"tier is given twice \('tier' and 'tiers'\)"):
        parse_sweep('tier = "hbm"\ntiers = ["hbm"]', "test")
    with pytest.raises(UsageError, match=r"tier is given twice \('tiers' and 'tier'\)"):
        parse_sweep('tiers = ["hbm"]\ntier = "hbm"', "test")


def test_the_cross_product_has_every_combination_once() -> None:
    found = points('tier = ["hbm", "pcie5"]\nmode = ["serial", "overlap"]\nhit_ratio = [0, 0.5, 0.9]')
    assert len(found) == 2 * 2 * 3
    assert len({(p.tier.name, p.mode, p.hold) for p in found}) == len({p.id for p in found}) == 12


def test_every_axis_of_the_product_counts() -> None:
    text = """
        key_form = ["full", "seeded"]
        hosts = [1, 2, 4]
        network = ["ethernet-400", "100 Gb/s"]
        topology = ["star", "ring"]
        partition = ["rplp", "by-tenant"]
        cache = ["on-chip", "1 GiB"]
        policy = ["lru", "belady", "arc"]
        tier = "pcie5"
    """
    found = planned(text)
    assert found.num_points == 2 * 3 * 2 * 2 * 2 * (2 * 3)
    assert len(found.programs) == 2
    assert not found.skipped


def test_prefetching_is_an_axis_of_overlap_only() -> None:
    found = points('tier = "hbm"\nmode = ["serial", "overlap"]\nprefetch = ["none", "next-1", "next-4"]')
    assert [(p.mode, p.prefetch and p.prefetch.depth) for p in found] == [
        ("serial", None),
        ("overlap", 0),
        ("overlap", 1),
        ("overlap", 4),
    ]


def test_stated_hit_ratios_stand_beside_caches() -> None:
    found = points('tier = "hbm"\nhit_ratio = 0.5\ncache = "1 GiB"')
    assert [p.hold for p in found] == [ForcedHitRatio(0.5), Lru(2**30)]


def test_a_point_of_two_tables_is_played_once() -> None:
    twice = planned('[[sweep]]\ntier = ["hbm", "ddr5"]\n[[sweep]]\ntier = ["ddr5", "pcie5"]')
    assert twice.num_points == 3


def test_native_is_the_machines_own_parameter_set() -> None:
    text = 'workload = "logistic-regression"\nmachine = ["sharp", "a100-tensorfhe"]\nparams = "native"\ntier = "hbm"'
    found = plan(parse_sweep(text, "test"))
    assert [(p.machine.name, p.params.name) for p in found.programs] == [
        ("sharp", "sharp"),
        ("a100-tensorfhe", "tensorfhe-helr"),
    ]


def test_ids_and_chunks_depend_on_nothing_but_the_file() -> None:
    text = 'tier = ["hbm", "3.5 GB/s"]\nhosts = [1, 2, 3, 4, 5, 6, 7, 8]\nnetwork = ["ethernet-400", "fastfabric-300"]'
    one, two = planned(text), planned(text)
    assert one.digest == two.digest
    assert [chunk.digest for chunk in one.chunks] == [chunk.digest for chunk in two.chunks]
    assert [chunk.index for chunk in one.chunks] == list(range(len(one.chunks)))
    assert max(len(chunk.points) for chunk in one.chunks) == CHUNK_POINTS[0]
    assert planned(text.replace("3.5", "3.6")).digest != one.digest


TOPOLOGY = """
hosts = ["a", "b", "c", "d"]
cables = [["a", "s1"], ["b", "s1"], ["c", "s2"], ["d", "s2"], ["s1", "s2", 0.1]]
"""
MACHINE_VALUES = """
name = "mine"
title = "a machine of one unit"
overlap = "in-turn"
overlap_source = "it has one"
[units.transforms]
value = "1 Gpoints/s"
source = "a test"
kind = "assumed"
"""
ONE_RATE = """
name = "mine"
title = "a file of one rate"
[bandwidth]
value = "1 GB/s"
source = "a test"
kind = "assumed"
"""
SET = Path(__file__).parents[3] / "src" / "penstock" / "scheme" / "params" / "data" / "sharp.toml"


@pytest.mark.parametrize(
    ("key", "content", "was", "now"),
    [
        ("topology", TOPOLOGY, "0.1]", "0.5]"),
        ("machine", MACHINE_VALUES, "1 G", "2 G"),
        ("tier", ONE_RATE, "1 G", "2 G"),
        ("network", ONE_RATE, "1 G", "2 G"),
        ("levels", '[[levels]]\ntier = "on-chip"\n[[levels]]\ntier = "1 GB/s"\n', "1 G", "2 G"),
        ("params", SET.read_text(encoding="utf-8"), "dnum = 3", "dnum = 4"),
    ],
)
def test_a_file_of_the_same_name_with_another_content_makes_other_points(
    tmp_path: Path, key: str, content: str, was: str, now: str
) -> None:
    file = tmp_path / "mine.toml"
    asked = {"workload": "inner-product", "machine": "sharp", "params": "sharp"}
    if key in ("topology", "network"):
        asked |= {"tier": "hbm", "network": "ethernet-400"}
    text = "\n".join(f'{name} = "{value}"' for name, value in {**asked, key: str(file)}.items())
    text += "\nhosts = 4" if key in ("topology", "network") else ""

    def found() -> Plan:
        return plan(parse_sweep(text, "test"))

    assert was in content
    file.write_text(content, encoding="utf-8")
    first, again = found(), found()
    assert first.digest == again.digest
    file.write_text(f"# a comment\n{content}", encoding="utf-8")
    assert found().digest == first.digest
    file.write_text(content.replace(was, now), encoding="utf-8")
    changed = [point.id for chunk in found().chunks for point in chunk.points]
    assert not {point.id for chunk in first.chunks for point in chunk.points} & set(changed)


@pytest.mark.parametrize(("key", "text"), [("tier", ONE_RATE), ("network", ONE_RATE), ("machine", MACHINE_VALUES)])
def test_two_tables_do_not_name_two_things_alike(tmp_path: Path, key: str, text: str) -> None:
    for name, rate in (("a", "1 G"), ("b", "2 G")):
        (tmp_path / f"{name}.toml").write_text(text.replace("1 G", rate), encoding="utf-8")
    asked = {"workload": "inner-product", "machine": "sharp", "params": "sharp", "tier": "hbm"}
    asked |= {"network": "ethernet-400", "hosts": "4"} if key == "network" else {}
    shared = "\n".join(f'{name} = "{value}"' for name, value in asked.items() if name not in (key, "hosts"))
    shared += "\nhosts = 4\n" if key == "network" else "\n"
    tables = [f'[[sweep]]\n{key} = "{tmp_path / name}.toml"\n' for name in ("a", "b")]
    plan(parse_sweep(shared + tables[0], "test"))
    with pytest.raises(UsageError, match=f"two {key}s of the sweep are named 'mine'"):
        plan(parse_sweep(shared + "".join(tables), "test"))


def test_buffers_that_round_to_the_same_text_are_two_points() -> None:
    found = points(
        'tier = "hbm"\nmode = "overlap"\nprefetch = "perfect"\n'
        '[[sweep]]\nprefetch_buffer = "64 MB"\n[[sweep]]\nprefetch_buffer = "64.004 MB"'
    )
    assert [point.prefetch.buffer_bytes for point in found] == [64_000_000, 64_004_000]
    assert len({point.id for point in found}) == 2


def test_the_example_can_be_played() -> None:
    found = plan(load_sweep(Path(__file__).parents[3] / "examples" / "sweep.toml"))
    assert found.num_points > 500


@pytest.mark.parametrize(
    ("text", "error", "match"),
    [
        ('teir = "hbm"', UnknownName, "test: .*unknown key 'teir': did you mean 'tier'"),
        ('wth = "sorting"', UnknownName, "unknown key 'wth': did you mean 'with'"),
        ("with = 7", UsageError, "file: 'with' is 7: .*valid string"),
        ('tier = "hbn"', UnknownName, "unknown tier 'hbn': did you mean 'hbm'"),
        ('mode = "serail"', UnknownName, "did you mean 'serial'"),
        ('hosts = 2\nnetwork = "ethernet-4000"', UnknownName, "did you mean 'ethernet-400'"),
        ('key_form = "seeeded"', UnknownName, "did you mean 'seeded'"),
        ('cache = "1 GiB"\npolicy = "lruu"', UnknownName, "did you mean 'lru'"),
        ('classes = "keyz"', UnknownName, "did you mean 'keys'"),
        ('partition = "rplb"', UnknownName, "did you mean 'rplp'"),
        ('size = "dmeo"', UnknownName, "unknown size 'dmeo': did you mean 'demo'"),
        ('cache = "1024"', UnitError, "no unit"),
        ('cache = "80 GB (74.5 GiB)"', UnitError, "decimal and binary units"),
        ('tier = "7 GB/s (6.5 GiB/s)"', UsageError, "decimal and binary|unknown tier"),
        ("hit_ratio = 1.5", UsageError, "hit_ratio.*less than or equal to 1"),
        ("hosts = 0", UsageError, "hosts.*greater than or equal to 1"),
        ("hosts = true", UsageError, "hosts"),
        ("tier = []", UsageError, "tier.*at least 1"),
        ("tier = 7", UsageError, "tier.*valid string"),
        ('policy = "lru"', UsageError, "give its size"),
        ("sweep = 3", UsageError, r"\[\[sweep\]\]"),
        ('mode = "overlap"\nprefetch = "perfect"', UsageError, "state the buffer"),
        ("tier = ", UsageError, "a sweep is TOML, and this is not"),
    ],
)  # fmt: skip
def test_a_slip_is_an_error_that_names_it(text: str, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        planned(text)


@pytest.mark.parametrize(
    ("text", "what"),
    [('machine = "sharp"', "workload"), ('workload = "logistic-regression"', "machine")],
)
def test_a_program_and_a_machine_are_needed(text: str, what: str) -> None:
    with pytest.raises(UsageError, match=f"name at least one {what}"):
        parse_sweep(text, "test")


def test_unknown_workloads_machines_and_sets_are_errors() -> None:
    for slip in ("logistic-regresion", "shrap"):
        workload, machine = (slip, "sharp") if slip.startswith("log") else ("logistic-regression", slip)
        with pytest.raises(UnknownName, match="did you mean"):
            plan(parse_sweep(f'workload = "{workload}"\nmachine = "{machine}"', "test"))
    with pytest.raises(UsageError, match="shrap"):
        plan(parse_sweep(HEAD.replace('params = "sharp"', 'params = "shrap"'), "test"))


def test_impossible_combinations_are_skipped_with_their_number_and_reason() -> None:
    found = planned('tier = ["hbm", "ddr5"]\nhosts = [1, 2]')
    assert found.num_points == 2
    assert [(count, "name a network" in why) for (_, why), count in found.skipped.items()] == [(2, True)]

    text = """
        hosts = 4
        network = "ethernet-400"
        partition = ["rplp", "by-ciphertext"]
        mode = ["serial", "bound"]
        hit_ratio = 0.5
        cache = "1 GiB"
        tier = "pcie5"
    """
    found = planned(text)
    assert found.num_points == 4 + 1
    assert sum(found.skipped.values()) == 3
    assert all(what == "partition by-ciphertext" for what, _ in found.skipped)


def test_a_size_that_only_one_workload_has_is_skipped_for_the_other() -> None:
    from penstock.program import workloads

    ours = set(workloads.get("logistic-regression").SIZES) - set(workloads.get("matrix-multiplication").SIZES)
    text = f"""
        workload = ["logistic-regression", "matrix-multiplication"]
        size = "{sorted(ours)[0]}"
        machine = "sharp"
        tier = "hbm"
    """
    found = plan(parse_sweep(text, "test"))
    assert [program.workload for program in found.programs] == ["logistic-regression"]
    assert [what for what, _ in found.skipped] == [f"matrix-multiplication {sorted(ours)[0]} on sharp"]


def test_a_sweep_without_any_point_is_an_error_with_the_reason() -> None:
    with pytest.raises(UsageError, match=r"no point to play.*name a network"):
        planned("hosts = 2")


def test_a_sweep_of_too_many_points_is_refused_before_they_are_made() -> None:
    ratios = ", ".join(str(i / 2000) for i in range(2000))
    with pytest.raises(UsageError, match="at most 2000000"):
        planned(f'hit_ratio = [{ratios}]\nhosts = {list(range(1, 1200))}\nnetwork = "ethernet-400"')


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        load_sweep(tmp_path / "none.toml")


# Levels, and programs that run together.
LEVELS = 'levels = ["on-chip,hbm:2 GB,nvme-gen5", "on-chip,nvme-gen5"]\n'


WRITES = 'write_back = true\nclasses = ["keys", "ciphertexts"]\n'


def test_levels_are_an_axis_with_policies_and_inclusions() -> None:
    found = points(LEVELS + 'policy = ["lru", "fifo"]\ninclusion = ["independent", "exclusive"]\nmode = "bound"')
    assert len(found) == len({p.id for p in found}) == 2 * 2 * 2
    assert {p.hold.inclusion for p in found} == {"independent", "exclusive"}
    assert {p.hold.levels[0].capacity_bytes for p in found} == {198_000_000}


def test_levels_that_a_machine_cannot_have_are_skipped_and_unknown_names_are_not() -> None:
    head = HEAD.replace('"sharp"\nparams', '["sharp", "a100-tensorfhe"]\nparams')
    found = plan(parse_sweep(head + 'levels = ["on-chip.buffer,nvme-gen5", "on-chip,hbm"]', "test"))
    assert found.num_points == 3
    assert ["a100-tensorfhe" in what and "'buffer'" in why for what, why in found.skipped] == [True]
    with pytest.raises(UsageError, match="nvme"):
        points('levels = "on-chip,nvme-gen55"')
    with pytest.raises(UsageError, match="exclusive"):
        points(LEVELS + 'inclusion = "exklusive"')


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (LEVELS + 'tier = "hbm"', "leave tier, cache and hit_ratio out"),
        (LEVELS + 'hosts = [1, 2]\nnetwork = "ethernet-400"', "levels plays one host"),
        ('with = "inner-product"\nhosts = 2\nnetwork = "ethernet-400"', "with plays one host"),
        ('inclusion = "exclusive"', "inclusion is of levels"),
        ('with = "inner-product"\ninterleave = "turns"', "round-robin"),
        ("simgrid = true", 'write engine = ."penstock", "simgrid".'),
        ('with = "inner-product"\nengine = "simgrid"', "sends no messages: leave engine out"),
        ('with = "inner-product"\npartition = "by-digit"', "with plays one host: leave partition out"),
        (LEVELS + 'topology = "ring"', "levels plays one host: leave topology out"),
        ("write_back = true", 'write_back is of ciphertexts.*add classes = ."keys", "ciphertexts".'),
        (WRITES + "hit_ratio = [0, 0.5]", "a stated hit ratio does not say what is read again"),
        (WRITES + 'hosts = 2\nnetwork = "ethernet-400"', "write_back plays one host"),
        ('interleave = "time"', "how programs take turns: name another program"),
        ('prefetch = "next-2"', 'prefetch is of mode overlap.*add mode = "overlap"'),
        ('prefetch_buffer = "1 MB"', "prefetch_buffer is of mode overlap"),
        ('mode = "overlap"\nprefetch = "none"\nprefetch_buffer = "1 MB"', "prefetch none needs no buffer"),
    ],
)
def test_what_does_not_go_with_levels_or_beside_others(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        points(text)


HOSTS = 'tier = ["hbm", "pcie5"]\nhosts = [1, 2, 4]\nnetwork = "ethernet-400"\n'


def test_the_engine_is_an_axis_of_points_with_messages() -> None:
    found = planned(
        HOSTS + 'partition = ["rplp", "by-digit", "by-ciphertext", "by-tenant"]\nengine = ["penstock", "simgrid"]'
    )
    judged = [point for chunk in found.chunks for point in chunk.points if point.engine == "simgrid"]
    assert {(p.cluster.hosts, p.cluster.partition) for p in judged} == {
        (hosts, partition) for hosts in (2, 4) for partition in ("rplp", "by-digit")
    }
    assert found.num_points == 2 * (3 * 4 + 2 * 2)
    assert found.needs_simgrid
    why = dict(Counter(reason.partition(";")[0] for (what, reason), n in found.skipped.items() for _ in range(n)))
    assert why == {
        "one host sends no messages": 8,
        "it plays exchanges of hosts that work together": 8,
    }
    # Points of the engine are what they are without the axis.
    assert {p.id for p in points(HOSTS)} <= {p.id for chunk in found.chunks for p in chunk.points}
    assert not planned(HOSTS).needs_simgrid


def test_points_of_simgrid_have_small_chunks_of_their_own() -> None:
    text = HOSTS.replace("[1, 2, 4]", "[2, 3, 4, 5, 6, 7, 8]") + 'engine = ["penstock", "simgrid"]'
    sizes = [({point.engine for point in chunk.points}, len(chunk.points)) for chunk in planned(text).chunks]
    assert sizes == [({"penstock"}, 14), ({"simgrid"}, SIMGRID_POINTS), ({"simgrid"}, 14 - SIMGRID_POINTS)]


def test_an_unknown_engine_is_named_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match="simgrid"):
        points(HOSTS + 'engine = "simgrind"')


@pytest.mark.parametrize(
    ("key", "said"),
    [('interleave = "time"', "how programs take turns"), ('prefetch = "next-2"', "prefetch is of mode overlap")],
)
def test_a_key_that_says_nothing_in_its_own_table_is_an_error(key: str, said: str) -> None:
    text = f"""
        {HEAD}
        [[sweep]]
        with = "inner-product"
        mode = "overlap"
        [[sweep]]
        {key}
    """
    with pytest.raises(UsageError, match=said):
        parse_sweep(text, "test")


def test_levels_that_cannot_write_back_are_no_points() -> None:
    text = f"""
        {HEAD}
        write_back = true
        levels = ["on-chip:20 MB,nvme-gen5", "on-chip:hit=0.5,nvme-gen5"]
        [[sweep]]
        classes = ["keys", "ciphertexts"]
        inclusion = ["independent", "exclusive"]
        [[sweep]]
    """
    found = plan(parse_sweep(text, "test"))
    assert found.num_points == 1
    said = " ".join(why for _, why in found.skipped)
    assert "these are exclusive" in said
    assert "a stated hit ratio does not say" in said
    assert "write_back is of ciphertexts" in said


def test_a_key_of_the_whole_file_may_be_of_one_table_only() -> None:
    text = (
        HEAD
        + """
        interleave = "time"
        prefetch = "next-2"
        [[sweep]]
        with = "inner-product"
        [[sweep]]
        mode = "overlap"
    """
    )
    assert plan(parse_sweep(text, "test")).num_points == 8


def test_programs_that_run_together_are_another_program() -> None:
    alone, together = planned('tier = "hbm"'), planned('tier = "hbm"\nwith = ["logistic-regression"]')
    assert alone.programs[0].id != together.programs[0].id
    assert [other.workload for other in together.programs[0].beside] == ["logistic-regression"]
    # A size that the other has not is a combination that cannot be.
    with pytest.raises(UsageError, match="no point to play"):
        points('size = "helr"\nwith = "inner-product"')


def test_ids_of_stored_points_rest_on_names_of_classes_that_stay() -> None:
    text = _machine_text(load_machine("sharp"))
    assert text.startswith("Machine(")
    assert "inside=<Inside." in text
    assert "kind=<Evidence." in text
