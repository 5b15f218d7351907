"""From `FILE[:FUNCTION]` to the function that builds the pipeline.

An error in the user's file is reported with the file and the line, never with a traceback of holdfast.
"""

import functools
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from holdfast.errors import HoldfastError, InvalidSettings, JobFailed

Build = Callable[..., Any]

_USUAL_NAMES = ("pipeline", "build")
_MODULE_PREFIX = "holdfast_pipeline_"
"""Keeps a file named like some library from hiding that library."""


@dataclass(frozen=True)
class PipelineReference:
    path: Path
    function: str | None

    @classmethod
    def parse(cls, text: str) -> "PipelineReference":
        path, colon, function = text.rpartition(":")
        if colon and function.isidentifier() and not Path(text).is_file():
            return cls(Path(path), function)
        return cls(Path(text), None)

    def __str__(self) -> str:
        return f"{self.path}:{self.function}" if self.function else str(self.path)


def load_pipeline(reference: PipelineReference, job: str | None) -> tuple[str, Build]:
    """The function's name and the function. Runs the user's file, as a module and not as `__main__`."""
    if not reference.path.is_file():
        raise InvalidSettings(f"could not run {reference}: there is no file {reference.path}", hint="check the path")
    module = _execute(reference.path)
    functions = {
        name: value
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
    }
    name = reference.function or choose_function(functions, job, reference.path)
    function = getattr(module, name, None)
    if not callable(function):
        raise InvalidSettings(
            f"could not run {reference}: {reference.path} has no function {name!r}", hint=_candidates_hint(functions)
        )
    if inspect.iscoroutinefunction(function):
        raise InvalidSettings(
            f"could not run {reference}: {name!r} is an `async def`, which would never run",
            hint="use def instead of async def; it is called once, and returns a streaming DataFrame",
        )
    return name, _shipped_by_value(function, module)


def choose_function(functions: Mapping[str, Build], job: str | None, path: Path) -> str:
    """The function named like the job, else `pipeline` or `build`, else the only one there is."""
    for name in (job, *_USUAL_NAMES):
        if name in functions:
            return str(name)
    if len(functions) == 1:
        return next(iter(functions))
    problem = "it defines several functions" if functions else "it defines no function"
    raise InvalidSettings(
        f"could not choose the pipeline's function in {path}: {problem}", hint=_candidates_hint(functions, path)
    )


def _candidates_hint(functions: Mapping[str, Build], path: Path | None = None) -> str:
    if not functions:
        return "define a function that takes the Spark session and returns a streaming DataFrame"
    prefix = f"{path}:" if path else ""
    return "one of: " + ", ".join(f"{prefix}{name}" for name in functions)


def _execute(path: Path) -> ModuleType:
    path = path.resolve()
    name = _MODULE_PREFIX + "".join(c if c.isalnum() else "_" for c in path.stem)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InvalidSettings(f"could not load {path}: it is not a Python file", hint="name a file that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))  # as Python does for a script, so that its neighbours can be imported
    try:
        spec.loader.exec_module(module)
    except HoldfastError:
        raise
    except SyntaxError as error:
        raise InvalidSettings(
            f"could not load {error.filename or path}, line {error.lineno}: {type(error).__name__}: {error.msg}",
            hint="correct that line",
        ) from error
    except (Exception, SystemExit) as error:
        # A missing package stays missing. Anything else may pass, so a supervisor restarts the job: exit 1, not 2.
        kind = InvalidSettings if isinstance(error, ImportError) else JobFailed
        raise kind(
            f"could not load {path}, line {_line_in(path, error)}: {type(error).__name__}: {error}",
            hint=f"python {path} shows the same error with its full traceback",
        ) from error
    return module


def _line_in(path: Path, error: BaseException) -> int | str:
    """The deepest line of the user's own file that was running."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return next((line for line in reversed(lines) if line is not None), "?")


def _shipped_by_value(function: Build, module: ModuleType) -> Build:
    """Spark's workers cannot import the user's file under holdfast's name, so its functions are pickled by value."""

    @functools.wraps(function)
    def build(*args: Any, **kwargs: Any) -> Any:
        from pyspark.cloudpickle import register_pickle_by_value  # the session exists, so pyspark is loaded

        register_pickle_by_value(module)
        return function(*args, **kwargs)

    return build
