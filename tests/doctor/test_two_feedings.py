"""One set of rules, two ways of feeding it: both give the same report, and the plain one needs nothing but Python."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.doctor.diagnosis.diagnosing import diagnose
from holdfast.doctor.findings.rules import RULES
from holdfast.doctor.matching.engines import PLAIN, fast
from holdfast.doctor.matching.examination import examine_here
from tests.doctor.collection import CASES
from tests.doctor.real import LOGS
from tests.doctor.wild import HEAPS, HERE
from tests.patience import PATIENCE

MAGIC = (
    "Caused by: org.rocksdb.RocksDBException: Bad table magic number: expected 9863518390377041911, "
    "found 17223112372431451250 in /tmp/x/db/000210.sst"
)
HEALTHY = b"2024-05-02 10:00:00,000 INFO  org.apache.flink.runtime.jobmaster.JobMaster [] - Connecting to it\n"
MOST_CPU_S = 1.0
"""A paste is answered within a second on an idle machine; how long it waits for the processor says nothing."""
HEAVY = ("pyspark", "pandas", "numpy", "pyarrow", "hyperscan")
IN_PROCESS = f"""
import sys
from holdfast.cli.main import main
code = main(["doctor", *sys.argv[1:]])
print("heavy:", *(name for name in {HEAVY} if name in sys.modules))
raise SystemExit(code)
"""


@pytest.mark.parametrize("folder", [CASES, LOGS, *(HERE / name for name in HEAPS)], ids=lambda folder: folder.name)
def test_both_engines_give_the_same_report(folder: Path) -> None:
    for path in sorted(folder.iterdir()):
        plain, vectors = (examine_here([str(path)], RULES, engine) for engine in (PLAIN, fast()))
        assert plain == vectors, path.name
        assert diagnose(plain.sightings) == diagnose(vectors.sightings), path.name


def doctor(*arguments: str, given: bytes = b"") -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-c", IN_PROCESS, *arguments], input=given, capture_output=True, timeout=PATIENCE, check=False
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.mark.parametrize("arguments", [("-",), ()], ids=["dash", "piped"])
def test_a_paste_needs_neither_java_nor_spark(arguments: tuple[str, ...]) -> None:
    code, out, err = doctor(*arguments, given=MAGIC.encode())
    assert code == 1, err
    assert "state-unreadable" in out
    assert "certain: files of the checkpoint" in out
    assert "state.backend.local-recovery: true" in out
    assert out.endswith("heavy:\n")


def test_a_paste_takes_less_than_a_second_of_the_processor(tmp_path: Path) -> None:
    (tmp_path / "pasted").write_text(MAGIC)
    with (tmp_path / "pasted").open("rb") as given, (tmp_path / "said").open("wb") as said:
        command = [sys.executable, "-m", "holdfast.cli", "doctor", "-"]
        process = subprocess.Popen(command, stdin=given, stdout=said, stderr=said)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 1, (tmp_path / "said").read_text()
    assert used.ru_utime + used.ru_stime < MOST_CPU_S


def test_a_file_needs_neither_java_nor_spark() -> None:
    code, out, err = doctor(str(CASES / "seed-003-magic-number.log"))
    assert code == 1, err
    assert out.endswith("heavy:\n")


@pytest.mark.parametrize(
    ("content", "code", "said"),
    [
        (b"", 3, "the input is empty"),
        (b"\x7fELF" + bytes(range(256)) * 50, 3, "is not text"),
        (b"\xff\xfe\xfa broken \xc3\x28 bytes\n" + MAGIC.encode(), 1, "state-unreadable"),
        (b"nothing at all\n", 3, "none begins like a line of a log"),
        (HEALTHY, 0, "recognised: Flink, 0 exceptions that no rule knows, 1 line that begins like a line of a log"),
        (HEALTHY, 0, "what would help: the JobManager's log from five minutes before the failure on"),
    ],
    ids=["empty", "binary", "invalid-utf-8", "no-log", "recognised", "would-help"],
)
def test_whatever_is_in_the_file_there_is_a_clear_answer(tmp_path: Path, content: bytes, code: int, said: str) -> None:
    path = tmp_path / "odd.log"
    path.write_bytes(content)
    ended, out, err = doctor(str(path))
    assert ended == code, err
    assert said in out + err
    assert "Traceback" not in err


def test_a_directory_without_logs_is_named(tmp_path: Path) -> None:
    code, _, err = doctor(str(tmp_path))
    assert (code, "has no files" in err, "Traceback" in err) == (3, True, False)


def test_one_endless_line_is_read_in_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "line.log"
    with path.open("wb") as file:
        file.write(MAGIC.encode() + b" ")
        for _ in range(50):
            file.write(b"x" * 2**20)
    limited = "import resource; resource.setrlimit(resource.RLIMIT_AS, (600 * 2**20, 600 * 2**20));" + IN_PROCESS
    done = subprocess.run(
        [sys.executable, "-c", limited, str(path)],
        capture_output=True,
        timeout=PATIENCE,
        check=False,
        text=True,
        env={"PATH": "", "PYTHONPATH": ":".join(sys.path)},
    )
    assert "state-unreadable" in done.stdout, done.stderr
    assert "Traceback" not in done.stderr


def test_a_closed_input_is_named() -> None:
    command = [sys.executable, "-c", IN_PROCESS, "-"]
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *command], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (done.returncode, "standard input is closed" in done.stderr) == (3, True), done.stderr


def test_a_reader_that_closes_the_pipe_ends_it_silently() -> None:
    command = [sys.executable, "-m", "holdfast.cli", "doctor", str(CASES)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
        assert process.wait(PATIENCE) == 1
    assert said == ""
