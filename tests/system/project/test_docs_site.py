"""The documentation as a site: no warning, opened from the disk, a reference made from the code and the studies."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from support.browser import Watched, chromium
from support.docs_blocks import ROOT


def script(name: str) -> ModuleType:
    """A script of the repository as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def reference() -> dict[str, str]:
    pages: dict[str, str] = script("docs_reference").pages()
    return pages


def test_the_reference_has_every_command_with_every_option(reference: dict[str, str]) -> None:
    page = reference["reference/command-line.md"]
    for words, command, _ in script("docs_reference").commands():
        assert f"# `{' '.join(words)}`" in page
        for parameter in command.params:
            if parameter.param_type_name == "option" and not getattr(parameter, "hidden", False):
                assert parameter.opts[0] in page, (words, parameter.opts)


def test_the_catalogue_has_every_machine_set_workload_policy_and_kind(reference: dict[str, str]) -> None:
    from penstock.program import workloads
    from penstock.scheme.machines import machine_names
    from penstock.scheme.operations import KINDS
    from penstock.scheme.params import catalogue
    from penstock.scheme.play.caches import POLICIES

    page = reference["reference/catalogue.md"]
    for name in (*machine_names(), *catalogue.names(), *workloads.names(), *KINDS, *POLICIES):
        assert re.search(rf"[|`] ?{re.escape(name)}[ `|]", page), name


def test_the_python_reference_has_what_is_public_and_nothing_else(reference: dict[str, str]) -> None:
    import penstock

    page = reference["reference/python.md"]
    for name in set(penstock.__all__) - {"__version__"}:
        assert f"### `{name}`" in page, name
    for name in ("Result", "Simulation", "Predicted", "Simulation", "Traced", "UnknownName"):
        assert f"### `{name}`" in page, name
    assert "#### `Result.to_pandas`" in page
    assert "price_trace" not in page


def test_each_room_has_a_page_of_its_own(reference: dict[str, str]) -> None:
    source, studies = ROOT / "src" / "penstock", ROOT / "studies" / "penstock_studies"
    folders = {
        path.parent.relative_to(source) for depth in ("*", "*/*") for path in source.glob(f"{depth}/__init__.py")
    }
    rooms = {".".join(folder.parts) for folder in folders}
    rooms |= {"studies", *(f"studies.{path.parent.name}" for path in studies.glob("*/__init__.py"))}
    assert {name for name in reference if name.startswith("source/")} == {
        f"source/{name}.md" for name in (*rooms, "index")
    }
    page = reference["source/scheme.play.md"]
    assert "#### `price_trace`" in page
    assert "Cost and accesses of every server operation of a trace." in page
    assert "## `penstock.lab.simulation.memory.levels`" in reference["source/lab.simulation.md"]


def test_the_reference_holds_no_address(reference: dict[str, str]) -> None:
    for name, page in reference.items():
        assert not re.search(r"0x[0-9a-f]{6,}", page), name


def test_no_word_of_the_reference_is_taken_for_a_tag(reference: dict[str, str]) -> None:
    """`<script>` in a help text swallows what follows it in the page."""
    for name, page in reference.items():
        words = re.sub(r"^ *```.*?^ *```|`[^`\n]*`", "", page, flags=re.S | re.M)
        assert not re.findall(r"<(?!/?code>)[A-Za-z/!][^>]*>", words), name


def test_every_page_is_in_the_navigation_once() -> None:
    nav = re.findall(r"- ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M)
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    made = {name for name in nav if name.startswith(("reference/", "source/"))}
    assert not pages - set(nav), "name these pages under nav in mkdocs.yml"
    assert sorted(nav) == sorted(pages | made)


def built(folder: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """`mkdocs build` in a folder, with the words of `make docs`; a skip where mkdocs is missing."""
    if importlib.util.find_spec("mkdocs") is None:
        pytest.skip("mkdocs is not installed: 'make docs' installs it")
    found = re.search(r"/mkdocs (build.*)$", (ROOT / "Makefile").read_text(), re.M)
    assert found is not None
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", *found[1].split(), "--site-dir", str(site)],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        timeout=180,
        env={"NO_MKDOCS_2_WARNING": "1", "DISABLE_MKDOCS_2_WARNING": "true", "PATH": ""},
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[a](nowhere.md)", "'nowhere.md'"),
        ("[a](#nowhere)", "no such anchor"),
        ("[a](other.md#nowhere)", "does not contain an anchor"),
        ("[a](/other/)", "absolute link"),
        ("![a](images/none.svg)", "images/none.svg"),
        ("", 'not included in the "nav"'),
    ],
)
def test_a_broken_link_or_a_forgotten_page_fails_the_build(tmp_path: Path, text: str, complaint: str) -> None:
    rules = (ROOT / "mkdocs.yml").read_text().partition("validation:\n")[2]
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(f"# Here\n\n{text}\n")
    (tmp_path / "docs" / "other.md").write_text("# There\n")
    pages = "[index.md, other.md]" if text else "[index.md]"
    (tmp_path / "mkdocs.yml").write_text(f"site_name: a\nnav: {pages}\nvalidation:\n{rules}")
    done = built(tmp_path, tmp_path / "site")
    assert done.returncode == 1
    assert complaint in done.stderr


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built site."""
    folder = tmp_path_factory.mktemp("documentation") / "site"
    done = built(ROOT, folder)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stdout + done.stderr
    return folder


def test_the_site_is_built_without_a_warning(site: Path) -> None:
    for page in ("start", "tutorials/researcher", "reference/command-line", "validation"):
        html = (site / f"{page}.html").read_text()
        assert not re.search(r"""<(?:script|link|img)[^>]+(?:src|href)=["'](?:https?:)?//""", html), page


class Links(HTMLParser):
    """Where the links, scripts and pictures of a page lead."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for name, value in attrs if name in ("href", "src")]


def test_every_link_of_the_site_leads_to_a_file_beside_the_page(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 60
    seen = 0
    for page in pages:
        for link in Links(page.read_text()).found:
            there = urlsplit(link)
            if there.scheme in ("http", "https"):
                continue
            assert not there.scheme, (page.name, link)
            assert not there.netloc, (page.name, link)
            assert not there.path.startswith("/"), (page.name, link)
            assert not there.path or (page.parent / unquote(there.path)).is_file(), (page.name, link)
            seen += 1
    assert seen > 1000


@pytest.fixture(scope="module")
def browser(site: Path) -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture
def reader(site: Path, browser: Any) -> Iterator[Any]:
    """A page that has the site open from the disk; it may send no request elsewhere, and meet no error."""
    watched = Watched(browser, site.as_uri())
    watched.page.goto(f"{watched.site}/index.html")
    yield watched.page
    watched.close()
    assert all(urlsplit(each).scheme == "file" for each in watched.requests)


def test_a_reader_follows_the_navigation_from_the_disk(site: Path, reader: Any) -> None:
    reader.click(".md-tabs >> text=Reference")
    reader.click(".md-nav--primary >> text=Releases")
    reader.wait_for_url(f"{site.as_uri()}/reference/releases.html")
    assert reader.inner_text("h1").startswith("Releases")
    reader.click(".md-header__button.md-logo")
    reader.wait_for_url(f"{site.as_uri()}/index.html")


def search(reader: Any, word: str) -> None:
    """Type a word once the search has read its index."""
    reader.click("input.md-search__input")
    reader.wait_for_selector(".md-search-result__meta:has-text('Type to start searching')")
    reader.locator("input.md-search__input").press_sequentially(word)


def test_a_reader_searches_a_word_from_the_disk(site: Path, reader: Any) -> None:
    search(reader, "arbitration")
    found = reader.wait_for_selector("a.md-search-result__link")
    assert "matching document" in reader.inner_text(".md-search-result__meta")
    found.click()
    reader.wait_for_url(f"{site.as_uri()}/**")
    assert "arbitration" in reader.inner_text("article").lower()
    assert reader.url != f"{site.as_uri()}/index.html"


def test_a_word_that_no_page_has_is_not_found_from_the_disk(reader: Any) -> None:
    search(reader, "zyzzogeton")
    reader.wait_for_selector(".md-search-result__meta:has-text('No matching documents')")


def test_the_validation_page_is_what_the_studies_say() -> None:
    """The quickest study stands for all: `scripts/validation.py --check` holds the page against each."""
    validation = script("validation")
    assert (
        validation.section("cryptoracle", validation.reproduced("cryptoracle"))
        in (ROOT / "docs" / "studies" / "validation.md").read_text()
    )


def test_pictures_have_a_title_and_reach_for_nothing_outside() -> None:
    pictures = sorted((ROOT / "docs" / "images").glob("*.svg"))
    assert len(pictures) >= 5
    for path in pictures:
        text = path.read_text()
        outside = [url for url in re.findall(r"https?://[^\"'<> ]+", text) if not re.search(r"w3\.org|purl\.org", url)]
        assert not [url for url in outside if f'href="{url}' in text], path.name
        assert path.stat().st_size < 200_000
    for name in ("readings", "key-switch", "hierarchy", "ssd"):
        assert "<title>" in (ROOT / "docs" / "images" / f"{name}.svg").read_text()
