"""`make docs`: every page is in the site, every link leads somewhere, nothing is fetched from elsewhere."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_spec = importlib.util.spec_from_file_location("build_site", ROOT / "scripts" / "build_site.py")
assert _spec is not None
assert _spec.loader is not None
build_site = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(build_site)


def test_every_page_is_in_one_section() -> None:
    listed = [name for names in build_site.SECTIONS.values() for name in names]
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"index.md"}
    assert sorted(listed) == sorted(pages | {*build_site.ROOT_PAGES}), "a page belongs in SECTIONS of build_site.py"


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("[a](b.md#c)", "[a](b.md#c)"),
        ("[changes](../CHANGELOG.md)", "[changes](CHANGELOG.md)"),
        ("[`test_x`](../tests/unit/test_x.py)", "`test_x`"),
        ("[there](https://example.org)", "[there](https://example.org)"),
    ],
)
def test_links_are_those_of_a_site_without_the_source(written: str, shown: str) -> None:
    assert build_site.with_links_of_the_site(written) == shown


def test_it_builds_and_fetches_nothing(tmp_path: Path) -> None:
    assert build_site.build(build_site.prepare(tmp_path / "well", tmp_path / "site")) == 0
    page = (tmp_path / "site" / "index.html").read_text()
    fetched = re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="(https?://[^"]+)"', page)
    assert not fetched
    assert list((tmp_path / "site" / "search").glob("search_index.js*"))


def test_a_dead_link_ends_the_build(tmp_path: Path) -> None:
    configuration = build_site.prepare(tmp_path / "ill", tmp_path / "site")
    (configuration.parent / "docs" / "index.md").write_text("[nowhere](cli.md#no-such-heading)")
    assert build_site.build(configuration) != 0
