"""`penstock machines import-kernels`: a file of measured kernels to a machine, and files that break a rule."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.errors import MachineError
from penstock.front.cli.main import main
from penstock.lab.fit.kernel_rates import KernelTiming, kernel_machine, line_of, read_kernels
from penstock.scheme.machines import Evidence, load_machine
from penstock.scheme.machines.missing import NO_PRICE, missing
from penstock.scheme.operations import OpKind
from penstock.scheme.params import catalogue
from penstock.scheme.work.graph import KernelName
from penstock.scheme.work.kernel_work import KernelWork
from penstock.scheme.work.kernels import kernel_work

N = 2**16
START, RATES = 3e-6, {"transform": 2e12, "base-conversion": 4e12, "product": 1.5e11, "automorphism": 2e11}
HEAD = "kernel,limbs,ring_dim,word_bits,seconds,sources\n"


def rows(*, word_bits: int = 32, slower: float = 1.0) -> list[dict[str, object]]:
    """Exact timings of 24 to 60 limbs."""
    found = []
    for name, rate in RATES.items():
        for limbs in (24, 36, 48, 60):
            more = {"sources": 12} if name == "base-conversion" else {}
            timing = KernelTiming(
                kernel=KernelName(name), limbs=limbs, ring_dim=N, word_bits=word_bits, seconds=1.0, **more
            )
            seconds = slower * (START + timing.work / rate)
            found.append(
                {"kernel": name, "limbs": limbs, "ring_dim": N, "word_bits": word_bits, "seconds": seconds, **more}
            )
    return found


def as_csv(timings: list[dict[str, object]]) -> str:
    columns = HEAD.strip().split(",")
    return HEAD + "".join(",".join(str(row.get(name, "")) for name in columns) + "\n" for row in timings)


@pytest.mark.parametrize("form", ["csv", "json", "object"])
def test_rates_and_starts_come_back(tmp_path: Path, form: str) -> None:
    path = tmp_path / "kernels"
    text = {
        "csv": as_csv(rows()),
        "json": json.dumps(rows()),
        "object": json.dumps({"name": "lab", "title": "a GPU of ours", "batch": 4, "kernels": rows()}),
    }[form]
    path.write_text(text)
    output = tmp_path / "mine.toml"
    assert main(["machines", "import-kernels", str(path), "-o", str(output), "--quiet"]) == 0
    machine = load_machine(output)
    assert machine.gpu is not None
    assert machine.name == ("lab" if form == "object" else "mine")
    assert machine.gpu.most_ciphertexts == (4 if form == "object" else 1)
    assert machine.utilisation is None
    for name, kernel in (
        ("transform", "transforms"),
        ("base-conversion", "base_conversion"),
        ("product", "multiplications"),
        ("automorphism", "automorphisms"),
    ):
        known = machine.gpu.kernels[kernel]
        assert known.rate.value == pytest.approx(RATES[name], rel=1e-5)
        assert known.start is not None
        assert known.start.value == pytest.approx(START, rel=1e-4)
        assert known.rate.kind is Evidence.MEASURED
        assert "24 to 60 limbs" in known.rate.source
    work = KernelWork(ring_dim=N, limb_transforms=30, transform_loops=((30, 1),))
    assert machine.price(work).seconds == pytest.approx(START + 30 * N / 2 * 16 / RATES["transform"], rel=1e-4)
    unmeasured = {each.field: each.taken for each in missing(machine) if each.field.startswith("gpu.")}
    assert unmeasured == {"gpu.kernels.key_products": NO_PRICE, "gpu.kernels.additions": NO_PRICE}


def test_the_machine_simulates_and_predicts_like_any_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, output = tmp_path / "kernels.csv", tmp_path / "mine.toml"
    path.write_text(as_csv(rows()))
    assert main(["machines", "import-kernels", str(path), "-o", str(output)]) == 0
    said = capsys.readouterr()
    assert "transforms" in said.out
    assert "additions was not measured: operations that need it have no price" in said.err
    words = ("inner-product", "--params", "cheddar-30", "--machine", str(output))
    assert main(["simulate", *words, "--tier", "pcie5", "--format", "json"]) == 0
    (simulated,) = json.loads(capsys.readouterr().out)
    assert main(["predict", "run", *words, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    # Sums and products with keys were not measured: times are lower bounds.
    assert found["predicted_s"] is simulated["compute_s"] is None
    assert found["unpriced"].keys() == simulated["unpriced"].keys() >= {"add", "rotate"}
    assert found["at_least"]["predicted_s"] == pytest.approx(simulated["at_least"]["compute_s"], rel=0.2)
    assert main(["machines", "import-kernels", str(path), "-o", str(output)]) != 0
    assert "--force" in capsys.readouterr().err
    assert main(["machines", "import-kernels", str(path), "-o", str(output), "--force", "--format", "json"]) == 0
    first = json.loads(capsys.readouterr().out)[0]
    assert (first["kernel"], first["timings"], first["limbs_from"], first["limbs_to"]) == ("transforms", 4, 24, 60)
    assert first["worst_error"] < 1e-6


def test_one_word_width_is_chosen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, output = tmp_path / "kernels.json", tmp_path / "mine.toml"
    path.write_text(json.dumps([*rows(), *rows(word_bits=64, slower=3.0)]))
    assert main(["machines", "import-kernels", str(path), "-o", str(output)]) == 2
    assert "choose with --word-bits 32" in " ".join(capsys.readouterr().err.split())
    times = []
    for width in ("32", "64"):
        assert main(["machines", "import-kernels", str(path), "-o", str(output), "--word-bits", width, "--force"]) == 0
        machine = load_machine(output)
        assert machine.architecture.word is not None
        assert machine.architecture.word.value == int(width)
        times.append(machine.price(kernel_work(OpKind.ROTATE, catalogue.get("cheddar-30"), 30)).seconds)
    assert times[1] == pytest.approx(3 * times[0], rel=1e-4)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no timings"),
        ("[]", "no timings"),
        ("{", "not a file of kernels"),
        ('{"kernel": []}', "unknown key 'kernel': did you mean 'kernels'"),
        ("kernel,limbs,ring_dim,seconds\ntransform,24,65536,1e-5\n", "timing 1: column 'word_bits' is missing"),
        (HEAD + "transforms,24,65536,32,1e-5,\n", "timing 1: unknown kernel 'transforms': did you mean 'transform'"),
        (HEAD + "transform,24,65536,32,1e-5,\ntransform,2.5,65536,32,1e-5,\n", "timing 2: limbs '2.5' is not a whole"),
        (HEAD + "transform,24,65000,32,1e-5,\n", "timing 1: ring_dim 65000 is not a power of two"),
        (HEAD + "transform,24,65536,48,1e-5,\n", "timing 1: word_bits 48: .* 32 or 64 bits"),
        (HEAD + "transform,24,65536,32,-1,\n", "timing 1: seconds '-1' is not a number of seconds above 0"),
        (HEAD + "transform,24,65536,32,nan,\n", "timing 1: seconds 'nan'"),
        (HEAD + "base-conversion,24,65536,32,1e-5,\n", "a base-conversion needs column 'sources'"),
        (HEAD + "transform,24,65536,32,1e-5,3\n", "a transform has no 'sources'"),
        (HEAD + "transform,24,65536\n", "line 2: .*each line has the cells of the first one"),
        ("kernel,limbs,ring_dim,word_bits,seconds,batches\ntransform,24,65536,32,1e-5,1\n", "unknown column 'batches'"),
        (HEAD + "product,24,65536,32,1e-5,\n", "no timing of a transform on words of 32 bits"),
        (
            HEAD + "transform,24,65536,32,2e-5,\ntransform,48,65536,32,1e-5,\n",
            "transforms takes no longer for more limbs",
        ),
        ('[{"kernel": "transform", "limbs": true, "ring_dim": 65536, "word_bits": 32, "seconds": 1}]', "limbs 'True'"),
        ('["transform"]', "timing 1: not an object"),
        ('{"name": "", "kernels": []}', "no timings"),
    ],
)
def test_a_file_that_breaks_a_rule_is_refused_with_its_row(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "kernels.csv"
    path.write_text(text)
    with pytest.raises(MachineError, match=message):
        kernel_machine(read_kernels(path), str(path), name="mine")


def test_one_size_gives_a_rate_without_a_start() -> None:
    timing = KernelTiming(kernel=KernelName.PRODUCT, limbs=24, ring_dim=N, word_bits=32, seconds=1e-5)
    line = line_of("multiplications", [timing], "a test")
    assert line.rate_per_s == pytest.approx(24 * N / 1e-5)
    assert line.start_s == 0.0


def test_a_line_that_would_start_before_zero_goes_through_it() -> None:
    timings = [
        KernelTiming(kernel=KernelName.PRODUCT, limbs=limbs, ring_dim=N, word_bits=32, seconds=seconds)
        for limbs, seconds in ((10, 1e-6), (20, 2.2e-6), (40, 4.8e-6))
    ]
    line = line_of("multiplications", timings, "a test")
    assert line.start_s == 0.0
    assert 0 < line.worst_error < 0.15
