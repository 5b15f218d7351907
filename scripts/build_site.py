"""`make docs`: the documentation site, in `site/`. It fetches nothing from elsewhere, neither here nor at its readers.

Pages are those of docs/ and some of the repository's root. A link to anything else of the repository becomes plain
text: who reads the site has no source. A link that leads nowhere ends the build.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent
ROOT_PAGES = ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
SECTIONS: Mapping[str, tuple[str, ...]] = {
    "Start here": ("what-you-see.md",),
    "How to": (
        "runbook.md",
        "operating.md",
        "moving-in.md",
        "leaving.md",
        "protect.md",
        "deploy.md",
        "kubernetes.md",
        "cluster.md",
        "rescaling.md",
        "alarms.md",
        "metrics.md",
        "dashboard.md",
        "kafka.md",
        "doctor.md",
        "logs.md",
    ),
    "Reference": (
        "cli.md",
        "commands.md",
        "python.md",
        "settings.md",
        "errors.md",
        "queries.md",
        "versions.md",
        "stores.md",
        "hdfs.md",
        "sinks.md",
        "what-happens-when.md",
        "failures.md",
        "findings.md",
        "format.md",
        "coordinator.md",
        "CHANGELOG.md",
    ),
    "Explanation": (
        "why-not-plain-checkpoints.md",
        "exactly-once.md",
        "costs.md",
        "benchmarks.md",
        "comparison.md",
        "trust.md",
        "security.md",
    ),
    "Work on it": ("ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"),
}
_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def main() -> int:
    with tempfile.TemporaryDirectory() as place:
        code = build(prepare(Path(place), ROOT / "site"))
    if code == 0:
        sys.stdout.write("open site/index.html; for the search: python -m http.server -d site 8000\n")
    return code


def build(configuration: Path) -> int:
    """Not 0 when a link leads nowhere, or a page is in no section."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--clean", "-f", str(configuration)]
    return subprocess.run(command, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, check=False).returncode


def prepare(place: Path, site: Path) -> Path:
    """Pages with the site's links, and the configuration to make `site` of them."""
    pages = place / "docs"
    shutil.copytree(ROOT / "docs", pages)
    for name in ROOT_PAGES:
        (pages / name).write_text(_from_root(ROOT / name))
    for page in (ROOT / "docs").glob("*.md"):
        (pages / page.name).write_text(with_links_of_the_site(page.read_text()))
    configuration = place / "mkdocs.yml"
    configuration.write_text(_configuration(pages, site))
    return configuration


def _from_root(page: Path) -> str:
    text = re.sub(r"\]\((?!docs/|https?:|#)", "](../", page.read_text())
    return with_links_of_the_site(text.replace("](docs/", "]("))


def with_links_of_the_site(text: str) -> str:
    return _LINK.sub(lambda found: _link(found[1], found[2]), text)


def _link(shown: str, target: str) -> str:
    path, hash, anchor = target.partition("#")
    if not path.startswith("../"):
        return f"[{shown}]({target})"
    name = path.removeprefix("../")
    if name in ROOT_PAGES:
        return f"[{shown}]({name}{hash}{anchor})"
    return "[the first page](index.md)" if name == "README.md" else shown


def _configuration(pages: Path, site: Path) -> str:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    navigation = "\n".join(f"  - {section}: [{', '.join(names)}]" for section, names in SECTIONS.items())
    return f"""\
site_name: holdfast {version}
site_description: Back up a running PySpark Structured Streaming query, and restore its state and output together
docs_dir: {pages}
site_dir: {site}
use_directory_urls: false
nav:
  - index.md
{navigation}
theme:
  name: material
  font: false
  features: [navigation.sections, navigation.top, search.highlight, content.code.copy, toc.follow]
plugins: [search]
markdown_extensions: [tables, toc: {{permalink: true}}, pymdownx.superfences, pymdownx.highlight]
validation:
  nav: {{omitted_files: warn, not_found: warn}}
  links: {{not_found: warn, anchors: warn, absolute_links: warn}}
"""


if __name__ == "__main__":
    sys.exit(main())
