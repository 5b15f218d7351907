"""The file of Spark's classes: used only whole, by the Java and the PySpark that made it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.errors import HoldfastError
from holdfast.spark import class_archive
from holdfast.spark.class_archive import make_archive, sharing_classes, usable_archive


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "none"))
    folder = tmp_path / "holdfast-classes"
    folder.mkdir()
    return folder


def made(folder: Path, size: int = 10, cut: int = 0) -> Path:
    path = folder / class_archive._full_name(class_archive._name(), size)
    path.write_bytes(b"c" * (size - cut))
    return path


def test_a_whole_archive_is_passed_to_the_driver_in_front_of_the_options_of_the_user(cache: Path) -> None:
    environment = {"XDG_CACHE_HOME": str(cache.parent), "SPARK_SUBMIT_OPTS": "-Xshare:on"}
    archive = made(cache)
    with sharing_classes(environment):
        shared = f'-XX:SharedArchiveFile="{archive}" -XX:+VerifySharedSpaces -Xshare:on'
        assert environment["SPARK_SUBMIT_OPTS"] == shared
    assert environment["SPARK_SUBMIT_OPTS"] == "-Xshare:on"
    del environment["SPARK_SUBMIT_OPTS"]
    with sharing_classes(environment):
        assert environment["SPARK_SUBMIT_OPTS"].endswith("Spaces")
    assert "SPARK_SUBMIT_OPTS" not in environment


def test_one_that_was_cut_off_would_abort_the_jvm_and_is_not_used(cache: Path) -> None:
    made(cache, cut=1)
    environment = {"XDG_CACHE_HOME": str(cache.parent)}
    assert usable_archive(environment) is None
    with sharing_classes(environment):
        assert "SPARK_SUBMIT_OPTS" not in environment


def test_one_of_another_java_is_not_used(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(cache)
    environment = {"XDG_CACHE_HOME": str(cache.parent)}
    assert usable_archive(environment) is not None
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "other"))
    assert usable_archive(environment) is None


def test_what_a_killed_process_has_begun_is_removed_and_what_another_one_makes_is_not(cache: Path) -> None:
    (cache / ".making-999999999-x").mkdir()
    (cache / f".making-{os.getpid()}-x").mkdir()
    class_archive._remove_left(cache)
    assert [path.name for path in cache.iterdir()] == [f".making-{os.getpid()}-x"]


def test_what_was_started_ends_with_an_interruption(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache.parent))
    monkeypatch.setattr(sys, "prefix", "/proc/none")
    started: list[subprocess.Popen[bytes]] = []

    def interrupted(environment: dict[str, str], place: Path) -> str:
        started.append(subprocess.Popen(["sleep", "600"], env=environment))
        raise KeyboardInterrupt

    monkeypatch.setattr(class_archive, "_live", interrupted)
    with pytest.raises(KeyboardInterrupt):
        make_archive()
    try:
        assert started[0].wait(5) == -signal.SIGKILL
    finally:
        started[0].kill()
    assert list(cache.iterdir()) == []


@pytest.mark.long
def test_what_is_made_is_mapped_by_the_next_jvm(cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """-Xshare:on: a JVM that cannot map it does not start."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache.parent))
    monkeypatch.setattr(sys, "prefix", "/proc/none")
    monkeypatch.delenv("JDK_JAVA_OPTIONS", raising=False)
    old = made(cache)
    archive = make_archive()
    assert usable_archive() == archive != old
    assert [path.name for path in cache.iterdir()] == [archive.name]
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Xshare:on")
    with sharing_classes():
        assert class_archive._live(os.environ, tmp_path) == ""
    monkeypatch.delenv("SPARK_SUBMIT_OPTS")
    part = tmp_path / "part.jsa"
    part.write_bytes(archive.read_bytes()[:1_000_000])
    with pytest.raises(HoldfastError, match="Java does not start with what it wrote, 1000000 bytes"):
        class_archive._require_mapped(part, {**os.environ})
