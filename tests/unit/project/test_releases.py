"""What is said of releases holds: one version everywhere, every format's number on the page, a whole citation."""

from __future__ import annotations

import ast
import re
from itertools import pairwise
from typing import Any

import pytest
import yaml

from penstock.base.system import toml
from penstock.base.version import __version__
from support.docs_blocks import ROOT

PAGE = ROOT / "docs" / "reference" / "releases.md"
FORMAT_NAME = re.compile(r"(?:[A-Z]+_)*(?:VERSION|FORMAT)(?:_[A-Z]+)*")


def python_numbers(text: str) -> dict[str, int]:
    """Names of a module that say a format's version -> the number, also where several are assigned at once."""
    found: dict[str, int] = {}
    for node in ast.parse(text).body:
        if not isinstance(node, ast.Assign | ast.AnnAssign):
            continue
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=True))
            for name, value in pairs:
                number = value.value if isinstance(value, ast.Constant) else None
                if isinstance(name, ast.Name) and FORMAT_NAME.fullmatch(name.id) and type(number) is int:
                    found[name.id] = number
    return found


def rust_numbers(text: str) -> dict[str, int]:
    """The same of a Rust module."""
    constants = re.findall(r"^\s*(?:pub(?:\([a-z]+\))? )?(?:const|static) (\w+): [iu]\w+ = (\d+);", text, re.M)
    return {name: int(number) for name, number in constants if FORMAT_NAME.fullmatch(name)}


def numbers_in_the_code() -> set[tuple[str, str, int]]:
    sources = [*(ROOT / "src").rglob("*.py"), *(ROOT / "crates").glob("*/src/**/*.rs")]
    found: set[tuple[str, str, int]] = set()
    for path in sources:
        numbers = (python_numbers if path.suffix == ".py" else rust_numbers)(path.read_text())
        found |= {(path.relative_to(ROOT).as_posix(), name, number) for name, number in numbers.items()}
    return found


def test_a_formats_number_is_found_however_it_is_written() -> None:
    assert python_numbers(
        'MAGIC, VERSION = b"x", 3\nPACK_VERSION: int = 2\nCONVERSION_THREADS = 8\nFORMATS = ("a",)\n__version__ = "1"'
    ) == {
        "VERSION": 3,
        "PACK_VERSION": 2,
    }
    assert rust_numbers("const VERSION: u32 = 4;\npub const FORMAT: i64 = 5;\nconst OTHER: u32 = 6;") == {
        "VERSION": 4,
        "FORMAT": 5,
    }


def test_the_page_of_releases_names_every_formats_number_and_no_other() -> None:
    rows = re.findall(r"^\|.*\| `(\w+)` in `([\w./-]+)` \| (\d+) \|", PAGE.read_text(), re.M)
    stated = {(path, name, int(number)) for name, path, number in rows}
    assert len(rows) == len(stated) >= 8
    assert stated == numbers_in_the_code(), "a format's number is another, or not in docs/reference/releases.md"


def written(name: str) -> dict[str, Any]:
    return toml.loads((ROOT / name).read_text())


def citation() -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    return read


def test_every_place_that_states_the_version_states_the_same() -> None:
    crates = {each["name"]: each["version"] for each in written("Cargo.lock")["package"] if "source" not in each}
    assert crates.keys() == {path.parent.name for path in (ROOT / "crates").glob("*/Cargo.toml")}
    assert {
        "pyproject.toml": written("pyproject.toml")["project"]["version"],
        "studies/pyproject.toml": written("studies/pyproject.toml")["project"]["version"],
        "Cargo.toml": written("Cargo.toml")["workspace"]["package"]["version"],
        "CITATION.cff": citation()["version"],
        **crates,
    } == dict.fromkeys(("pyproject.toml", "studies/pyproject.toml", "Cargo.toml", "CITATION.cff", *crates), __version__)
    assert f"penstock=={__version__}" in written("studies/pyproject.toml")["project"]["dependencies"]


HEADING = re.compile(r"(\d+)\.(\d+)\.(\d+) \((unreleased|\d{4}-\d{2}-\d{2})\)")


def faults_of_the_changelog(text: str, version: str) -> list[str]:
    """Where a changelog breaks the rules of docs/reference/releases.md, for code of that version."""
    sections = re.split(r"^## ", text, flags=re.M)[1:]
    headings = [each.partition("\n")[0] for each in sections]
    read = [HEADING.fullmatch(each) for each in headings]
    faults = [
        f"'{heading}' is no version with a date" for heading, found in zip(headings, read, strict=True) if not found
    ]
    known = [(tuple(map(int, found.groups()[:3])), found[4]) for found in read if found]
    if any(number <= below for (number, _), (below, _) in pairwise(known)):
        faults.append("the newest version is not first")
    if any(date == "unreleased" for _, date in known[1:]):
        faults.append("an unreleased version below the first heading")
    dated = [".".join(map(str, number)) for number, date in known if date != "unreleased"]
    if dated[:1] != [version]:
        faults.append(f"the newest version with a date is not {version}")
    if sections and "**Migration**" in sections[-1]:
        faults.append("the first version has a Migration entry")
    return faults


def test_the_changelog_begins_with_the_work_after_this_version() -> None:
    assert faults_of_the_changelog((ROOT / "CHANGELOG.md").read_text(), __version__) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "the newest version with a date is not 1.2.0"),
        ("## 1.3.0 (unreleased)\n", "the newest version with a date is not 1.2.0"),
        ("## 1.3.0 (2026-01-02)\n## 1.2.0 (2026-01-01)\n", "the newest version with a date is not 1.2.0"),
        ("## 1.2.0 (unreleased)\n## 1.2.0 (2026-01-01)\n", "the newest version is not first"),
        ("## 1.2.0 (2026-01-01)\n## 1.3.0 (unreleased)\n", "an unreleased version below the first heading"),
        ("## Unreleased\n## 1.2.0 (2026-01-01)\n", "'Unreleased' is no version with a date"),
        ("## 1.2.0 (2026-01-01)\n- Old. **Migration**: new.\n", "the first version has a Migration entry"),
    ],
)
def test_a_changelog_that_breaks_a_rule_is_found(text: str, fault: str) -> None:
    assert fault in faults_of_the_changelog(text, "1.2.0")


def test_a_changelog_is_whole_before_and_after_a_release() -> None:
    first = "## 1.2.0 (2026-01-01)\n- A line.\n"
    assert faults_of_the_changelog(first, "1.2.0") == []
    assert faults_of_the_changelog(f"## 1.3.0 (unreleased)\n- **Migration**: a line.\n{first}", "1.2.0") == []
    assert faults_of_the_changelog(f"## 1.3.0 (2026-02-01)\n- **Migration**: a line.\n{first}", "1.3.0") == []


def test_the_citation_says_what_the_project_file_says_and_names_the_three_works() -> None:
    cited, project = citation(), written("pyproject.toml")["project"]
    assert (cited["cff-version"], cited["type"], cited["title"]) == ("1.2.0", "software", project["name"])
    assert (cited["license"], cited["abstract"]) == (project["license"], project["description"])
    assert cited["authors"] == [{"name": "The penstock authors"}]
    assert cited["message"]
    pages = {"io-study": "Storage I/O", "fheins": "FHEIns", "cryptoracle": "CryptOracle"}
    assert len(cited["references"]) == len(pages)
    sources = "".join(path.read_text() for path in (ROOT / "studies" / "penstock_studies").rglob("*.py"))
    told = " ".join(sources.split())
    for work, word in zip(cited["references"], pages.values(), strict=True):
        assert word in work["title"]
        assert work["title"] in told, "a title that no study states"
        assert work["type"]
        assert all(author["name"] for author in work["authors"])


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "SECURITY.md", "CITATION.cff", "docs/reference/releases.md"])
def test_the_first_page_leads_to_the_files_of_the_project(name: str) -> None:
    assert f"]({name})" in (ROOT / "README.md").read_text()


def test_the_page_of_security_leads_to_what_the_documentation_promises() -> None:
    text = (ROOT / "SECURITY.md").read_text()
    for page in ("keystore", "native", "tenants", "releases"):
        assert f"/{page}.md" in text
    for page, anchor in re.findall(r"\]\((docs/[\w-]+\.md)#([\w-]+)\)", text):
        headings = re.findall(r"^#+ (.+)$", (ROOT / page).read_text(), re.M)
        assert anchor in {re.sub(r"[^\w -]", "", each).strip().lower().replace(" ", "-") for each in headings}, anchor
