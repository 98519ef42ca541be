"""GitHub's files are valid, run what .ci/run and `make lint` run, and pin every action."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.docs_blocks import ROOT

FOLDER = ROOT / ".github"
SCHEMAS = {
    "vendor.github-workflows": "workflows/*.yml",
    "custom.github-workflows-require-timeout": "workflows/*.yml",
    "vendor.github-actions": "actions/*/action.yml",
    "vendor.dependabot": "dependabot.yml",
    "vendor.github-issue-config": "ISSUE_TEMPLATE/config.yml",
    "vendor.github-issue-forms": "ISSUE_TEMPLATE/[!c]*.yml",
}
WORKFLOWS = sorted(FOLDER.glob("workflows/*.yml"))
STEPS = [*WORKFLOWS, *FOLDER.glob("actions/*/action.yml")]
PINNED = re.compile(r"uses: (?:\./\S+|[\w-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+)")


def refusal(schema: str, *files: Path) -> str:
    """The schema's complaint; empty where all files are valid."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr if done.returncode else ""


def loaded(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def commands(document: Any) -> Iterator[str]:
    """The `run` of every step, at any depth."""
    for key, value in document.items() if isinstance(document, dict) else enumerate(document):
        if key == "run" and isinstance(value, str):
            yield value
        elif isinstance(value, dict | list):
            yield from commands(value)


def targets(text: str) -> list[str]:
    return re.findall(r"^ *make ([a-z-]+)", text, re.M)


def targets_of(path: Path) -> set[str]:
    """Of a workflow and of the project's actions that it uses."""
    used = re.findall(r"uses: \./(\S+)", path.read_text())
    documents = [loaded(path), *(loaded(ROOT / folder / "action.yml") for folder in used)]
    return {target for document in documents for command in commands(document) for target in targets(command)}


def unpinned(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if "uses:" in line and not PINNED.search(line)]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_every_file_follows_its_schema(schema: str) -> None:
    files = sorted(FOLDER.glob(SCHEMAS[schema]))
    assert files
    assert refusal(schema, *files) == ""


def test_no_file_is_without_a_schema() -> None:
    assert set(FOLDER.rglob("*.yml")) == {path for glob in SCHEMAS.values() for path in FOLDER.glob(glob)}


@pytest.mark.parametrize(
    ("schema", "name", "old", "new"),
    [
        ("vendor.github-workflows", "workflows/ci.yml", "runs-on", "run-on"),
        ("custom.github-workflows-require-timeout", "workflows/ci.yml", "timeout-minutes: 30", ""),
        ("vendor.github-actions", "actions/setup/action.yml", "description", "describe"),
        ("vendor.dependabot", "dependabot.yml", "interval: weekly", "interval: sometimes"),
        ("vendor.github-issue-config", "ISSUE_TEMPLATE/config.yml", "about:", "of:"),
        ("vendor.github-issue-forms", "ISSUE_TEMPLATE/fault.yml", "type: textarea", "type: text"),
    ],
)
def test_a_slip_is_refused(tmp_path: Path, schema: str, name: str, old: str, new: str) -> None:
    text = (FOLDER / name).read_text()
    assert old in text
    damaged = tmp_path / "damaged.yml"
    damaged.write_text(text.replace(old, new))
    assert "damaged.yml" in refusal(schema, damaged)


def test_every_target_of_a_workflow_is_in_the_makefile() -> None:
    there = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    assert {path.name: targets_of(path) - there for path in WORKFLOWS} == {path.name: set() for path in WORKFLOWS}
    assert all(targets_of(path) - {"setup"} for path in WORKFLOWS)


def test_a_proposal_passes_all_that_ci_run_runs() -> None:
    wanted = set(targets((ROOT / ".ci/run").read_text()))
    assert {"setup", "docs", "test", "lint"} <= wanted
    assert wanted <= targets_of(FOLDER / "workflows/ci.yml")


def test_every_action_is_pinned_to_a_commit() -> None:
    assert {path.name: unpinned(path.read_text()) for path in STEPS} == {path.name: [] for path in STEPS}
    assert unpinned("- uses: actions/checkout@v4\n- uses: ./here\n- uses: a/b@abc # v1.0.0") == [
        "- uses: actions/checkout@v4",
        "- uses: a/b@abc # v1.0.0",
    ]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_may_only_read(path: Path) -> None:
    document = loaded(path)
    assert document["permissions"] == {"contents": "read"}
    assert "group" in document["concurrency"]
    assert not any("permissions" in job for job in document["jobs"].values())
    checkouts = path.read_text().count("actions/checkout@")
    assert path.read_text().count("persist-credentials: false") == checkouts == len(document["jobs"])


def expanded(command: str) -> tuple[str, ...]:
    """The words of a command, through `bash -c`, with the files of its patterns."""
    words = shlex.split(command)
    if words[:2] == ["bash", "-c"]:
        words = shlex.split(words[2])
    return tuple(
        each
        for word in words
        for each in (sorted(str(path.relative_to(ROOT)) for path in ROOT.glob(word)) if "*" in word else [word])
    )


def test_the_hooks_are_the_linters() -> None:
    printed = subprocess.run(["make", "-n", "lint"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    linters = {expanded(command) for command in re.findall(r"^\s*check (.*); \\$", printed, re.M)}
    repos = loaded(ROOT / ".pre-commit-config.yaml")["repos"]
    hooks = [hook for repo in repos for hook in repo["hooks"]]
    assert len(linters) >= 7
    assert {expanded(hook["entry"]) for hook in hooks} == linters
    assert [repo["repo"] for repo in repos] == ["local"]
    assert all(hook["language"] == "system" and not hook["pass_filenames"] for hook in hooks)


def test_every_issue_about_an_answer_asks_for_the_doctor() -> None:
    for path in FOLDER.glob("ISSUE_TEMPLATE/[!c]*.yml"):
        assert "`penstock doctor`" in path.read_text(), path.name
