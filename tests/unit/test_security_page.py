"""docs/security.md: what it says of the code is so."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_nothing_that_is_read_from_a_home_is_unpickled() -> None:
    using = {
        str(path.relative_to(ROOT / "src" / "holdfast"))
        for path in (ROOT / "src" / "holdfast").rglob("*.py")
        if re.search(
            r"pickle\.loads|\bcloudpickle\b|Serializer\(\)\.loads|\bmarshal\b|\beval\(|\bexec\(", path.read_text()
        )
    }
    between_driver_and_executors = {"doctor/spark/remote.py", "doctor/spark/following.py", "doctor/spark/pipeline.py"}
    between_driver_and_executors |= {"spark/executors.py", "spark/visiting.py", "sinks/asking_executors.py"}
    code_of_the_user = {"cli/pipeline_file.py", "spark/forgetting.py"}
    in_one_process = {"testing/workdirs.py"}
    assert using <= between_driver_and_executors | code_of_the_user | in_one_process


def test_the_page_and_the_way_to_report_are_linked() -> None:
    assert "docs/security.md" in (ROOT / "README.md").read_text()
    assert "SECURITY.md" in (ROOT / "docs" / "security.md").read_text()
    for name in ("trust.md", "doctor.md"):
        assert (ROOT / "docs" / name).exists()
