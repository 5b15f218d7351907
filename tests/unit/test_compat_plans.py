"""What `make compat` would run, and what its page says."""

from pathlib import Path

from tests.compat.environments import VERSIONS
from tests.compat.plans import CHAIN, FORMATS, QUERIES, feature, plans

PAGE = (Path(__file__).parents[2] / "docs" / "versions.md").read_text()


def test_the_page_has_a_column_for_every_version_and_a_row_for_every_query() -> None:
    (heading,) = (line for line in PAGE.splitlines() if line.startswith("| query |"))
    assert [cell.strip() for cell in heading.split("|")[2:-3]] == list(VERSIONS)
    rows = [line.split("|")[1].strip() for line in PAGE.splitlines() if line.startswith("|")]
    assert set(QUERIES) <= set(rows)


def test_every_query_is_restarted_under_the_newest_version_and_carried_there_from_the_oldest_that_has_it() -> None:
    planned = list(plans(QUERIES))
    for state_format in FORMATS:
        newest = [plan for plan in planned if (plan.column, plan.state_format) == (VERSIONS[-1], state_format)]
        chains = [plan for plan in planned if (plan.column, plan.state_format) == (CHAIN, state_format)]
        cases = [case for plan in newest for case in plan.cases]
        assert sorted(cases) == sorted(case for plan in chains for case in plan.cases)
        assert all(plan.versions[-1] == VERSIONS[-1] for plan in chains)
        assert all(list(map(feature, plan.versions)) == sorted(map(feature, plan.versions)) for plan in planned)
