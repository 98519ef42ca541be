"""The routes of operators, on a separate listener: tenants, tokens, metrics, the audit trail, draining."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, FastAPI, Path, Query
from fastapi.responses import Response
from starlette.types import ASGIApp

from penstock.base.types import Row
from penstock.base.version import __version__
from penstock.service.http import seeing
from penstock.service.http.app import PathName, RotationForm, TenantForm, TokenForm, WorkForm, bare, guarded, needs
from penstock.service.http.service import ServiceFront
from penstock.service.state.problems import Problem
from penstock.service.state.tokens import ADMIN, Caller
from penstock.service.work.record import MOST_JOBS

Operates = Annotated[Caller, Depends(needs(ADMIN))]
TokenName = Annotated[str, Path(pattern=r"^[0-9a-f]{16}$")]


def administration(service: ServiceFront) -> ASGIApp:
    """The guarded application of operators."""
    app = bare("penstock serve: administration", service.log)
    _of_server(app, service)
    _of_tenants(app, service)
    _of_tokens(app, service)
    return guarded(app, service, admin=True)


def _of_server(app: FastAPI, service: ServiceFront) -> None:
    @app.get("/v1/health")
    async def health() -> Row:
        """The process answers."""
        return {"status": "alive", "version": __version__}

    @app.get("/metrics")
    def metrics(_: Operates) -> Response:
        """Figures in Prometheus' text format."""
        return Response(seeing.metrics_text(service), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/v1/work")
    def work(_: Operates, most: Annotated[int, Query(ge=0, le=10_000)] = 100) -> Row:
        """The first waiting jobs, running ones, keys by tenant, latencies by program, and counters of the cache."""
        return seeing.work(service, most)

    @app.get("/v1/trace")
    def trace(_: Operates, last: Annotated[int, Query(ge=1, le=MOST_JOBS)] = 200) -> Row:
        """The latest jobs as a timeline, which Perfetto (ui.perfetto.dev) and chrome://tracing open."""
        return seeing.trace(service, last)

    @app.post("/v1/work")
    def pause(form: WorkForm, caller: Operates) -> Row:
        """Begin no job until the opposite is asked for, or a drain. Jobs are taken all the while."""
        service.jobs.pool.pause(form.paused)
        service.state.record(caller, "pause" if form.paused else "resume")
        return {"paused": form.paused}

    @app.get("/v1/audit")
    def audit(_: Operates, after: Annotated[int, Query(ge=0, le=1 << 31)] = 0) -> Row:
        """Entries of the audit trail after a number, at most 1,000."""
        return {"entries": service.state.trail(after)}

    @app.post("/v1/drain", status_code=202)
    def drain(caller: Operates) -> Row:
        """Take no more jobs, end the running ones, and stop."""
        service.state.record(caller, "drain")
        service.jobs.draining = True
        service.drain_asked()
        return {"status": "draining"}


def _of_tenants(app: FastAPI, service: ServiceFront) -> None:
    @app.post("/v1/tenants", status_code=201)
    def add(form: TenantForm, caller: Operates) -> Row:
        """Add a tenant. Its tokens are made with POST /v1/tenants/TENANT/tokens."""
        if not service.add_tenant(caller, form.tenant):
            raise Problem(409, f"tenant '{form.tenant}' is there", remedy="choose another name", kind="tenant")
        return {"tenant": form.tenant}

    @app.get("/v1/tenants")
    def listed(_: Operates) -> Row:
        """The tenants and the bytes that they use."""
        rows = [
            {
                **row,
                "used_bytes": service.state.used_bytes(row["tenant"]),
                "key_bytes": service.keys.used_bytes(row["tenant"]),
            }
            for row in service.state.tenants()
        ]
        return {"tenants": rows}

    @app.delete("/v1/tenants/{tenant}")
    def remove(tenant: PathName, caller: Operates) -> Row:
        """Remove a tenant with its tokens and all its data."""
        _check(service, tenant)
        return service.forget_tenant(caller, tenant, keep_tokens=False)


def _of_tokens(app: FastAPI, service: ServiceFront) -> None:
    @app.post("/v1/tenants/{tenant}/tokens", status_code=201)
    def make(tenant: PathName, form: TokenForm, caller: Operates) -> Row:
        """Make a token. Its text is shown now, and never again."""
        _check(service, tenant)
        made = service.make_token(caller, tenant, tuple(form.scopes), form.lasts_s)
        return {"token": made.text, "identity": made.identity, "scopes": sorted(form.scopes)}

    @app.get("/v1/tenants/{tenant}/tokens")
    def listed(tenant: PathName, _: Operates) -> Row:
        """The identities, scopes and times of a tenant's tokens."""
        _check(service, tenant)
        return {"tokens": service.state.tokens(tenant)}

    @app.post("/v1/tenants/{tenant}/tokens/{identity}/rotate", status_code=201)
    def rotate(tenant: PathName, identity: TokenName, form: RotationForm, caller: Operates) -> Row:
        """Make a token with the same scopes; the old one ends after `overlap_s`."""
        row = _token(service, tenant, identity)
        now = service.state.clock()
        if row["expires_s"] is not None and row["expires_s"] <= now:
            raise Problem(409, "this token has ended", remedy="make a new one", kind="token-ended")
        lasts_s = None if row["expires_s"] is None else row["expires_s"] - row["created_s"]
        made = service.make_token(caller, tenant, tuple(row["scopes"].split()), lasts_s)
        service.state.end_token(tenant, identity, now + form.overlap_s)
        return {"token": made.text, "identity": made.identity, "scopes": row["scopes"].split()}

    @app.delete("/v1/tenants/{tenant}/tokens/{identity}")
    def end(tenant: PathName, identity: TokenName, caller: Operates) -> Row:
        """End a token now, also where the disk is full: `saved` says whether the end outlasts this server."""
        _token(service, tenant, identity)
        saved = service.state.end_token_at_once(caller, tenant, identity, service.state.clock())
        if saved:
            return {"identity": identity, "state": "ended", "saved": True}
        remedy = "free some space: the server tries again; if it stops before, the token is valid again"
        return {"identity": identity, "state": "ended", "saved": False, "remedy": remedy}


def _check(service: ServiceFront, tenant: str) -> None:
    if all(row["tenant"] != tenant for row in service.state.tenants()):
        raise Problem(404, f"there is no tenant '{tenant}'", remedy="GET /v1/tenants lists them", kind="no-tenant")


def _token(service: ServiceFront, tenant: str, identity: str) -> Row:
    for row in service.state.tokens(tenant):
        if row["token"] == identity:
            return row
    raise Problem(
        404, f"tenant '{tenant}' has no token {identity}", remedy="GET /v1/tenants/TENANT/tokens lists them",
        kind="no-token",
    )  # fmt: skip
