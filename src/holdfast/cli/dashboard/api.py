"""The home as JSON under /api/v1: the documents of the public contract. Pure: from what was read."""

from typing import Any

import msgspec

from holdfast.cli.dashboard.judging import Judged
from holdfast.cli.happenings import happenings
from holdfast.cli.home_reader import HomeReading
from holdfast.repository.documents import JobList
from holdfast.repository.views import checkpoint_detail, checkpoint_list, savepoint_list
from holdfast.showing import masked
from holdfast.version import VERSION

_CHECKPOINTS = 200
_DESCRIPTION = "The jobs of one home. Read only, but for the actions where they are switched on."
_ACTION = "Asks the running job and waits for it. Only with `holdfast dashboard --actions`, and with its token."
_NAMED = {
    "schema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
    "example": {"name": "before-upgrade"},
}


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
        case ["savepoints"]:
            return savepoint_list(found.seen)
        case ["events"]:
            newest = happenings(found.seen.state)[-(limit or _CHECKPOINTS) :]
            return {"job": found.seen.job, "home": found.view.home, "events": [each.document() for each in newest]}
    return None


def error(status: int, message: str, hint: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "hint": hint, "status": status}}


def still_reading(reading: HomeReading) -> dict[str, Any]:
    """Until the home was read once, "no jobs" would be a guess."""
    return error(503, f"the home is being read for the first time: {reading.read} of {reading.names}", "try again")


def openapi() -> dict[str, Any]:
    job = {"name": "job", "in": "path", "required": True, "schema": {"type": "string"}}
    id_ = {"name": "id", "in": "path", "required": True, "schema": {"type": "integer", "minimum": 1}}
    limit = {"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": 100000}}
    schemas, components = msgspec.json.schema_components(_DOCUMENTS, ref_template="#/components/schemas/{name}")
    of = dict(zip(_NAMES, schemas, strict=True))
    name = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
    at = {"type": "string", "format": "date-time"}
    event = _record(sequence={"type": "integer"}, at=at, kind=_TEXT, text=_TEXT, bad={"type": "boolean"})
    events = _record(job=_TEXT, home=_TEXT, events={"type": "array", "items": event})
    return {
        "openapi": "3.1.0",
        "info": {"title": "holdfast", "version": VERSION, "description": _DESCRIPTION},
        "paths": {
            "/api/v1/jobs": {"get": _operation("The jobs of the home", of["jobs"])},
            "/api/v1/jobs/{job}": {"get": _operation("One job", of["job"], job)},
            "/api/v1/jobs/{job}/checkpoints": {
                "get": _operation("Its history", of["checkpoints"], job, limit),
                "post": _action("A checkpoint now", of["checkpoint"], None, job),
            },
            "/api/v1/jobs/{job}/checkpoints/{id}": {"get": _operation("One checkpoint", of["checkpoint"], job, id_)},
            "/api/v1/jobs/{job}/savepoints": {
                "get": _operation("Its savepoints", of["savepoints"], job),
                "post": _action("A savepoint now", of["checkpoint"], _NAMED, job),
            },
            "/api/v1/jobs/{job}/savepoints/{name}/drop": {
                "post": _action("Drop a savepoint: retention then applies to it", _DROPPED, None, job, name, made="200")
            },
            "/api/v1/jobs/{job}/collect": {
                "post": _action("Delete what nothing needs, in the background", _COLLECTED, None, job, made="200")
            },
            "/api/v1/jobs/{job}/events": {"get": _operation("What happened, oldest first", events, job, limit)},
        },
        "components": {"schemas": components, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }


def _operation(summary: str, schema: Any, *parameters: Any) -> dict[str, Any]:
    answers: dict[str, Any] = {
        "200": {"description": "found", "content": {"application/json": {"schema": schema}}},
        "404": {"description": "there is no such job or checkpoint"},
        "503": {"description": "the home is being read for the first time"},
    }
    return {"summary": summary, "parameters": list(parameters), "responses": answers}


def _action(summary: str, schema: Any, body: Any, *parameters: Any, made: str = "201") -> dict[str, Any]:
    answers: dict[str, Any] = {
        made: {"description": "done", "content": {"application/json": {"schema": schema}}},
        "401": {"description": "the token is missing or wrong"},
        "403": {"description": "a form that does not come from a page of this server"},
        "404": {"description": "there is no such job"},
        "405": {"description": "actions are off"},
        "409": {"description": "the job does not run, is busy, failed to do it, or gave no answer"},
        "422": {"description": "the name is taken or not valid"},
        "502": {"description": "the home does not answer"},
    }
    asked = {} if body is None else {"requestBody": {"required": True, "content": {"application/json": body}}}
    shared = {"parameters": list(parameters), "responses": answers, "security": [{"token": []}]}
    return {"summary": summary, "description": _ACTION, **asked, **shared}


def _record(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


_TEXT = {"type": "string"}
_DROPPED = _record(name=_TEXT, checkpoint={"type": "integer"})
_COLLECTED = _record(job=_TEXT, message=_TEXT)


def _documents() -> tuple[list[str], list[Any]]:
    from holdfast.repository.documents import CheckpointDetail, CheckpointList, JobView, SavepointList

    named = {
        "jobs": JobList,
        "job": JobView,
        "checkpoints": CheckpointList,
        "checkpoint": CheckpointDetail,
        "savepoints": SavepointList,
    }
    return list(named), list(named.values())


_NAMES, _DOCUMENTS = _documents()
