"""The home as JSON under /api/v1: the documents of the public contract. Pure: from what was read."""

from typing import Any

import msgspec

from holdfast.cli.dashboard.judging import Judged
from holdfast.cli.happenings import happenings
from holdfast.repository.views import JobList, checkpoint_detail, checkpoint_list
from holdfast.showing import masked
from holdfast.version import VERSION

_CHECKPOINTS = 200


def jobs(home: str, judged: list[Judged]) -> JobList:
    return JobList(home=masked(home), jobs=tuple(each.view for each in judged))


def job_document(found: Judged, rest: list[str], limit: int | None) -> Any:
    """What is below /jobs/NAME; None when there is no such thing."""
    match rest:
        case []:
            return found.view
        case ["checkpoints"]:
            return checkpoint_list(found.seen, limit or _CHECKPOINTS)
        case ["checkpoints", id] if id.isdigit():
            return checkpoint_detail(found.seen, int(id))
        case ["events"]:
            newest = happenings(found.seen.state)[-(limit or _CHECKPOINTS) :]
            return {"job": found.seen.job, "home": found.view.home, "events": [each.document() for each in newest]}
    return None


def error(status: int, message: str) -> dict[str, Any]:
    return {"error": {"message": message, "hint": None, "status": status}}


def openapi() -> dict[str, Any]:
    job = {"name": "job", "in": "path", "required": True, "schema": {"type": "string"}}
    id_ = {"name": "id", "in": "path", "required": True, "schema": {"type": "integer", "minimum": 1}}
    limit = {"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": 100000}}
    schemas, components = msgspec.json.schema_components(_DOCUMENTS, ref_template="#/components/schemas/{name}")
    of = dict(zip(_NAMES, schemas, strict=True))
    events = {"type": "object", "properties": {"job": {}, "home": {}, "events": {"type": "array", "items": {}}}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "holdfast", "version": VERSION, "description": "The jobs of one home. Read only."},
        "paths": {
            "/api/v1/jobs": {"get": _operation("The jobs of the home", of["jobs"])},
            "/api/v1/jobs/{job}": {"get": _operation("One job", of["job"], job)},
            "/api/v1/jobs/{job}/checkpoints": {"get": _operation("Its history", of["checkpoints"], job, limit)},
            "/api/v1/jobs/{job}/checkpoints/{id}": {"get": _operation("One checkpoint", of["checkpoint"], job, id_)},
            "/api/v1/jobs/{job}/events": {"get": _operation("What happened, oldest first", events, job, limit)},
        },
        "components": {"schemas": components},
    }


def _operation(summary: str, schema: Any, *parameters: Any) -> dict[str, Any]:
    answers: dict[str, Any] = {
        "200": {"description": "found", "content": {"application/json": {"schema": schema}}},
        "404": {"description": "there is no such job or checkpoint"},
    }
    return {"summary": summary, "parameters": list(parameters), "responses": answers}


def _documents() -> tuple[list[str], list[Any]]:
    from holdfast.repository.views import CheckpointDetail, CheckpointList, JobView

    return ["jobs", "job", "checkpoints", "checkpoint"], [JobList, JobView, CheckpointList, CheckpointDetail]


_NAMES, _DOCUMENTS = _documents()
