"""The home is lost while the pipeline runs: a copy of it takes over with the same sink, and the output is exact."""

import shutil
from pathlib import Path

from holdfast.cli.main import main
from tests.end_to_end.harness import Pipeline


def test_a_copy_taken_while_the_pipeline_ran_takes_over(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path, files=30)
    driver = pipeline.start(scrub="1s")
    driver.wait_for("step publish.done", times=2)
    other = tmp_path / "other"
    other.mkdir()
    copy = ["copy", "--home", pipeline.home_url, "--job", "counts", "--to", f"file://{other}", "--all"]
    assert main(copy) == 0
    driver.wait_for("step publish.done", times=2)  # the sink is ahead of the copy now
    driver.kill()
    newest = pipeline.state().restorable()[0]

    shutil.rmtree(pipeline.home)
    pipeline.wipe_work()
    pipeline.home_url = f"file://{other}"
    copied = pipeline.state().restorable()[0]
    assert copied.id < newest.id
    code, last = pipeline.start().end()
    assert code == 2, "readers have seen more than the copy knows: a person decides"
    assert "--accept-older-home" in last
    pipeline.finish(accept_older_home=True)
    state = pipeline.state()
    assert state.fencing_epoch > newest.fencing_epoch
    assert state.corrupt == {}
    pipeline.require_exact()
