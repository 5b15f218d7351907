"""`holdfast init DIR`: writes a pipeline, its settings, a test and files to deploy it, which run as they are."""

import keyword
import os
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from holdfast.cli.options import AsJson
from holdfast.cli.output import answer, print_json
from holdfast.errors import InvalidSettings
from holdfast.identifiers import job_name

_TEMPLATE = ".template"
"""Ends the name of each file, so that no tool takes one for a part of this program."""

Directory = Annotated[
    Path,
    typer.Argument(metavar="DIR", show_default=False, help="The directory to create; must be empty or not exist."),
]
NewJob = Annotated[
    str, typer.Option("--job", metavar="NAME", help="The job's name. It must be a valid name in Python, too.")
]


class WrittenPipeline(msgspec.Struct, frozen=True, kw_only=True):
    directory: str
    job: str
    files: tuple[str, ...]


def init(directory: Directory, job: NewJob = "orders", as_json: AsJson = False) -> None:
    """Write a pipeline to begin with, which runs as it is."""
    job_name(job)
    if not job.isidentifier() or keyword.iskeyword(job) or not job.islower():
        raise InvalidSettings.of("job", job, "must also be a valid name in Python: lower case letters, digits and _")
    place = directory.absolute()
    _require_empty(place)
    texts = {name.replace("{{job}}", job): _filled(text, job, place) for name, text in _templates()}
    for name, text in texts.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for folder in ("home", "incoming", "table"):
        (place / folder).mkdir()
    (place / "incoming" / "first.json").write_text(_SAMPLE)
    document = WrittenPipeline(directory=str(place), job=job, files=tuple(sorted(texts)))
    if as_json:
        print_json(document)
    else:
        _print(document)


_SAMPLE = """\
{"shop": "berlin", "amount": 12, "at": "2026-01-01T12:00:10Z"}
{"shop": "berlin", "amount": 30, "at": "2026-01-01T12:00:40Z"}
{"shop": "oslo", "amount": 7, "at": "2026-01-01T12:01:05Z"}
"""


def _require_empty(place: Path) -> None:
    if place.exists() and (not place.is_dir() or os.listdir(place)):
        raise InvalidSettings(
            f"could not write a pipeline to {place}: it exists and is not an empty directory", hint="name another one"
        )


def _templates(folder: Traversable | None = None, above: str = "") -> Iterator[tuple[str, str]]:
    for item in (folder or files("holdfast.cli.init") / "files").iterdir():
        if item.is_dir():
            yield from _templates(item, f"{above}{item.name}/")
        elif item.name.endswith(_TEMPLATE):
            yield above + item.name.removesuffix(_TEMPLATE), item.read_text()


def _filled(text: str, job: str, place: Path) -> str:
    return text.replace("{{job}}", job).replace("{{place}}", str(place))


def _print(document: WrittenPipeline) -> None:
    console = answer()
    for name in document.files:
        console.print(f"wrote  {name}", soft_wrap=True)
    console.print(f"next:  cd {document.directory} && holdfast run {document.job}", soft_wrap=True)
    console.print("       README.md says what else there is to try")
