"""Every verb runs once for real, at the smallest sizes and without security: a chain in one folder.

A step uses the files of those that it names in `after`; they run before it where they have not yet.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
import pytest

from penstock.front.cli.main import cli, main
from penstock.lab.fit.measurements import primitive_shape
from penstock.lab.measure.bench.catalogue import PRIMITIVES
from penstock.lab.measure.bench.spec import BenchPoint
from support.bench_rows import folder_of, points_of, rows_of
from support.imagined_cpu import true_seconds
from support.live_service import LiveService, W, X, write_score
from support.own_process import COMMAND

pytestmark = pytest.mark.smoke

ROOT = Path(__file__).parents[3]
SET = "insecure-ci"
KEY_BYTES = 3 * (14 + 4) * 2 * 4096 * 8
"""Of a key of that set: digits, limbs, polynomials, coefficients, and bytes of a word."""
ELSEWHERE = {"analyze": "tests/system/front/test_command_line.py::test_analyze_runs_checks_fits_simulates_and_reports"}
"""Commands that another test of the smoke tier runs."""
LONGER = {
    "reproduce cryptoracle": "tests/unit/studies/test_cryptoracle_study.py",
    "reproduce io-study": "tests/fidelity/test_io_study.py",
}
"""Subcommands that take too long for it: `reproduce fheins` is run here."""


class Chain:
    """The folder, and what has been run in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ran: set[str] = set()
        self.ended: dict[str, BaseException | None] = {}
        self.service: LiveService | None = None
        self.access = ""

    def says(self, line: str) -> str:
        """What a command prints; it must succeed."""
        words = shlex.split(line)
        self.ran.add(named(words))
        printed = io.StringIO()
        with redirect_stdout(printed):
            code = main(words)
        assert code == 0, f"penstock {line}: exit code {code}"
        return printed.getvalue()

    def finds(self, line: str) -> Any:
        """The same as JSON."""
        return json.loads(self.says(f"{line} --format json"))

    def starts(self, line: str) -> subprocess.Popen[str]:
        """A command that serves until it is interrupted."""
        words = shlex.split(line)
        self.ran.add(named(words))
        return subprocess.Popen(
            [*COMMAND, *words], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def run(self, name: str, request: pytest.FixtureRequest) -> None:
        """Run a step, once, behind those that it needs."""
        if name in self.ended:
            if (why := self.ended[name]) is not None:
                raise why
            return
        step = STEPS[name]
        for fixture in step.needs:
            request.getfixturevalue(fixture)
        try:
            for before in step.after:
                self.run(before, request)
            step.does(self)
            assert set(step.commands) <= self.ran, f"the step ran no '{set(step.commands) - self.ran}'"
        except BaseException as error:
            self.ended[name] = error
            raise
        self.ended[name] = None


class Step(NamedTuple):
    commands: tuple[str, ...]
    after: tuple[str, ...]
    needs: tuple[str, ...]
    does: Callable[[Chain], None]


STEPS: dict[str, Step] = {}


def step(*commands: str, after: tuple[str, ...] = (), needs: tuple[str, ...] = ()) -> Callable[..., None]:
    """A step that runs these commands; its name is that of the first."""

    def keep(does: Callable[[Chain], None]) -> None:
        STEPS[commands[0]] = Step(commands, after, needs, does)

    return keep


def named(words: list[str]) -> str:
    """The command of a line without its arguments: `trace info`."""
    found: list[str] = []
    group: click.Command | None = cli
    for word in words:
        if not isinstance(group, click.Group):
            break
        context = click.Context(group)
        if group is not cli and word not in group.list_commands(context):
            word = "make"  # `trace WORKLOAD` is `trace make WORKLOAD`
        found.append(word)
        group = group.get_command(context, word)
    return " ".join(found)


def commands(group: click.Group = cli, words: tuple[str, ...] = ()) -> Iterator[str]:
    """Every command of the program that is no group."""
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        if isinstance(found, click.Group):
            yield from commands(found, (*words, name))
        else:
            yield " ".join((*words, name))


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chain]:
    made = Chain(tmp_path_factory.mktemp("verbs"))
    shutil.copy(ROOT / "examples/openfhe_script.py", made.folder / "script.py")
    score = (ROOT / "examples/score.py").read_text()
    (made.folder / "score.py").write_text(score.replace('"openfhe-demo"', f'"{SET}"'))
    (made.folder / "values.json").write_text("[0.5, -0.25, 1.0]")
    (made.folder / "secret").write_text("0123456789abcdef0123456789abcdef\n")
    (made.folder / "secret").chmod(0o600)
    yield made
    if made.service is not None:
        made.service.stop()


@step("doctor")
def _doctor(chain: Chain) -> None:
    checks = {row["check"]: row["status"] for row in chain.finds("doctor")}
    assert checks["python"] == checks["packages"] == checks["engine"] == "ok"


@step("params list", "params show", "params size")
def _params(chain: Chain) -> None:
    rings = {row["name"]: row["ring_dim"] for row in chain.finds("params list")}
    assert rings[SET] == chain.finds(f"params show {SET}")["ring_dim"] == 4096
    sizes = chain.finds(f"params size {SET} --rotations 1,2")
    assert (sizes["num_keys"], sizes["rotation_key_coefficient_bytes"]) == (3, KEY_BYTES)


@step("machines list", "machines show", "machines check")
def _machines(chain: Chain) -> None:
    assert {"sharp", "ark", "a100-tensorfhe"} <= {row["name"] for row in chain.finds("machines list")}
    assert chain.finds("machines show sharp")["on_chip_bytes"] == 198_000_000
    assert "overhead" in {row["field"] for row in chain.finds("machines check sharp")["missing"]}


@step("machines import-kernels")
def _kernels(chain: Chain) -> None:
    kinds = ("transform", "inverse-transform", "product", "sum", "scaling", "automorphism")
    rows = [f"{kind},20,65536,64,1e-4," for kind in kinds] + ["base-conversion,20,65536,64,1e-4,5"]
    rows = ["kernel,limbs,ring_dim,word_bits,seconds,sources", *rows, "key-product,20,65536,64,1e-4,3"]
    (chain.folder / "kernels.csv").write_text("\n".join(rows) + "\n")
    rates = {row["kernel"]: row["rate_per_s"] for row in chain.finds("machines import-kernels kernels.csv -o gpu.toml")}
    assert rates["transforms"] == pytest.approx(20 * 2**15 * 16 / 1e-4)
    assert chain.finds("machines show gpu.toml")["word_bits"] == 64


@step("workloads")
def _workloads(chain: Chain) -> None:
    assert {"ci", "demo"} <= {row["size"] for row in chain.finds("workloads inner-product")}


@step("run")
def _run(chain: Chain) -> None:
    found = chain.finds("run inner-product --size ci --reading clear")
    assert (found["best_match"], found["best_score"]) == (0, pytest.approx(1))
    noisy = chain.finds("run inner-product --size ci --reading noisy")
    assert 0 < noisy["max_abs_error"] < noisy["tolerance"]


@step("report", after=("trace make",), needs=("encrypting",))
def _native(chain: Chain) -> None:
    found = chain.finds("run inner-product --size ci --reading native --threads 1 --trace run.parquet -o run")
    assert (found["passed"], found["num_operations"]) == (True, 36)
    assert chain.finds("trace diff trace.parquet run.parquet")["equal"]
    assert chain.says("report run").strip() == "run/report.html"
    assert "inner-product" in (chain.folder / "run/report.html").read_text()


@step("trace make", "trace info", "trace validate", "trace expand", "trace pack")
def _traces(chain: Chain) -> None:
    assert chain.finds("trace inner-product --size ci -o trace.parquet")["by_kind"]["rotate"] == 16
    assert chain.finds("trace info trace.parquet")["num_keys"] == 9
    assert chain.finds("trace validate trace.parquet")["valid"]
    chain.says("trace expand trace.parquet -o primitives.parquet")
    assert chain.finds("trace info primitives.parquet")["num_operations"] == 36
    assert chain.finds("trace pack -o pack --params sharp --workload inner-product")["num_written"] == 1


@step("trace export", "trace import", "trace diff", after=("trace make",))
def _formats(chain: Chain) -> None:
    chain.says("trace export trace.parquet --to jsonl -o trace.jsonl")
    assert "rotate" in (chain.folder / "trace.jsonl").read_text()
    chain.says("trace import trace.jsonl --from jsonl -o again.parquet")
    assert chain.finds("trace diff trace.parquet again.parquet")["equal"]


@step("trace rewrite")
def _rewrite(chain: Chain) -> None:
    before, after = chain.finds(
        "trace rewrite inner-product --params sharp --pass reorder -o rewritten.parquet --check"
    )
    assert after["passes"] == "reorder"
    assert before["num_operations"] == after["num_operations"] > 0


@step("record", needs=("openfhe",))
def _record(chain: Chain) -> None:
    assert "x1 * x2 = [1.25, 2.0, 2.25, 2.0, 2.0, 2.25, 2.0, 1.25]" in chain.says("record script.py -o rec.parquet")
    assert chain.finds("trace info rec.parquet")["by_kind"]["rotate"] == 2


@step("package", needs=("encrypting",))
def _package(chain: Chain) -> None:
    found = chain.finds("package score.py -o score.pkg --verify")
    assert (found["instructions"]["rotate"], found["file_bytes"]) == (4, (chain.folder / "score.pkg").stat().st_size)
    ran = chain.finds("run score.pkg --reading native --threads 1 --output y.npy")
    assert ran["passed"]
    assert np.all((y := np.load(chain.folder / "y.npy")) > 0)
    assert np.all(y < 1)


@step("client keygen", "client show", needs=("encrypting",))
def _pair(chain: Chain) -> None:
    made = chain.finds(f"client keygen alice --params {SET}")
    assert made["secret_mode"] == "0600"
    assert chain.finds(f"client show alice --params {SET}")["key_tag"] == made["key_tag"]


@step("client encrypt", "client decrypt", after=("client keygen",), needs=("encrypting",))
def _values(chain: Chain) -> None:
    made = chain.finds(f"client encrypt alice values.json --params {SET} -o values.ct")
    assert (made["values"], made["limbs"]) == (3, 14)
    rows = chain.finds(f"client decrypt alice values.ct --params {SET} --for owner --count 3")
    assert [row["value"] for row in rows] == pytest.approx([0.5, -0.25, 1.0], abs=1e-6)


@step("client to-openfhe", "client from-openfhe", after=("client keygen",), needs=("encrypting",))
def _pairs(chain: Chain) -> None:
    tag = chain.finds(f"client show alice --params {SET}")["key_tag"]
    assert chain.finds(f"client to-openfhe alice theirs --params {SET}")["library"] == "openfhe"
    assert chain.finds(f"client from-openfhe theirs ours --params {SET}")["key_tag"] == tag


@step("client keys", after=("client keygen",), needs=("encrypting",))
def _keys(chain: Chain) -> None:
    rows = chain.finds(f"client keys alice --params {SET} --key relin --key rot:5 --tenant alice -o up")
    assert [row["key"] for row in rows] == ["relin", "rot:5"]
    assert (chain.folder / "up/rot-5.pkey").stat().st_size == rows[1]["bytes"]


@step("keys import", "keys ls", "keys stat", "keys verify", after=("client keys",), needs=("encrypting",))
def _store(chain: Chain) -> None:
    chain.finds(f"keys import --store store --tenant alice --params {SET} up/relin.pkey up/rot-5.pkey")
    assert [row["key"] for row in chain.finds("keys ls --store store")] == ["relin", "rot:5"]
    (total,) = chain.finds("keys stat --store store")
    assert (total["num_keys"], total["key_bytes"]) == (2, 2 * KEY_BYTES)
    assert [row["ok"] for row in chain.finds("keys verify --store store")] == [True, True]


@step("keys export", "keys gc", after=("keys import",), needs=("encrypting",))
def _export(chain: Chain) -> None:
    rows = chain.finds(f"keys export --store store --tenant alice --params {SET} -o exported")
    assert {Path(row["path"]).name for row in rows} == {"relin.bin", "rotations.bin"}
    (chain.folder / "store/alice/.tmp-penstock-1-2").write_bytes(b"half a key")
    chain.says("keys gc --store store")
    assert len(chain.finds("keys ls --store store")) == 2


@step("keys node", "keys token", after=("keys import",), needs=("encrypting",))
def _node(chain: Chain) -> None:
    of = f"--store store --params {SET} --secret-file secret"
    assert re.fullmatch("[0-9a-f]{64}", chain.finds(f"keys token --tenant alice {of}")["token"])
    with chain.starts(f"keys node {of} --listen unix:node.sock --format json") as node:
        try:
            while not (chain.folder / "node.sock").exists() and node.poll() is None:
                time.sleep(0.02)
            time.sleep(0.2)
            node.send_signal(signal.SIGINT)
            said = node.communicate(timeout=30)
        finally:
            node.kill()
    assert "node.sock" in "".join(said)
    assert node.returncode == 0, said


@step("keys replace", "keys retire", after=("keys node", "keys export"), needs=("encrypting",))
def _replace(chain: Chain) -> None:
    assert chain.finds(f"keys replace --store store --tenant alice --params {SET}")["pair"] == 2
    chain.says(f"client keygen new --params {SET} -q")
    chain.says(f"client keys new --params {SET} --key relin --tenant alice -o new-up -q")
    chain.says(f"keys import --store store --tenant alice --params {SET} new-up/relin.pkey")
    chain.says(f"keys retire --store store --tenant alice --params {SET}")
    assert [(row["key"], row["pair"]) for row in chain.finds("keys ls --store store")] == [("relin", 2)]


@step("keys bench", needs=("openfhe",))
def _key_bench(chain: Chain) -> None:
    found = chain.finds(f"keys bench --params {SET} --num-keys 5 --rounds 1 --threads 1")
    assert found["bit_identical"]
    assert found["key_bytes"] == KEY_BYTES


@step("keys study", needs=("encrypting",))
def _study(chain: Chain) -> None:
    (row,) = chain.finds("keys study inner-product --size ci --threads 1 --budgets 50")
    assert row["budget_bytes"] == pytest.approx(row["key_bytes"] / 2)
    assert row["measured_s"] > 0


@step("simulate", after=("trace make",))
def _simulate(chain: Chain) -> None:
    (row,) = chain.finds("simulate trace.parquet --machine sharp --tier pcie5 --hit-ratio 0.5")
    assert row["io_bytes"] == row["key_bytes"] / 2
    assert row["total_s"] == pytest.approx(row["compute_s"] + row["io_bytes"] / 64e9)


@step("servers")
def _servers(chain: Chain) -> None:
    for row in chain.finds("servers inner-product --params sharp --users 2 --runs 10 --rate 8/s"):
        assert row["utilisation"] + row["stalled_share"] + row["idle_share"] == pytest.approx(1)


@step("sweep")
def _sweep(chain: Chain) -> None:
    what = 'workload = "inner-product"\nparams = "sharp"\nmachine = "sharp"\ntier = ["hbm", "pcie5"]\nhit_ratio = 0\n'
    (chain.folder / "sweep.toml").write_text(what)
    near, far = sorted(chain.finds("sweep sweep.toml -o sweep --workers 1"), key=lambda row: row["tier"])
    assert (near["tier"], far["tier"]) == ("hbm", "pcie5")
    assert near["total_s"] < far["total_s"]
    assert chain.says("report sweep -o sweep.html").strip() == "sweep.html"
    assert "pcie5" in (chain.folder / "sweep.html").read_text()


@step("ssd drives", "ssd scan")
def _drive(chain: Chain) -> None:
    values = {row["value"]: row["is"] for row in chain.finds("ssd drives ssd-s")}
    assert values["channels"] == "16 channels"
    found = chain.finds('ssd scan --drive ssd-s --size "100 MB"')
    assert found["pages"] == -(-100_000_000 // 32_768)
    assert found["bytes_per_s"] == pytest.approx(100e6 / found["simulated_s"], rel=0.01)


SCANS = {
    "ssd pir": "--batch 1",
    "ssd ssc": "--batch 64",
    "ssd match": "",
    "ssd filter": "",
    "ssd join": "--rows 2",
    "ssd hdc": "--dimensions 2048",
    "ssd top-k": "--top 1",
    "ssd similarity": "--size toy",
}


@step(*SCANS)
def _scans(chain: Chain) -> None:
    for command, options in SCANS.items():
        row = chain.finds(f"{command} {options} --drive ssd-s")[0]
        assert row["queries_per_s"] * row["query_s"] == pytest.approx(1), command
        assert row["simulated_s"] >= row["channel_s"] > 0, command


@step("ssd near-data", "ssd space")
def _near(chain: Chain) -> None:
    row = chain.finds("ssd near-data inner-product")[0]
    assert row["speedup"] == pytest.approx(row["pull_s"] / row["near_s"])
    words = 'ssd space ssc --drive ssd-s --lanes 128 --scratchpad "7 MB" --contention dram'
    assert all(row["watts"] > 0 and row["lanes"] == 128 for row in chain.finds(words))


@step("database make", "database info", "database query", "database verify", needs=("encrypting",))
def _database(chain: Chain) -> None:
    chain.says("database make db --kind pir --params insecure-database --records 100 --record-bytes 6 -q")
    assert chain.finds("database info db")["complete"]
    assert chain.finds("database verify db")["verified_entries"] == 1
    found = chain.finds("database query db --index 3 --check")
    assert found["checked"]
    assert len(bytes.fromhex(found["records_hex"][0])) == 6


@step("database probe", after=("database make",), needs=("encrypting",))
def _probe(chain: Chain) -> None:
    found = chain.finds('database probe db --params insecure-database --size "8 MiB" -o disk.toml')
    assert found["read_bytes_per_s"] > 0
    assert "disk" in (chain.folder / "disk.toml").read_text()


def imagined(point: BenchPoint, run: int) -> float:
    """Seconds on a CPU that there is not."""
    kind = PRIMITIVES[point.item].kind
    assert kind is not None
    shape = primitive_shape(kind, point.params, point.limbs or point.params.num_q)
    return true_seconds(shape, point.params, point.threads) * (0.995 + 0.005 * (run % 3))


@step("predict fit", "predict run", "predict validate")
def _predict(chain: Chain) -> None:
    suite = """
        [[primitives]]
        items = ["add", "mult_plain", "rescale", "decompose", "rotate_hoisted", "rotate", "mult"]
        ring_dim = ["2^11", "2^12", "2^13"]
        depth = [4, 8]
        limbs = ["fresh", "last"]
        """
    folder_of(chain.folder / "measured", rows_of(points_of(suite), imagined))
    assert chain.finds("predict fit measured -o mine.toml --name mine")["machine"] == "mine"
    found = chain.finds(f"predict run inner-product --size ci --params {SET} --machine mine.toml --threads 1")
    assert found["low_s"] < found["predicted_s"] < found["high_s"]
    rows = chain.finds("predict validate measured --protocol unseen-ring-dim --model penstock")
    assert next(row for row in rows if row["application"] == "all")["mean_abs_error"] < 0.1


@step("predict precision", "predict suggest", "predict refresh")
def _suggest(chain: Chain) -> None:
    (row,) = chain.finds("predict precision inner-product --size ci")
    assert row["low_bits"] <= row["precision_bits"] <= row["high_bits"]
    asked = "inner-product --size ci --machine sharp --ring-dim 2^13 --dnum 2"
    assert chain.finds(f"predict suggest {asked}")[0]["security_bits"] >= 128
    asked = "--machine sharp --levels 6 --scale-bits 50 --dnum 4 --secret sparse-encapsulated"
    assert all(row["levels"] == 6 for row in chain.finds(f"predict refresh {asked}"))


@step("bench run", "bench compare", "bench export", needs=("openfhe",))
def _bench(chain: Chain) -> None:
    suite = '[timing]\nmin_time = "1 ms"\nruns = 2\n[[primitives]]\nitems = ["add", "rotate"]\nring_dim = "2^11"\n'
    (chain.folder / "tiny.toml").write_text(suite + 'depth = 4\nlimbs = ["fresh"]\n')
    rows = chain.finds("bench run --suite tiny.toml --threads 1 -o bench --store contexts")
    assert {row["item"] for row in rows} == {"add", "rotate"}
    assert all(row["ratio"] == 1 for row in chain.finds("bench compare bench bench"))
    exported = list(csv.DictReader(io.StringIO(chain.says("bench export bench --to csv"))))
    assert {row["item"] for row in exported} == {"add", "rotate"}


@step("profile", needs=("openfhe",))
def _profile(chain: Chain) -> None:
    found = chain.finds("profile inner-product --size ci --threads 1 --idle 0 --no-overhead")
    assert (found["passed"], found["num_operations"]) == (True, 36)
    assert {row["event"]: row["status"] for row in found["rows"]}["wall-time"] == "ok"


@step("reproduce fheins")
def _reproduce(chain: Chain) -> None:
    rows = {row["id"]: row for row in chain.finds("reproduce fheins")["rows"]}
    assert rows["pir.ssd-s.batch1.speedup"]["first_principles"] > 1


@step("explore")
def _explore(chain: Chain) -> None:
    rows = chain.finds("explore roofline tier=rdma workload=inner-product --print")
    assert all(row["workload"] == "inner-product" and row["slowdown"] >= 1 for row in rows)


@step("completion")
def _completion(chain: Chain) -> None:
    assert all("_PENSTOCK_COMPLETE" in chain.says(f"completion {shell}") for shell in ("bash", "zsh", "fish"))


@step("serve", "client deploy", needs=("encrypting",))
def _serve(chain: Chain) -> None:
    for module in ("fastapi", "sqlalchemy", "uvicorn"):
        pytest.importorskip(module, reason="the service is not installed: pip install 'penstock[serve]'")
    (chain.folder / "site").mkdir()
    chain.service = LiveService(chain.folder / "site")
    chain.ran.add("serve")
    token = chain.folder / "token"
    token.write_text(str(chain.service.tenant("bob").token))
    token.chmod(0o600)
    chain.access = f"--service {chain.service.url} --token-file token"
    write_score(chain.folder / "turns.pkg")
    (found,) = rows_in(chain.finds(f"client deploy turns.pkg --name turns {chain.access}"))
    assert found["name"] == "turns"


@step("client upload", "client uploaded", after=("serve",))
def _upload(chain: Chain) -> None:
    chain.says(f"client keygen bob --program turns --allow-insecure -q {chain.access}")
    chain.says(f"client upload bob --program turns -q {chain.access}")
    assert {"relin", "rot:5"} == {row["key"] for row in chain.finds(f"client uploaded {chain.access}")}


@step("client submit", "client wait", "client result", after=("client upload",))
def _job(chain: Chain) -> None:
    np.savez(chain.folder / "inputs.npz", x=X, w=W)
    submit = "client submit bob --program turns --input inputs.npz --allow-insecure"
    chain.says(f"{submit} --job one {chain.access}")
    (found,) = rows_in(chain.finds(f"client wait bob one {chain.access}"))
    assert found["state"] == "done"
    chain.says(f"client result bob one --for owner -o turned.npy -q {chain.access}")
    assert np.load(chain.folder / "turned.npy") == pytest.approx((X * W)[1:], abs=1e-4)


@step("load", after=("client submit",))
def _load(chain: Chain) -> None:
    submit = "client submit bob --program turns --input inputs.npz --allow-insecure"
    chain.says(f"{submit} --prepare ready -q {chain.access}")
    inputs = 'inputs = {x = "ready/input-0.ct", w = "ready/input-1.ct"}'
    tenant = f'[[tenant]]\nname = "bob"\ntoken_file = "token"\nprogram = "turns"\n{inputs}\n'
    (chain.folder / "tenants.toml").write_text(tenant)
    assert chain.service is not None
    words = f'load --service {chain.service.url} --tenants tenants.toml --rate 8 --duration "1 s"'
    found = chain.finds(words)
    assert found["done"] == found["jobs"] > 0


@step("client remove", after=("load",))
def _remove(chain: Chain) -> None:
    assert chain.finds(f"client remove keys --yes {chain.access}")["removed"]["keys"] == 2
    assert chain.finds(f"client uploaded {chain.access}") == []


def rows_in(found: Any) -> list[dict[str, Any]]:
    """Some verbs print a row as a list of one."""
    return found if isinstance(found, list) else [found]


@pytest.mark.parametrize("name", STEPS)
def test_a_verb_does_what_it_says(
    chain: Chain, name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in [each for each in os.environ if each.startswith("PENSTOCK_")]:
        monkeypatch.delenv(variable)
    monkeypatch.chdir(chain.folder)
    chain.run(name, request)


def test_no_command_is_left_out() -> None:
    """A new command needs a step here, or a line above that names its test."""
    run = {"run", *(command for each in STEPS.values() for command in each.commands)}
    assert set(commands()) - run == ELSEWHERE.keys() | LONGER.keys()
    assert not [verb for verb in cli.list_commands(click.Context(cli)) if verb in LONGER]


@pytest.mark.parametrize("command", ELSEWHERE)
def test_the_test_of_a_verb_that_runs_elsewhere_is_of_the_smoke_tier(command: str) -> None:
    file, _, test = ELSEWHERE[command].partition("::")
    before, found, _ = (ROOT / file).read_text().partition(f"def {test}(")
    assert found
    assert "@pytest.mark.smoke" in before.rpartition("\n\n\n")[2]


@pytest.mark.parametrize("command", LONGER)
def test_the_test_of_a_longer_subcommand_exists(command: str) -> None:
    assert command.split()[-1].replace("-", "_") in (ROOT / LONGER[command]).read_text().replace("-", "_")
