"""The head of a report: what ran, whether the result is right, and the few numbers that a reader takes home."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.lab.reports import plots
from penstock.lab.reports.data import ReportData, is_streamed, provenances, sum_by
from penstock.lab.reports.markup import PROVENANCE_MEANING, Content, Markup, badge, badges, join, tag
from penstock.lab.reports.numbers import UNKNOWN, percent, ratio, seconds, short_size, significant

_SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def title(data: ReportData) -> str:
    """Workload and, where there is one, its size."""
    workload = str(data.config.get("workload") or "a run without a workload")
    chosen = data.config.get("size")
    return f"{workload} ({chosen})" if chosen else workload


def security(data: ReportData) -> str:
    """The security of the parameters in words."""
    params = data.section("params")
    if "security_bits" not in params:
        return "security unknown"
    bits = params["security_bits"]
    return f"{bits}-bit security" if bits else "insecure parameters"


def parameters_in_words(data: ReportData) -> str:
    """`openfhe-demo (N = 2¹⁵, 128-bit security)`."""
    params = data.section("params")
    name = str(params.get("name") or data.config.get("params") or "unnamed parameters")
    ring_dim = params.get("ring_dim")
    dimension = ""
    if isinstance(ring_dim, int) and ring_dim > 0:
        dimension = f"N = 2{str(ring_dim.bit_length() - 1).translate(_SUPERSCRIPT)}, "
    return f"{name} ({dimension}{security(data)})"


def verdict(data: ReportData) -> tuple[str, str]:
    """`passed`, `failed` or `unknown`, and the sentence about it."""
    outcome = data.section("check")
    if "passed" not in outcome:
        return "unknown", "The result was not checked against the clear computation."
    parts = []
    if outcome.get("max_abs_error") is not None:
        bound = f" (bound {significant(outcome['tolerance'], 2)})" if outcome.get("tolerance") is not None else ""
        parts.append(f"encrypted and clear results differ by at most {significant(outcome['max_abs_error'], 2)}{bound}")
    if outcome.get("accuracy_encrypted") is not None:
        against = (
            f" against {percent(outcome['accuracy_clear'], 2)} in the clear"
            if (outcome.get("accuracy_clear") is not None)
            else ""
        )
        chance = (
            f" (chance {percent(outcome['chance_accuracy'])})" if outcome.get("chance_accuracy") is not None else ""
        )
        parts.append(f"test accuracy is {percent(outcome['accuracy_encrypted'], 2)}{against}{chance}")
    state = "passed" if outcome["passed"] else "failed"
    return state, f"Check {state}: {'; '.join(parts)}." if parts else f"Check {state}."


def headline(data: ReportData) -> Markup:
    """One sentence: what ran, with which parameters and security, how long, and whether the result is right."""
    wall = data.one("wall_s")
    ran: Content = (
        [" ran encrypted in ", tag("strong", seconds(wall["value"])), badges([wall["provenance"]])]
        if wall
        else " has no measured time yet"
    )
    state, sentence = verdict(data)
    mark = {"passed": "✓ ", "failed": "✗ ", "unknown": "? "}[state]
    return join(
        [
            tag("p", tag("strong", title(data)), " with ", parameters_in_words(data), ran, ".", class_="headline"),
            tag("p", tag("span", mark, aria_hidden="true"), sentence, class_=f"verdict {state}"),
        ]
    )


def tiles(data: ReportData) -> Markup:
    """The few numbers that a reader takes home."""
    shown: list[tuple[str, str, str, Sequence[str]]] = []
    ops = data.of("op_seconds")
    if ops:
        kind, most = max(sum_by(ops, lambda r: r["kind"]).items(), key=lambda item: item[1])
        share = most / (sum(r["value"] for r in ops) or 1.0)
        shown.append((percent(share, 0), f"of the operations' time is {kind}", "", provenances(ops)))
    touched = [r for r in data.of("bytes_touched") if r["kind"] == "key"]
    unique = [r for r in data.of("bytes_unique") if r["kind"] == "key"]
    if touched and unique:
        again = f"read, of {short_size(unique[-1]['value'])} of evaluation keys"
        shown.append((short_size(touched[-1]["value"]), again, "", provenances([*touched, *unique])))
    mode = main_mode(data)
    streamed = [r for r in data.slowdowns() if r["mode"] in (mode, None) and is_streamed(r) and r["tier"]]
    if streamed:
        machine = next((name for name in data.machines() if name != "this-cpu"), data.machines()[0])
        of_one = sorted((r for r in streamed if r["machine"] == machine), key=lambda r: r["value"]) or streamed
        middle, least, slowest = of_one[(len(of_one) - 1) // 2], of_one[0], of_one[-1]
        ends = f"; {ratio(least['value'])} from {least['tier']}, {ratio(slowest['value'])} from {slowest['tier']}"
        shown.append(
            (
                ratio(middle["value"]),
                f"slower on {middle['machine']} with every key from {middle['tier']}{ends if len(of_one) > 2 else ''}",
                "the middle of the tiers of this run",
                provenances(of_one),
            )
        )
        needed = [
            r
            for r in plots.required_rows(data, mode)
            if r["machine"] == middle["machine"] and r["tier"] == middle["tier"]
        ]
        if needed:
            shown.append(
                (
                    hit_ratio_text(needed[-1]["value"]),
                    "of key accesses must hit there for 80 % of the ideal",
                    "",
                    provenances(needed),
                )
            )
    return (
        tag(
            "ul",
            [
                tag("li", tag("strong", number), tag("span", text), badges(where), title=hint or None)
                for number, text, hint, where in shown
            ],
            class_="tiles",
        )
        if shown
        else Markup("")
    )


def legend() -> Markup:
    """The meaning of the four words that mark every number."""
    return tag(
        "section",
        tag("h2", "How to read the numbers"),
        tag(
            "dl",
            [[tag("dt", badge(word)), tag("dd", text)] for word, text in PROVENANCE_MEANING.items()],
            class_="legend",
        ),
        tag(
            "p",
            "A slowdown is the time divided by the time with ideal memory, where no key is ever waited for; ",
            "80 % of the ideal is a slowdown of 1.25×. MB, GB are decimal; MiB, GiB are binary.",
        ),
        id="legend",
    )


def main_mode(data: ReportData) -> str:
    """The time mode that the plots show."""
    modes = data.modes()
    return modes[0] if modes else "serial"


def hit_ratio_text(value: float | None) -> str:
    """A needed hit ratio; 0 is `none needed`.

    >>> hit_ratio_text(0.0), hit_ratio_text(0.98765)
    ('0 %', '98.77 %')
    """
    if value is None:
        return UNKNOWN
    return "0 %" if value <= 0 else percent(value, 2)
