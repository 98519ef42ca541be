"""The routes of tenants, and the bodies of requests as OpenAPI describes them: unknown members are refused.

Each route checks its scope; `penstock.service.http.limits` has checked the token before.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Annotated, Literal

from fastapi import Depends, FastAPI, Path, Query, Request, Security
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response
from fastapi.security import HTTPBearer
from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from penstock.base.types import Row
from penstock.base.version import __version__
from penstock.errors import PenstockError
from penstock.service.http import seeing
from penstock.service.http.jobs import results_gone
from penstock.service.http.limits import Gate
from penstock.service.http.logs import Log
from penstock.service.http.programs import MOST_INPUTS, NAME_CHARS
from penstock.service.http.service import ServiceFront
from penstock.service.http.threads import ThreadedRoute, in_thread
from penstock.service.state.problems import MEDIA_TYPE, Problem, problem_of
from penstock.service.state.tokens import Caller

MOST_WAIT_S = 60.0
_BEARER = HTTPBearer(auto_error=False, description="A token: pst_… An operator makes it.")
_RAW = {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}, "required": True}
PROBLEMS: dict[int | str, Row] = {
    "default": {
        "description": "A refusal (RFC 9457): type, title, status, detail, rule, remedy",
        "content": {MEDIA_TYPE: {"schema": {"type": "object"}}},
    }
}
NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
SHA256 = r"^[0-9a-f]{64}$"
Name = Annotated[str, StringConstraints(pattern=NAME)]
Sha256 = Annotated[str, StringConstraints(pattern=SHA256)]
Word = Annotated[str, StringConstraints(min_length=1, max_length=NAME_CHARS)]


class _Pieces(FileResponse):
    """A file in pieces."""

    chunk_size = 4 << 20


class RequestForm(BaseModel):
    """A body."""

    model_config = ConfigDict(extra="forbid", strict=True)


class UploadForm(RequestForm):
    """What will be sent."""

    kind: Literal["package", "key", "input", "ciphertext"] = Field(
        description="A program package, evaluation keys, an input of a job (expires), or a ciphertext that stays."
    )
    bytes: int = Field(ge=1, le=1 << 50)
    sha256: Sha256 = Field(description="Of the whole content.")
    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9:._-]{1,100}$")] | None = Field(
        default=None, description="The key of a file with a single one: relin, conj, rot:GALOIS_ELEMENT."
    )
    params: Name | None = Field(
        default=None, description="Of keys: the name of the deployed program that they are for."
    )


class ProgramForm(RequestForm):
    """A package to deploy."""

    name: Name
    package: Sha256


class JobForm(RequestForm):
    """A job. The same identity with the same content is the same job."""

    job: Name = Field(description="The client's own identity of this job.")
    program: Name
    package: Sha256 | None = Field(
        default=None, description="Of the package that the client takes the program for; another one is refused."
    )
    inputs: dict[Word, Sha256] = Field(max_length=MOST_INPUTS)
    priority: int = Field(default=0, ge=0, le=9)
    deadline_s: float | None = Field(default=None, gt=0, le=1e8, allow_inf_nan=False, description="From submission.")


class WorkForm(RequestForm):
    """Whether jobs may begin."""

    paused: bool


class TenantForm(RequestForm):
    """A new tenant."""

    tenant: Annotated[str, StringConstraints(min_length=1, max_length=64)]


class TokenForm(RequestForm):
    """A new token."""

    scopes: list[Literal["deploy", "keys", "run", "read"]] = Field(min_length=1, max_length=4)
    lasts_s: float | None = Field(
        default=None, gt=0, le=1e10, allow_inf_nan=False, description="Omitted: until it is ended."
    )


class RotationForm(RequestForm):
    """How long the old token still works."""

    overlap_s: float = Field(default=0.0, ge=0, le=1e8, allow_inf_nan=False)


PathName = Annotated[str, Path(pattern=NAME)]
Identity = Annotated[str, Path(pattern=r"^[0-9a-f]{32}$")]


def needs(scope: str) -> Callable[..., Awaitable[Caller]]:
    """A dependency: the caller, whose token has this scope."""

    async def caller(request: Request, _: Annotated[object, Security(_BEARER)]) -> Caller:
        known: Caller = request.state.caller
        if scope and scope not in known.scopes:
            raise Problem(
                403, f"this needs the scope '{scope}', and the token has {sorted(known.scopes)}", kind="scope",
                remedy="use a token that has it",
            )  # fmt: skip
        return known

    return caller


Reads = Annotated[Caller, Depends(needs("read"))]
Runs = Annotated[Caller, Depends(needs("run"))]
Deploys = Annotated[Caller, Depends(needs("deploy"))]
Keeps = Annotated[Caller, Depends(needs("keys"))]
Sends = Annotated[Caller, Depends(needs(""))]
"""Of uploads: each kind has a scope, which they check."""


def application(service: ServiceFront) -> ASGIApp:
    """The guarded application of tenants."""
    app = bare("penstock serve", service.log)
    _of_health(app, service)
    _of_uploads(app, service)
    _of_programs(app, service)
    _of_keys(app, service)
    _of_jobs(app, service)
    return guarded(app, service)


def guarded(app: ASGIApp, service: ServiceFront, *, admin: bool = False) -> ASGIApp:
    """An application behind the gate."""
    return Gate(
        app, service.state, service.config.limits, service.metrics, service.log, admin=admin,
        is_ending=lambda: service.jobs.draining,
    )  # fmt: skip


def bare(title: str, log: Log) -> FastAPI:
    """An application without routes, whose errors are problems; the log has the server's own in full."""
    app = FastAPI(
        title=title,
        version=__version__,
        description="Encrypted programs as a service. Every refusal is application/problem+json with a remedy.",
        docs_url=None,
        redoc_url=None,
        responses=PROBLEMS,
        redirect_slashes=False,
    )
    app.router.route_class = ThreadedRoute
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _unrouted)
    app.state.log = log
    for kind in (PenstockError, OSError):
        app.add_exception_handler(kind, _refused)
    return app


async def _refused(request: Request, error: Exception) -> Response:
    problem = problem_of(error)
    request.state.refused = problem.reason
    if problem.status >= 500 and problem is not error:  # a tenant hears less
        request.app.state.log.write("failure", error=type(error).__name__, detail=str(error)[:500])
    return JSONResponse(problem.body(), problem.status, problem.headers(), MEDIA_TYPE)


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])[:200]
    is_json = first["type"] != "json_invalid"
    detail = f"{place}: {first['msg']}"[:500] if is_json else "the body is not JSON"
    problem = Problem(
        422 if is_json else 400, detail, remedy="GET /openapi.json describes the members and their rules", kind="form"
    )
    return await _refused(request, problem)


async def _unrouted(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    remedy = "GET /openapi.json lists the addresses and their methods"
    if error.status_code == 400:
        return await _refused(request, Problem(400, "the body cannot be read as JSON", remedy=remedy, kind="form"))
    return await _refused(request, Problem(error.status_code, str(error.detail)[:200], remedy=remedy, kind="route"))


def _of_health(app: FastAPI, service: ServiceFront) -> None:
    @app.get("/v1/health")
    async def health() -> Row:
        """The process answers."""
        return {"status": "alive", "version": __version__}

    @app.get("/v1/ready")
    def ready() -> Row:
        """Jobs are taken: the disk has room, the database takes writes, and the server does not drain."""
        service.check_ready()
        return {"status": "ready"}

    @app.delete("/v1/tenant")
    def forget(caller: Keeps) -> Row:
        """Remove all keys, programs, ciphertexts, results and jobs of the tenant; its tokens stay."""
        return service.forget_tenant(caller, caller.tenant, keep_tokens=True)


def _of_uploads(app: FastAPI, service: ServiceFront) -> None:
    uploads = service.uploads

    @app.post("/v1/uploads", status_code=201, responses={200: {"description": "The tenant has this content already"}})
    def begin(form: UploadForm, caller: Sends, response: Response) -> Row:
        """Begin an upload. Scope: `deploy` for packages, `keys` for keys, `run` for inputs and ciphertexts."""
        begun = uploads.begin(caller, form.model_dump())
        if "blob" in begun:
            response.status_code = 200
        return begun

    @app.get("/v1/uploads")
    def listed(caller: Sends) -> Row:
        """The unfinished uploads."""
        return {"uploads": uploads.listed(caller)}

    @app.put("/v1/uploads/{upload}", openapi_extra={"requestBody": _RAW})
    async def receive(
        request: Request, upload: Identity, caller: Sends, offset: Annotated[int, Query(ge=0, le=1 << 50)]
    ) -> Row:
        """Send the next piece as raw bytes; the answer has the next offset."""
        return await uploads.receive(caller, upload, offset, request.stream())

    @app.get("/v1/uploads/{upload}")
    def look(upload: Identity, caller: Sends) -> Row:
        """Where an upload stands."""
        return uploads.look(caller, upload)

    @app.post("/v1/uploads/{upload}/commit")
    def commit(upload: Identity, caller: Sends) -> Row:
        """Check the whole content and take it. Keys are imported whole or not at all."""
        taken = uploads.commit(caller, upload)
        soon = taken["kind"] == "input"
        service.state.record(caller, f"commit {taken['kind']}", taken["blob"], soon=soon)
        return taken

    @app.delete("/v1/uploads/{upload}")
    def drop(upload: Identity, caller: Sends) -> Row:
        """Give an upload up."""
        uploads.drop(caller, upload)
        return {"upload": upload, "state": "removed"}


def _of_programs(app: FastAPI, service: ServiceFront) -> None:
    programs = service.programs

    @app.post("/v1/programs", status_code=201, responses={200: {"description": "It is deployed already"}})
    async def deploy(form: ProgramForm, caller: Deploys, response: Response) -> Row:
        """Deploy a package under a name; the answer predicts seconds and memory."""
        is_new, deployed = await programs.deploy(caller, form.name, form.package)
        if is_new:
            await in_thread(service.state.record, caller, "deploy", f"{form.name} {form.package}")
        else:
            response.status_code = 200
        return deployed

    @app.get("/v1/programs")
    def listed(caller: Reads) -> Row:
        """The programs of the tenant."""
        return {"programs": programs.listed(caller.tenant)}

    @app.get("/v1/programs/{name}")
    def show(name: PathName, caller: Reads) -> Row:
        """Inputs, outputs, parameters, keys and predictions."""
        return programs.show(caller.tenant, name)

    @app.delete("/v1/programs/{name}")
    def remove(name: PathName, caller: Deploys) -> Row:
        """Remove a program and its package."""
        programs.remove(caller.tenant, name)
        service.state.record(caller, "remove program", name)
        return {"program": name, "state": "removed"}

    @app.get("/v1/programs/{name}/keys")
    def keys(name: PathName, caller: Reads) -> Row:
        """Keys that the program needs, and keys that the tenant lacks."""
        needed = service.keys.needs(caller.tenant, programs.row(caller.tenant, name)["description"])
        # A segment is bound to its tenant's name, and the client makes segments.
        return {**needed, "tenant": caller.tenant}


def _of_keys(app: FastAPI, service: ServiceFront) -> None:
    @app.get("/v1/keys")
    def listed(caller: Reads) -> Row:
        """The tenant's evaluation keys."""
        return {"keys": service.keys.listed(caller.tenant)}

    @app.delete("/v1/keys")
    def remove(caller: Keeps) -> Row:
        """Remove all evaluation keys of the tenant."""
        if service.state.has_open_jobs(caller.tenant):
            raise Problem(409, "jobs wait or run", remedy="cancel them, or wait", kind="keys-busy")
        service.jobs.pool.forget_tenant(caller.tenant)
        service.reserve.give_up()
        removed = service.keys.forget(caller.tenant)
        service.state.record(caller, "remove keys", str(removed))
        return {"removed": removed}


def _written(job: Row) -> bytes:
    """A job of a list. What is JSON in the database is not read: there may be much of it."""
    texts = ",".join(f'"{name}":{job.pop(name) or "null"}' for name in ("figures", "outputs"))
    return f"{json.dumps(job)[:-1]},{texts}}}".encode()


def _of_jobs(app: FastAPI, service: ServiceFront) -> None:
    jobs = service.jobs

    @app.post("/v1/jobs", status_code=202, responses={200: {"description": "The same job again"}})
    def submit(form: JobForm, caller: Runs, response: Response) -> Row:
        """Submit a job. 424 names lacking keys; 429 and 503 say in Retry-After when to come again."""
        is_new, submitted = jobs.submit(caller, form.model_dump())
        if not is_new:
            response.status_code = 200
        return submitted

    @app.get("/v1/jobs", response_model=Row)
    async def listed(
        caller: Reads,
        after: Annotated[str | None, Query(pattern=r"^[a-z0-9-]{1,40}$")] = None,
        wait: Annotated[float, Query(ge=0, le=MOST_WAIT_S, allow_inf_nan=False)] = 0.0,
    ) -> Response:
        """The latest 1,000 jobs, the newest first; with `after`, the jobs that ended after a cursor.

        With `after`: at most 1,000 jobs in the order in which they ended, at once or as soon as one ends, at the latest
        after `wait` seconds; and the next cursor. `missed` is true where the cursor is not of this server's run, or too
        old: begin with any word, such as `start`.
        """
        if after is None:
            written = await in_thread(lambda: b'{"jobs":[%s]}' % b",".join(map(_written, jobs.listed(caller.tenant))))
            return Response(written, media_type="application/json")
        return JSONResponse(await jobs.feed.wait(caller.tenant, after, wait, lambda: jobs.draining))

    @app.get("/v1/jobs/{job}")
    async def show(
        job: PathName, caller: Reads, wait: Annotated[float, Query(ge=0, le=MOST_WAIT_S, allow_inf_nan=False)] = 0.0
    ) -> Row:
        """A job: at once, or when it ended, or after `wait` seconds."""
        return await jobs.wait(caller.tenant, job, wait)

    @app.get("/v1/jobs/{job}/trace")
    def trace(job: PathName, caller: Reads) -> Row:
        """A job that ended lately as a timeline, which Perfetto (ui.perfetto.dev) and chrome://tracing open."""
        return seeing.trace_of_job(service, caller.tenant, job)

    @app.delete("/v1/jobs/{job}")
    def cancel(job: PathName, caller: Runs) -> Row:
        """Cancel a job, or remove the results of one that is done."""
        cancelled = jobs.cancel(caller, job)
        service.state.record(caller, "cancel", job)
        return cancelled

    @app.get("/v1/jobs/{job}/outputs/{name:path}", responses={200: {"content": {"application/octet-stream": {}}}})
    def output(job: PathName, name: Annotated[str, Path(max_length=NAME_CHARS)], caller: Reads) -> Response:
        """A result: one ciphertext in OpenFHE's serialized bytes."""
        path = jobs.output(caller.tenant, job, name)
        with suppress(FileNotFoundError):  # it may be removed meanwhile
            found = path.stat()
            if found.st_size > _Pieces.chunk_size:
                return _Pieces(path, stat_result=found, media_type="application/octet-stream")
            # In this thread: each way to another one waits for its turn.
            return Response(path.read_bytes(), media_type="application/octet-stream")
        raise results_gone(job)
