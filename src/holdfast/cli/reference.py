"""Which job, and which checkpoint of it, a command is about: `orders`, `orders@42`, `orders@before-v2`. Pure."""

from dataclasses import dataclass, replace

from holdfast.errors import InvalidSettings
from holdfast.identifiers import job_name, savepoint_name


class Typed(str):
    """A value that stands on the command line, not one of the environment or of a file."""

    __slots__ = ()


@dataclass(frozen=True)
class Reference:
    job: str
    checkpoint: int | None = None
    savepoint: str | None = None

    def among(self, checkpoint: int | None, savepoint: str | None = None) -> "Reference":
        """With what `--checkpoint` and `--savepoint` say; they and the `@` exclude each other."""
        if checkpoint is None and savepoint is None:
            return self
        if self.checkpoint is not None or self.savepoint is not None:
            raise InvalidSettings(
                "two checkpoints are named: one with @, one with --checkpoint or --savepoint", hint="give one of them"
            )
        return replace(self, checkpoint=checkpoint, savepoint=savepoint)


def referred(text: str | None, job: str | None) -> Reference:
    """What `text` names. A part that it leaves out is that of `--job`, of the environment or of a file."""
    if text is None:
        return Reference(_required(job))
    named, at, point = text.partition("@")
    if named and isinstance(job, Typed) and job != named:
        raise InvalidSettings(
            f"two jobs are named: {text} and --job {job}", hint=f"holdfast COMMAND {text}, without --job"
        )
    reference = Reference(job_name(named) if named else _required(job))
    if not at:
        return reference
    if point.isascii() and point.isdigit() and int(point) > 0:
        return replace(reference, checkpoint=int(point))
    return replace(reference, savepoint=_savepoint(text, point))


def one_job(text: str | None, job: str | None) -> str:
    """The same for a command that is about a whole job."""
    reference = referred(text, job)
    if reference.checkpoint is not None or reference.savepoint is not None:
        raise InvalidSettings(
            f"could not use {text!r}: this command is about a job, not about one of its checkpoints",
            hint=f"leave out what follows the @: {reference.job}",
        )
    return reference.job


def named(text: str, job: str | None) -> tuple[str, str]:
    """The job and the savepoint of `orders@before-v2`, or of `before-v2` alone."""
    if "@" not in text:
        return _required(job), savepoint_name(text)
    reference = referred(text, job)
    return reference.job, savepoint_name(text.partition("@")[2])


def _savepoint(text: str, point: str) -> str:
    try:
        return savepoint_name(point)
    except InvalidSettings as error:
        raise InvalidSettings(
            f"could not use {text!r}: what follows the @ must be the id of a checkpoint or the name of a savepoint",
            hint="orders@42, orders@before-v2",
        ) from error


def _required(job: str | None) -> str:
    if not job:
        raise InvalidSettings(
            "no job is named", hint="holdfast jobs lists them; name one as an argument, with --job or in HOLDFAST_JOB"
        )
    return job_name(str(job))
