"""A PostgreSQL server of its own, in a directory, on a socket there; spoken to with `psql`."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.stores.processes import required, running

_DATABASE = "postgres"


@contextlib.contextmanager
def postgres_server(directory: Path) -> Iterator[str]:
    """The folder of its socket, by which `sql` finds it."""
    data, as_user = directory / "data", _not_root()
    directory.mkdir()
    if as_user:
        shutil.chown(directory, "postgres")
        for parent in directory.parents[:-1]:
            parent.chmod(parent.stat().st_mode | 0o011)
    program = _program("initdb")
    subprocess.run([*as_user, program, "-D", data, "-A", "trust", "-U", _DATABASE], check=True, capture_output=True)
    options = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={directory}", "-c", "fsync=off"]
    command = [*as_user, _program("postgres"), "-D", str(data), *options]
    with running(command, directory.parent / "postgres.log", lambda: _answers(directory)):
        yield str(directory)


def sql(server: str, script: str) -> str:
    """All of it in one transaction. What it selects, a line per row."""
    command = [required("psql"), "-h", server, "-U", _DATABASE, "-qAtX1", "-v", "ON_ERROR_STOP=1", "-f", "-"]
    return subprocess.run(command, input=script, text=True, capture_output=True, check=True).stdout


def _answers(directory: Path) -> bool:
    with contextlib.suppress(subprocess.CalledProcessError):
        return sql(str(directory), "SELECT 1;") == "1\n"
    return False


def _not_root() -> list[str]:
    """The server refuses to run as root."""
    return [required("setpriv"), "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []


def _program(name: str) -> str:
    """Debian keeps them apart, by version."""
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(places[-1]) if places else required(name)
