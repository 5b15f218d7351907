"""`holdfast.toml`: settings of jobs, and of profiles such as dev and prod. Read, checked, and laid over each other."""

import dataclasses
import difflib
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.errors import InvalidSettings
from holdfast.identifiers import job_name
from holdfast.settings import Settings

NAME = "holdfast.toml"

_FOR_ONE_START = ("force", "new_life", "accept_older_home", "accept_sink", "from_savepoint", "from_checkpoint")
"""In a file they would apply to every later start, too."""
_PYTHON_ONLY = ("spark", "sink_position")
OF_A_RUN = frozenset(
    {each.name for each in dataclasses.fields(Settings)} - {*_FOR_ONE_START, *_PYTHON_ONLY}
    | {"sink", "master", "conf", "log_format"}
)
_OF_A_PLACE = OF_A_RUN | {"home", "job", "jobs"}
_OF_A_JOB = OF_A_RUN | {"file"}


@dataclass(frozen=True)
class Configuration:
    """Nothing is set when there is no file."""

    path: Path | None = None
    top: Mapping[str, Any] = field(default_factory=dict)
    profile: Mapping[str, Any] = field(default_factory=dict)

    @property
    def home(self) -> str | None:
        return self._value("home")

    @property
    def job(self) -> str | None:
        return self._value("job")

    @property
    def alarms(self) -> list[str] | None:
        found = self.profile.get("alarms", self.top.get("alarms"))
        return None if found is None else list(found)

    def has_job(self, name: str) -> bool:
        return any(name in _jobs(place) for place in (self.top, self.profile))

    def of_run(self, job: str | None) -> dict[str, Any]:
        """Everything for a run of this job; the more special place wins: profile and job, job, profile, top."""
        layers = [self.top, self.profile]
        if job is not None:
            layers += [_jobs(place).get(job, {}) for place in (self.top, self.profile)]
        return {name: value for layer in layers for name, value in layer.items() if name in _OF_A_JOB}

    def file_of(self, job: str) -> str | None:
        """The pipeline file of a job that is named there, relative to the configuration's folder."""
        found = self.of_run(job).get("file")
        if found is None or self.path is None:
            return None
        file, colon, function = str(found).partition(":")
        return str(self.path.parent / file) + colon + function

    def _value(self, name: str) -> str | None:
        found = self.profile.get(name, self.top.get(name))
        return None if found is None else str(found)


def read_configuration(path: Path | None, profile: str | None, here: Path) -> Configuration:
    """`path` must exist; without one the file in `here` is used, if there is one."""
    found = path or here / NAME
    if path is None and not found.exists():
        if profile is not None:
            raise InvalidSettings(
                f"could not use profile {profile!r}: there is no {NAME} in {here}",
                hint="--config FILE",
            )
        return Configuration()
    try:
        document = tomllib.loads(found.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSettings(f"could not read {found}: {error}", hint="--config FILE") from error
    except tomllib.TOMLDecodeError as error:
        raise InvalidSettings(f"could not read {found}: {error}", hint="correct that line") from error
    return _checked(found, document, profile)


def _checked(path: Path, document: dict[str, Any], wanted: str | None) -> Configuration:
    profiles = _table(path, "profiles", document.pop("profiles", {}))
    chosen = wanted or document.pop("profile", None)
    document.pop("profile", None)
    _require_place(path, "", document)
    for name, place in profiles.items():
        _require_place(path, f"profiles.{name}", place)
    if chosen is not None and chosen not in profiles:
        known = f"one of: {', '.join(profiles)}" if profiles else f"[profiles.{chosen}] in {path}"
        raise InvalidSettings(f"could not use profile {chosen!r}: {path} has none of that name", hint=known)
    return Configuration(path, document, profiles[chosen] if chosen is not None else {})


def _require_place(path: Path, where: str, place: object) -> None:
    table = _table(path, where, place)
    _require_known(path, where, table, _OF_A_PLACE)
    _require_valid(path, where, table)
    for name, job in _table(path, f"{where}.jobs".lstrip("."), table.get("jobs", {})).items():
        spot = f"{where}.jobs.{name}".lstrip(".")
        job_name(name)
        _require_known(path, spot, _table(path, spot, job), _OF_A_JOB)
        _require_valid(path, spot, job)


def _table(path: Path, where: str, found: object) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise InvalidSettings(f"could not use {path}: {where} must be a table", hint=f"[{where}]")
    return found


def _require_known(path: Path, where: str, table: Mapping[str, Any], known: Collection[str]) -> None:
    for name in table:
        if name in known:
            continue
        spot = f" in [{where}]" if where else ""
        if name in _FOR_ONE_START:
            why, hint = "it is for one start", f"--{name.replace('_', '-')} on the command line"
        else:
            near = difflib.get_close_matches(name, known, n=1)
            why, hint = "there is no such setting", f"did you mean {near[0]!r}?" if near else "docs/settings.md"
        raise InvalidSettings(f"could not use {name!r}{spot} of {path}: {why}", hint=hint)


def _require_valid(path: Path, where: str, table: Mapping[str, Any]) -> None:
    try:
        Settings.merged(None, settings_in(table))
        spark_settings(table.get("conf"))
    except InvalidSettings as error:
        spot = f" in [{where}]" if where else ""
        raise InvalidSettings(f"could not use {path}: {error.message}{spot}", hint=error.hint) from error


def settings_in(table: Mapping[str, Any]) -> dict[str, Any]:
    names = {each.name for each in dataclasses.fields(Settings)}
    return {name: value for name, value in table.items() if name in names}


def spark_settings(found: object) -> list[str]:
    """`conf` as `--conf` has it."""
    if found is None:
        return []
    if not isinstance(found, dict) or not all(isinstance(value, str | int | float) for value in found.values()):
        raise InvalidSettings.of("conf", found, "must be a table of Spark's settings", hint='conf."spark.x.y" = "z"')
    return [f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in found.items()]


def _jobs(place: Mapping[str, Any]) -> Mapping[str, Any]:
    return place.get("jobs", {})  # type: ignore[no-any-return]
