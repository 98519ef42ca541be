"""What is said of a TOML file that breaks a rule: what, where, the rule, the remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from penstock.base.system import toml
from penstock.base.system.files import FileError
from penstock.errors import MachineError, ParamsError, UnknownName, UsageError


def _even(value: Any) -> Any:
    if isinstance(value, int) and value % 2:
        raise ValueError(f"{value} is odd; write an even number")
    return value


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Rate(Strict):
    value: str = Field(examples=['"… GB/s"'])
    source: str = Field(examples=['"…"'])


class Level(Strict):
    name: str
    size: int | str = 0
    parts: dict[str, Rate] = {}
    beside: str | None = Field(default=None, alias="with")


class Levels(Strict):
    title: str
    levels: list[Level] = []
    rate: Rate | None = None
    count: Annotated[int, BeforeValidator(_even)] = 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "x.toml: 'title' is missing; write a text: title = \"…\""),
        ('tilte = "a"', "x.toml: unknown key 'tilte': did you mean 'title'? known: about, count, levels, rate, title"),
        ('title = "a"\ncount = 3', "x.toml: count: 3 is odd; write an even number"),
        ('title = "a"\nrate = "7 GB/s"',
         "x.toml: 'rate' is '7 GB/s'; write a table: { value = \"… GB/s\", source = \"…\" }"),
        ('title = "a"\nrate = { value = 7, source = "b" }',
         "x.toml: 'rate.value' is 7: input should be a valid string; a quantity is a string with its unit"),
        ('title = "a"\n[[levels]]\nname = "b"\n[[levels]]\nsize = 1',
         "x.toml: 'levels[1].name' is missing; write a text: name = \"…\""),
        ('title = "a"\n[[levels]]\nname = "b"\nwth = "c"',
         "x.toml: unknown key 'levels[0].wth': did you mean 'with'? known: name, parts, size, with"),
        ('title = "a"\n[[levels]]\nname = "b"\nwith = true', "x.toml: 'levels[0].with' is True: "),
        ('title = "a"\n[[levels]]\nname = "b"\nsize = 1.5', "x.toml: 'levels[0].size' is 1.5: "),
        ('title = "a"\n[[levels]]\nname = "b"\n[levels.parts.int]\nvalue = "1 GB/s"\nsorce = "c"',
         "x.toml: unknown key 'levels[0].parts.int.sorce': did you mean 'source'? known: source, value"),
    ],
)  # fmt: skip
def test_the_first_problem_is_named_with_its_field_and_a_remedy(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        toml.checked(Levels, toml.loads(text), "x.toml", also=("about",))
    assert str(caught.value).startswith(message)


def test_an_unknown_key_is_an_unknown_name_or_the_machine_error_that_was_asked_for() -> None:
    with pytest.raises(UnknownName) as caught:
        toml.checked(Levels, {"tilte": "a"}, "x.toml", error=ParamsError)
    assert caught.value.nearest == "title"
    with pytest.raises(MachineError, match="did you mean 'title'"):
        toml.checked(Levels, {"tilte": "a"}, "x.toml", error=MachineError)


def test_what_is_no_table_says_so() -> None:
    with pytest.raises(UsageError, match="job 0: it is 3; write a table"):
        toml.checked(Levels, 3, "job 0")  # type: ignore[arg-type]


def test_a_file_is_read_and_checked(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text('title = "a"\n')
    assert toml.checked(Levels, path, str(path)).title == "a"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(MachineError, match=r"x\.toml: a file of levels is TOML, and this is not: .* UTF-16"):
        toml.checked(Levels, path, str(path), "a file of levels", MachineError)


def test_a_file_that_is_not_there_is_named_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "none.toml"
    with pytest.raises(ParamsError, match=r"none\.toml: no such file; see the list"):
        toml.table(path, str(path), "a set", ParamsError, missing="see the list")
    with pytest.raises(FileError, match="check the path"):
        toml.table(path, str(path), "a set")
    with pytest.raises(FileError, match="it is a folder"):
        toml.table(tmp_path, str(tmp_path), "a set", missing="see the list")
