"""The sections of the report. Each gives its content, or a sentence why it is left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from penstock.base.system.drawing import Panel
from penstock.base.types import Row, Rows
from penstock.lab.reports import plots
from penstock.lab.reports.data import (
    ReportData,
    is_cached,
    is_forced,
    is_streamed,
    last_by,
    ordered,
    provenances,
    sum_by,
)
from penstock.lab.reports.facts import assumptions, host, not_modelled, parameters, reproduce
from penstock.lab.reports.head import hit_ratio_text, main_mode
from penstock.lab.reports.markup import Content, Heading, Markup, columns_of, join, table, tag
from penstock.lab.reports.numbers import UNKNOWN, count, free, percent, ratio, seconds, short_size, size, words
from penstock.lab.reports.page import TEXT, Plots, Section, remedies


def sections(data: ReportData, page: Plots) -> list[Section]:
    """All sections, in the order of the page."""
    makers: Sequence[Callable[[ReportData, Plots], Section]] = (
        check, warnings, time_section, bytes_section, slowdown_section, hit_ratio_section, cache_section,
        working_set_section, fit_section, assumptions, parameters, host, reproduce, not_modelled,
    )  # fmt: skip
    return [make(data, page) for make in makers]


def check(data: ReportData, page: Plots) -> Section:
    """The encrypted result against the clear one."""
    section = Section("check", "Is the encrypted result right?")
    outcome = data.section("check")
    if not outcome:
        return section.leave_out("this run recorded no comparison of the encrypted with the clear result")
    first = ("max_abs_error", "tolerance", "accuracy_encrypted", "accuracy_clear", "chance_accuracy")
    lists = {n: v for n, v in outcome.items() if isinstance(v, list | tuple) and any(isinstance(x, str) for x in v)}
    names = ordered((n for n in outcome if n != "passed" and n not in lists), first)
    section.table(
        "Encrypted against clear",
        columns_of("Quantity | >Value"),
        [(words(n), free(n, outcome[n])) for n in names],
        provenance=["measured"],
    )
    for name, lines in lists.items():
        section.say(f"{words(name).capitalize()}:")
        section.add(tag("ul", [tag("li", str(line)) for line in lines]))
    return section


def warnings(data: ReportData, page: Plots) -> Section:
    """What may mislead a reader, each with a remedy."""
    section = Section("warnings", "Warnings")
    entries = data.entries("warnings")
    if not entries:
        return section.say("None.")
    return section.add(remedies((str(w.get("what", "unnamed")), str(w.get("remedy", "none known"))) for w in entries))


def time_section(data: ReportData, page: Plots) -> Section:
    """Measured time by kind and by limbs."""
    section = Section("time", "Parts of the measured time")
    rows = [r for r in data.of("op_seconds") if r["kind"]]
    if not rows:
        return section.leave_out("this run holds no measured operation times (stage 'measured')")
    where = provenances(rows)
    counts = sum_by((r for r in data.of("op_count") if r["kind"]), lambda r: r["kind"])
    by_kind = sorted(sum_by(rows, lambda r: r["kind"]).items(), key=lambda item: -item[1])
    total = sum(v for _, v in by_kind)
    drawn = plots.time_by_kind(rows)
    lines = [
        (k, count(counts.get(k)), seconds(v), percent(v / total if total else None), _mean(v, counts.get(k)))
        for k, v in by_kind
    ]
    lines.append(("all", count(sum(counts.values()) or None), seconds(total), percent(1.0), ""))
    section.beside(
        page.add("time-by-kind", "Time by operation kind", drawn, where, height=120 + 26 * len(by_kind)),
        table(
            "Time by operation kind",
            columns_of("Kind | >Calls | >Total | >Share | >Mean a call"),
            lines,
            provenance=where,
            note=_accounting(data, total),
        ),
    )
    limbed = [r for r in rows if r["limbs"] is not None]
    return _by_limbs(section, limbed, data, page, where) if limbed else section


def _by_limbs(section: Section, rows: Rows, data: ReportData, page: Plots, where: Sequence[str]) -> Section:
    """Add the measured time at each number of limbs."""
    at = sum_by(rows, lambda r: (r["limbs"], r["kind"]))
    calls = sum_by((r for r in data.of("op_count") if r["limbs"] is not None), lambda r: (r["limbs"], r["kind"]))
    drawn, caption = plots.time_by_limbs(rows), "Time by limbs of the ciphertext"
    return section.beside(
        page.add("time-by-limbs", caption, drawn, where, height=400),
        table(
            "Time by limbs and kind",
            columns_of(">Limbs | Kind | >Calls | >Total | >Mean a call"),
            [
                (str(n), k, count(calls.get((n, k))), seconds(v), _mean(v, calls.get((n, k))))
                for (n, k), v in sorted(at.items(), key=lambda item: (-item[0][0], -item[1]))
            ],
            provenance=where,
        ),
    )


def _mean(total_s: float, calls: float | None) -> str:
    return seconds(total_s / calls if calls else None)


def _accounting(data: ReportData, total: float) -> str:
    wall, setup, encode, rss = (data.one(q) for q in ("wall_s", "setup_s", "encode_s", "peak_rss_bytes"))
    parts = []
    if wall and wall["value"] > 0:
        parts.append(
            f"The operations add up to {seconds(total)}, {percent(total / wall['value'])} of the "
            f"{seconds(wall['value'])} that the program ran; the rest is encoding and Python"
        )
    if encode:
        parts.append(f"encoding took {seconds(encode['value'])}")
    if setup:
        parts.append(f"set-up (context and keys) took {seconds(setup['value'])}")
    if rss:
        parts.append(f"the process held {size(rss['value'])} at most")
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}." if text else ""


def bytes_section(data: ReportData, page: Plots) -> Section:
    """Bytes by class."""
    section = Section("bytes", "Bytes by class")
    rows = [r for q in ("bytes_touched", "bytes_unique") for r in data.of(q) if r["kind"]]
    if not rows:
        return section.leave_out("this run holds no byte counts (stage 'bytes')")
    touched = sum_by((r for r in rows if r["quantity"] == "bytes_touched"), lambda r: r["kind"])
    unique = sum_by((r for r in rows if r["quantity"] == "bytes_unique"), lambda r: r["kind"])
    classes = ordered({*touched, *unique}, ("key", "ciphertext", "plaintext"))
    return section.beside(
        page.add("bytes", "Bytes by class", plots.bytes_by_class(touched, unique), provenances(rows)),
        table(
            "Bytes by class",
            columns_of("Class | >Touched | >Distinct | >Touched / distinct"),
            [
                (
                    c,
                    size(touched.get(c)),
                    size(unique.get(c)),
                    ratio(touched[c] / unique[c] if touched.get(c) is not None and unique.get(c) else None),
                )
                for c in classes
            ],
            provenance=provenances(rows),
            note="Touched counts every access; distinct counts each object once. "
            "Where the first is many times the second, a cache can help.",
        ),
    )


def _dimension(row: Row) -> tuple[str, str, str]:
    return str(row["machine"] or UNKNOWN), str(row["tier"] or UNKNOWN), str(row["mode"] or UNKNOWN)


def slowdown_section(data: ReportData, page: Plots) -> Section:
    """Every key access from the tier: machine by tier, for each time mode."""
    section = Section("slowdown", "Slowdown by tier and machine")
    rows = [r for r in data.slowdowns() if is_streamed(r) and r["tier"]]
    if not rows:
        return section.leave_out(
            "this run holds no simulation in which every key access goes to a tier (stage 'simulate')"
        )
    mode = main_mode(data)
    where = provenances(rows)
    machines, tiers, modes = data.machines(), data.tiers(), data.modes()
    at = {
        quantity: last_by((r for r in data.of(quantity) if is_streamed(r)), _dimension)
        for quantity in ("slowdown", "compute_s", "io_s", "total_s", "io_bytes", "energy_j")
    }
    keys = sorted(
        at["slowdown"],
        key=lambda k: tuple(
            names.index(n) if n in names else len(names) for n, names in zip(k, (machines, tiers, modes), strict=True)
        ),
    )
    energy = bool(at["energy_j"])
    params = {r["machine"]: r["params"] for r in rows}
    headings = "Machine | Parameters | Tier | Mode | >Compute | >Key I/O | >Total | >Slowdown | >Bytes moved"
    columns = columns_of(headings + " | >Energy" * energy)
    body = [
        (
            k[0],
            params.get(k[0]) or UNKNOWN,
            *k[1:],
            seconds(at["compute_s"].get(k)),
            seconds(at["io_s"].get(k)),
            seconds(at["total_s"].get(k)),
            ratio(at["slowdown"][k]),
            short_size(at["io_bytes"].get(k)),
            *([free("energy_j", at["energy_j"].get(k))] if energy else []),
        )
        for k in keys
    ]
    streamed = {(r["machine"], r["tier"]): r["value"] for r in rows if r["mode"] in (mode, None)}
    caption = f"Slowdown, every key access from the tier, {mode}"
    note = "In brackets: the share of the ideal speed that is left."
    matrix = _matrix(data, caption, streamed, plots.ideal_share, where, note)
    section.say(
        f"No evaluation key stays on the chip here: each use reads it from the tier. The plot shows the time mode "
        f"{mode}. ",
        _mode_meaning(modes),
        _own_parameters(params, data),
    )
    figure, caption = plots.slowdown_by_tier(data, mode), f"Slowdown by tier and machine, {mode}"
    drawn = page.add("slowdown", caption, figure, where, height=180 + 42 * len(tiers)) if figure else None
    section.beside(drawn, matrix)
    return section.table("Times behind the slowdowns", columns, body, provenance=where)


def _matrix(
    data: ReportData,
    caption: str,
    values: Mapping[tuple[str, str], float],
    text: Callable[[float], str],
    where: Sequence[str],
    note: str,
) -> Markup:
    """A table of values by (machine, tier): a row for each tier that has one, a column for each machine."""
    machines = data.machines()
    lines = [
        (t, *(text(values[m, t]) if (m, t) in values else UNKNOWN for m in machines))
        for t in data.tiers()
        if any((m, t) in values for m in machines)
    ]
    columns = [Heading("Tier", TEXT), *(Heading(m) for m in machines)]
    return table(caption, columns, lines, provenance=where, note=note)


def _own_parameters(params: dict[str | None, str | None], data: ReportData) -> str:
    """The machines that are simulated at other parameters than those of this run."""
    ran = data.section("params").get("name") or data.config.get("params")
    own = [f"{machine} at {name}" for machine, name in params.items() if name and name != ran]
    if not own:
        return ""
    return f" Machines built for another word size run the same program at other parameters: {', '.join(own)}."


def _mode_meaning(modes: Sequence[str]) -> str:
    meaning = {
        "serial": "serial: compute waits for every read, then goes on",
        "overlap": "overlap: the next keys are read while computing, as far as the buffers reach",
        "bound": "bound: the slower of compute and reading, perfectly overlapped",
    }
    known = [meaning[m] for m in modes if m in meaning]
    return f"Modes: {'; '.join(known)}." if known else ""


def hit_ratio_section(data: ReportData, page: Plots) -> Section:
    """Slowdown over the hit ratio, and the hit ratio needed for 80 % of the ideal."""
    section = Section("hit-ratio", "Slowdown against the hit ratio of keys")
    mode = main_mode(data)
    rows = [r for r in data.slowdowns() if r["mode"] in (mode, None) and is_forced(r) and r["tier"]]
    needed = plots.required_rows(data, mode)
    drawn = [(f"{m}: slowdown against hit ratio", plots.slowdown_by_hit_ratio(data, m, mode)) for m in data.machines()]
    if not needed and not any(figure for _, figure in drawn):
        return section.leave_out("this run holds no simulation with forced hit ratios and no needed hit ratios")
    if needed:
        at = last_by(needed, lambda r: (r["machine"], r["tier"]))
        caption = "Hit ratio needed for 80 % of the ideal (slowdown 1.25×)"
        note = "Closed form, serial: the slowdown is 1 + (1 − h)·(s − 1), where s is the slowdown without hits."
        section.add(_matrix(data, caption, at, hit_ratio_text, provenances(needed), note))
    section.say(f"Dashed: 80 % of the ideal. A star: the hit ratio that the tier needs for it. Time mode {mode}.")
    section.add(_panels(page, "hit-ratio", drawn, provenances(rows)))
    ratios = sorted({r["hit_ratio"] or 0.0 for r in rows})
    if len(ratios) > 1:
        curves = last_by(rows, lambda r: (r["machine"], r["tier"], r["hit_ratio"] or 0.0))
        shown = _thinned(ratios, 8)
        section.table(
            f"Slowdown at forced hit ratios, {mode}",
            [*columns_of("Machine | Tier"), *(Heading(percent(h, 0)) for h in shown)],
            [
                (m, t, *(ratio(curves.get((m, t, h))) for h in shown))
                for m in data.machines()
                for t in data.tiers()
                if any((m, t, h) in curves for h in shown)
            ],
            provenance=provenances(rows),
        )
    return section


def _panels(page: Plots, name: str, drawn: Sequence[tuple[str, Panel | None]], where: Sequence[str]) -> Markup:
    """Plots side by side, if they have a figure; one in which nothing differs is a sentence."""
    known = [(caption, figure) for caption, figure in drawn if figure]
    shown = [page.add(name, caption, figure, where, height=380) for caption, figure in known if plots.differs(figure)]
    level = [caption.partition(":")[0] for caption, figure in known if not plots.differs(figure)]
    sentence = f"Not drawn, because all values lie within one percent: {', '.join(level)}." if level else ""
    return join([tag("div", shown, class_="panels"), tag("p", sentence, class_="note") if sentence else None])


def _thinned(values: Sequence[float], most: int) -> list[float]:
    """At most `most` of the values, evenly picked, both ends included."""
    if len(values) <= most:
        return list(values)
    return [values[round(i * (len(values) - 1) / (most - 1))] for i in range(most)]


def cache_section(data: ReportData, page: Plots) -> Section:
    """Slowdown over the cache size: LRU, Belady and the bound in bytes."""
    section = Section("cache", "Slowdown against the size of the key cache")
    mode = main_mode(data)
    rows = [r for r in data.slowdowns() if r["mode"] in (mode, None) and is_cached(r) and r["tier"]]
    if not rows:
        return section.leave_out("this run holds no simulation with a cache (stage 'simulate')")
    policies = ordered((r["policy"] for r in rows), plots.POLICIES)
    section.say(
        "Solid lines: LRU. Dashed lines: Belady, which knows the future and keeps whole keys. Dotted lines: the "
        "optimum, which keeps parts of keys (limbs); no policy loads fewer bytes. "
        f"An FHE program does not branch on its data, so its future is known. Time mode {mode}.",
    )
    drawn = [(f"{m}: slowdown against cache size", plots.slowdown_by_cache(data, m, mode)) for m in data.machines()]
    section.add(_panels(page, "cache", drawn, provenances(rows)))
    at = last_by(rows, lambda r: (r["machine"], r["cache_bytes"], r["tier"], r["policy"]))
    hits = {(r["machine"], r["cache_bytes"], r["policy"]): r["hit_ratio"] for r in rows}
    tiers = [t for t in data.tiers() if t in {r["tier"] for r in rows}]
    lines = [(m, c) for m in data.machines() for c in sorted({k[1] for k in at if k[0] == m})]
    return section.table(
        f"Slowdown by cache size, {mode}",
        [*columns_of("Machine | >Cache | Policy | >Hits"), *(Heading(t) for t in tiers)],
        [
            (m, size(c), p, percent(hits.get((m, c, p))), *(ratio(at.get((m, c, t, p))) for t in tiers))
            for m, c in lines
            for p in policies
            if any((m, c, t, p) in at for t in tiers)
        ],
        provenance=provenances(rows),
    )


def working_set_section(data: ReportData, page: Plots) -> Section:
    """The keys that the program touches over time."""
    section = Section("keys", "Key working set over time")
    windows = data.windows
    if not windows:
        return section.leave_out(data.trace_problem or "the trace names no evaluation key")
    note = (
        f"{data.unexpanded} composite calls are not expanded in the trace: their key accesses are unknown and missing."
        if data.unexpanded
        else ""
    )
    # Accesses were counted while the program ran; their bytes come from the sizes of the parameter set.
    where = ["measured", "predicted"] if data.recorded else ["predicted"]
    accesses, last = sum(w.key_accesses for w in windows), windows[-1]
    most = max(windows, key=lambda w: w.distinct_keys)
    section.say(
        f"{count(accesses)} key accesses to {count(last.cumulative_distinct_keys)} distinct keys, "
        f"{size(last.cumulative_unique_bytes)} in all. At most {count(most.distinct_keys)} keys, "
        f"{size(most.unique_bytes)}, are used within one window of {count(windows[0].num_operations)} operations. "
        f"{note}",
    )
    section.add(
        page.add("keys", "Evaluation keys over the program, by window", plots.key_working_set(data), where, height=200)
    )
    return section.table(
        "Evaluation keys by window of operations",
        columns_of(
            ">First operation | >Key accesses | >Distinct keys | >Bytes of them | >Bytes touched "
            "| >Distinct keys so far | >Bytes so far"
        ),
        [
            (
                count(w.first_operation),
                count(w.key_accesses),
                count(w.distinct_keys),
                short_size(w.unique_bytes),
                short_size(w.touched_bytes),
                count(w.cumulative_distinct_keys),
                short_size(w.cumulative_unique_bytes),
            )
            for w in windows
        ],
        provenance=where,
        note="Accesses are counted in the trace; bytes are computed from the parameters. Touched: what each key "
        "switch reads at its own number of limbs.",
    )


def fit_section(data: ReportData, page: Plots) -> Section:
    """The errors of the fitted model of this processor on its own measurements."""
    section = Section("fit", "How well the model of this CPU fits")
    errors = data.of("fit_error")
    predicted_rows = [r for r in data.of("predicted_op_seconds") if r["kind"] and r["limbs"] is not None]
    measured_rows = [r for r in data.of("op_seconds") if r["kind"] and r["limbs"] is not None]
    if not errors and not predicted_rows:
        return section.leave_out("this run fitted no model of this CPU (stage 'fit')")
    predicted = sum_by(predicted_rows, lambda r: (r["kind"], r["limbs"]))
    measured = sum_by(measured_rows, lambda r: (r["kind"], r["limbs"]))
    drawn: Content = None
    if any(measured.get(k, 0) > 0 and v > 0 for k, v in predicted.items()):
        drawn = page.add(
            "fit",
            "Predicted against measured time, one mark a kind and number of limbs",
            plots.fit_quality(measured, predicted),
            provenances([*measured_rows, *predicted_rows]),
            height=440,
        )
    section.say(
        "The machine this-cpu is fitted to the operation times measured in this run, so these errors show how "
        "well it describes them, not how well it predicts another program.",
    )
    statistics = list(dict.fromkeys(r["note"] or "error" for r in errors))
    at = last_by(errors, lambda r: (r["kind"] or "all", r["note"] or "error"))
    kinds = list(dict.fromkeys(k for k, _ in at))
    totals_m, totals_p = (sum_by(rows, lambda r: r["kind"]) for rows in (measured_rows, predicted_rows))
    tables: list[Content] = []
    if errors:
        tables.append(
            table(
                "Relative error of the fit",
                [Heading("Kind", TEXT), *(Heading(words(s)) for s in statistics)],
                [(k, *((signed if s == "bias" else percent)(at.get((k, s))) for s in statistics)) for k in kinds],
                provenance=provenances(errors),
            )
        )
    if totals_p:
        tables.append(
            table(
                "Measured and predicted totals by kind",
                columns_of("Kind | >Measured | >Predicted | >Error"),
                [
                    (k, seconds(totals_m.get(k)), seconds(p), signed(p / totals_m[k] - 1 if totals_m.get(k) else None))
                    for k, p in sorted(totals_p.items(), key=lambda item: -item[1])
                ],
                provenance=provenances([*measured_rows, *predicted_rows]),
            )
        )
    return section.beside(drawn, tables)


def signed(value: float | None) -> str:
    """A relative error with its sign.

    >>> signed(0.031), signed(-0.2)
    ('+3.1 %', '−20.0 %')
    """
    return UNKNOWN if value is None else f"{100 * value:+.1f} %".replace("-", "−")
