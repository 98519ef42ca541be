"""Rows of `penstock reproduce io-study`: errors, bounds, contradictions, and how the command ends on bad input."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.front.cli.main import main
from penstock_studies.io_study.data import PrintedNumber
from penstock_studies.io_study.rows import row


def _row(
    published: PrintedNumber | None, calibrated: float | None, ours: float | None, **options: str
) -> dict[str, object]:
    return row("a.b", "single-host", "slowdown", ours, published=published, calibrated=calibrated, **options)


def test_errors_are_relative_and_signed() -> None:
    made = _row(PrintedNumber("2.0"), 1.99, 2.5, because="an assumption")
    assert made["error_calibrated"] == pytest.approx(-0.005)
    assert made["error_first_principles"] == pytest.approx(0.25)
    assert made["note"] == "an assumption"


def test_a_close_row_needs_no_reason() -> None:
    assert _row(PrintedNumber("2.0"), 2.0, 2.1, because="an assumption")["note"] == ""


def test_rounding_is_told_from_a_miss() -> None:
    assert "agrees with the digits printed (4.0)" in str(_row(PrintedNumber("4.0"), 4.045, None)["note"])
    assert "differs from the digits printed (4.0)" in str(_row(PrintedNumber("4.0"), 4.1, None)["note"])


def test_a_bound_has_no_error_and_says_whether_it_holds() -> None:
    made = _row(PrintedNumber("5", bound=True), 4.0, 6.0)
    assert made["published"] == 5.0
    assert made["error_calibrated"] is made["error_first_principles"] is None
    assert made["note"] == "bound: calibrated does not hold; bound: first principles holds"


def test_other_policies_and_unpublished_rows_have_no_error() -> None:
    other = _row(PrintedNumber("2.0"), 1.0, 3.0, policy="lru")
    assert (other["published"], other["error_calibrated"], other["error_first_principles"]) == (2.0, None, None)
    assert _row(None, 1.0, 3.0)["error_first_principles"] is None


def test_a_contradiction_says_so_and_keeps_its_error() -> None:
    made = _row(PrintedNumber("5130"), 4452.0, None, contradicts="another row")
    assert made["error_calibrated"] == pytest.approx(-0.132, abs=1e-3)
    assert made["note"] == "contradiction within the study: another row"


@pytest.mark.parametrize(("study", "module"), [("io-study", "io_study"), ("fheins", "fheins")])
def test_a_folder_that_cannot_be_made_ends_before_anything_is_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], study: str, module: str
) -> None:
    def computed() -> None:
        raise AssertionError("rows were computed")

    monkeypatch.setattr(f"penstock_studies.{module}.reproduction.rows", computed)
    (tmp_path / "file").write_text("")
    assert main(["reproduce", study, "--figures", str(tmp_path / "file" / "figures")]) == 1
    said = capsys.readouterr().err
    assert f"cannot create {tmp_path}/file/figures: a part of the path is a file" in said
    assert "free some space" not in said


def test_bad_options_are_usage_errors(tmp_path: Path) -> None:
    file = tmp_path / "figures"
    file.write_text("")
    assert main(["reproduce", "io-study", "--format", "xml"]) == 2
    assert main(["reproduce", "io-study", "--figures", str(file)]) == 2
    assert main(["reproduce", "io-studie"]) == 2
