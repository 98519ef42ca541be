"""The web application: one page, its files, the choices that it offers, and the views as JSON and CSV."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from importlib import resources
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import Response, StreamingResponse
from starlette.types import ASGIApp

from penstock.base.system.limits import shortage
from penstock.base.system.plain import plain
from penstock.base.types import Row, RowView
from penstock.base.version import __version__
from penstock.errors import CapabilityMissing, PenstockError, UnknownName, UsageError
from penstock.front.explorer import drives
from penstock.front.explorer.advice import advice
from penstock.front.explorer.asked import OF_VIEWS
from penstock.front.explorer.bounds import Busy
from penstock.front.explorer.designs import queries
from penstock.front.explorer.engine import Engine
from penstock.front.explorer.guard import REPORT_POLICY, Guard
from penstock.front.explorer.live import Live
from penstock.front.explorer.state import FLAGS, HOLDS, MORE, PATTERNS, SCAN_ENDS, State, usual
from penstock.front.explorer.view import View
from penstock.front.explorer.views import VIEWS, show
from penstock.lab.reports.space import SCRIPTS
from penstock.lab.simulation.names import one_of
from penstock.lab.simulation.words import WORDS, QuestionWord
from penstock.scheme.machines import network_names, tier_names
from penstock.scheme.params.catalogue import names as params_names

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_KNOWN = {"modes": "mode", "partitions": "partition", "classes": "classes", "key_forms": "key_form"}
"""List of the catalogue -> the word whose known values it has."""
Answer = Callable[[Engine, State], View]
PART_BYTES = 2**16
FORMATS = {"json": "application/json", "csv": "text/csv; charset=utf-8"}


def application(engine: Engine, port: int, live: Live | None = None) -> ASGIApp:
    """The guarded application, to be served on `port` of this machine. `live`: the service that it also shows."""
    app = FastAPI(title="penstock explore", version=__version__, docs_url=None, redoc_url=None, openapi_url=None)
    files = _files()

    # Requests without work are answered at once, not by a thread of the pool.
    @app.get("/")
    async def page() -> Response:
        return _file(files, "index.html")

    @app.get("/static/{name}")
    async def static(name: str) -> Response:
        return _file(files, name)

    @app.get("/api/catalogue")
    def catalogue() -> Response:
        return _json({**choices(engine), "service": live is not None})

    @app.get("/api/view/{name}")
    def view(name: str, request: Request) -> Response:
        return _answer(engine, name, request.query_params.multi_items())

    @app.get("/api/advice")
    def remedies(request: Request) -> Response:
        return _answer(engine, "advice", request.query_params.multi_items(), advice)

    @app.get("/service")
    async def service() -> Response:
        return _file(files, "service.html") if live is not None else _no_service()

    @app.get("/api/service")
    def look() -> Response:
        return _json(live.look()) if live is not None else _no_service()

    @app.get("/report/{run}")
    def report(run: str) -> Response:
        return _report(engine, run)

    return Guard(app, port)


def choices(engine: Engine) -> Row:
    """Every possible value of a setting, and the facts that a page needs about it."""
    library = engine.library
    return {
        "version": __version__,
        "views": list(VIEWS),
        "workloads": library.workloads(),
        "params": params_names(),
        "machines": library.machines(),
        "tiers": [{"name": name, "bytes_per_s": library.tier(name).bandwidth_bytes_per_s} for name in tier_names()],
        "networks": network_names(),
        "policies": library.policies(),
        "prefetchers": library.policies("prefetch"),
        **{name: WORDS[word].known() for name, word in _KNOWN.items()},
        "holds": list(HOLDS),
        "drives": drives.names(),
        "patterns": list(PATTERNS),
        "scan_ends": list(SCAN_ENDS),
        "runs": library.run_names(),
        "benches": library.bench_names(),
        "sweeps": library.sweep_names(),
        "queries": queries(),
        "predictions": list(library.prediction_files),
        "words": [_choice(name, word) for name, word in MORE.items()],
        "defaults": {name: str(getattr(State(), name)) for name in State.__slots__ if name != "more"}
        | {name: usual(word) for name, word in MORE.items()},
    }


def _choice(name: str, word: QuestionWord) -> Row:
    """A word without a control on the page. `only`: other values than the known ones are refused."""
    flag = word.takes == "flag"
    return {
        "name": name, "label": name.replace("_", " "), "help": word.text(), "usual": usual(word), "unit": word.unit,
        "known": FLAGS if flag else word.known(), "only": flag or word.strict, "of": OF_VIEWS.get(word.name, ""),
    }  # fmt: skip


def _answer(engine: Engine, name: str, items: list[tuple[str, str]], answer: Answer | None = None) -> Response:
    """A view, or an error that the page shows with its remedy."""
    query = dict(items)
    wanted = query.pop("format", "json")
    try:
        if len(query) + ("format" in dict(items)) != len(items):
            raise UsageError("a setting is given twice: give each one once")
        one_of("format", wanted, FORMATS)
        state = State.from_query(query)
        with engine.turns.one():
            view = show(engine, name, state) if answer is None else answer(engine, state)
    except PenstockError as error:
        # The page shows the error as its answer; for whoever asks for a file it is a failure.
        as_answer = wanted == "json" and not isinstance(error, Busy)
        return _json({"error": str(error)}, status=200 if as_answer else _status(error))
    except Exception as error:  # files of others may hold anything
        failed = f"this view failed ({type(error).__name__}: {str(error)[:200]}); please report it with its address"
        return _json({"error": shortage(error) or failed}, status=500)
    if wanted == "csv":
        headers = {"content-disposition": f'attachment; filename="penstock-{name}.csv"'}
        return Response(view.to_csv(), media_type=FORMATS["csv"], headers=headers)
    return Response(view.to_json(), media_type=FORMATS["json"])


def _no_service() -> Response:
    return _json({"error": "no service is shown: start 'penstock explore --service URL --token-file FILE'"}, status=404)


def _status(error: PenstockError) -> int:
    if isinstance(error, UnknownName):
        return 404
    if isinstance(error, Busy):
        return 503
    return 501 if isinstance(error, CapabilityMissing) else 422


def _report(engine: Engine, run: str) -> Response:
    try:
        path = engine.library.report_path(run)
    except PenstockError as error:
        return _json({"error": str(error)}, status=_status(error))
    # In parts: many readers of a large report do not hold it in memory. A `FileResponse` would outlast its reader.
    headers = {"content-security-policy": REPORT_POLICY, "content-length": str(path.stat().st_size)}
    return StreamingResponse(_parts(path), media_type=TYPES[".html"], headers=headers)


def _parts(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while part := file.read(PART_BYTES):
            yield part


def _json(value: RowView, status: int = 200) -> Response:
    return Response(json.dumps(plain(value), allow_nan=False), status_code=status, media_type=FORMATS["json"])


def _files() -> dict[str, bytes]:
    """The files of the page, by name."""
    folder = resources.files("penstock.front.explorer").joinpath("static")
    shared = {name: resources.files("penstock.lab.reports").joinpath(name).read_bytes() for name in SCRIPTS}
    return shared | {entry.name: entry.read_bytes() for entry in folder.iterdir() if entry.is_file()}


def _file(files: Mapping[str, bytes], name: str) -> Response:
    kind = TYPES.get(name[name.rfind(".") :]) if name in files else None
    if kind is None:
        return _json({"error": f"there is no file '{name[:100]}'"}, status=404)
    return Response(files[name], media_type=kind)
