"""The errors a user can meet, one tree.

    HoldfastError                  exit 1
    ├── InvalidSettings            exit 2   a value the user gave breaks a rule
    │   ├── NewerFormat                     a newer version wrote it, and this one cannot read it
    │   ├── Incompatible                    the query cannot resume from the job's checkpoint
    │   └── Conflict                        the outside is not as the last run left it: the user must choose
    ├── NotFound                   exit 3   no such job, checkpoint or savepoint
    ├── Corrupt                    exit 4   bytes do not match their digest
    ├── OwnedByAnotherRun          exit 5   a live run owns the job
    ├── Fenced                     exit 5   this run owned the job; a newer one does now
    │   └── FencedByMaintenance    exit 1   a command took the job briefly: start the run again
    ├── StorageError               exit 6   the home did not do what was asked
    │   ├── InvalidKey                      no store takes an object of that name
    │   ├── ObjectNotFound                  the key does not exist
    │   ├── StorageDenied                   permission or credentials
    │   ├── StorageFull                     no space or quota
    │   ├── StorageUnreachable              no answer, or a transient error
    │   │   ├── StorageThrottled            requests are throttled
    │   │   └── StorageNotThere             no such bucket or container, or not in that region
    │   ├── HomeReplaced                    it was emptied, swapped or restored from a backup under a live run
    │   ├── OutcomeUnknown                  a write that may or may not have taken effect
    │   └── DamagedJournal         exit 4   a journal entry is damaged; is also a Corrupt
    ├── CheckpointFailed           exit 1   a checkpoint that was requested and did not complete
    └── JobFailed                  exit 1   the pipeline ended and will not be restarted
        └── StopOverdue                     it was asked to stop, and something did not end in time

Each says what was attempted on what, why it failed, and (`hint`) what to try. None shows the secrets of a URL.
"""

from __future__ import annotations

from typing import Any

from holdfast.showing import masked


class HoldfastError(Exception):
    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        self.message = masked(message)
        self.hint = None if hint is None else masked(hint)
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.message}\nTry: {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, self.hint))


def _rebuild(kind: type[HoldfastError], message: str, hint: str | None) -> HoldfastError:
    error = kind.__new__(kind)
    HoldfastError.__init__(error, message, hint=hint)
    return error


class InvalidSettings(HoldfastError):
    exit_code = 2

    @classmethod
    def of(cls, field: str, value: object, rule: str, *, hint: str | None = None) -> InvalidSettings:
        return cls(f"{field}={value!r} is not valid: {rule}", hint=hint)


class Incompatible(InvalidSettings):
    differences: tuple[Any, ...] = ()
    """Each is a `checkpoint.difference.Difference`; empty when Spark, and not holdfast, found the difference."""


class Conflict(InvalidSettings):
    """Names both sides; the hint names the options to choose from. Raised before anything was changed."""


class NewerFormat(InvalidSettings):
    """Nothing that it names may be deleted or abandoned: the version that wrote it needs it."""

    @classmethod
    def of_format(cls, subject: str, found: int, known: int) -> NewerFormat:
        return cls(
            f"could not read {subject}: it was written by a newer version (format {found}, this one reads {known})",
            hint="upgrade holdfast to the version that wrote it",
        )


class NotFound(HoldfastError):
    exit_code = 3


class Corrupt(HoldfastError):
    exit_code = 4


class OwnedByAnotherRun(HoldfastError):
    exit_code = 5


class Fenced(HoldfastError):
    exit_code = 5
    by_maintenance = False


class FencedByMaintenance(Fenced):
    """A user let a command take the job while this run was silent. With this exit code a supervisor starts it again."""

    exit_code = 1
    by_maintenance = True


class StorageError(HoldfastError):
    exit_code = 6


class InvalidKey(StorageError):
    pass


class ObjectNotFound(StorageError):
    pass


class StorageDenied(StorageError):
    pass


class StorageFull(StorageError):
    pass


class StorageUnreachable(StorageError):
    pass


class StorageThrottled(StorageUnreachable):
    pass


class StorageNotThere(StorageUnreachable):
    pass


def is_refusal(error: BaseException | None) -> bool:
    """The store has understood the request, and will not do it: no retry helps, another request may."""
    return type(error) in (StorageError, StorageDenied)


class HomeReplaced(StorageError):
    """What this run has written is gone, and no other run has taken the job. Passes when the home is back."""


class OutcomeUnknown(StorageError):
    pass


class DamagedJournal(Corrupt, StorageError):
    """A caller that needs the entry cannot continue; one that can wait until the home works again waits."""


class CheckpointFailed(HoldfastError):
    pass


class JobFailed(HoldfastError):
    pass


class StopOverdue(JobFailed):
    """A stop did not end in time. What hangs may hang for ever, including threads that the interpreter waits for."""


class StopAsked(BaseException):
    """A signal asks a starting process to end. Not an Exception, so that no handler of failures catches it."""
