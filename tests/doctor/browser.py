"""A page as Chromium lays it out, in several widths at once."""

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from html import escape, unescape
from pathlib import Path
from typing import Any, Literal

from tests.patience import PATIENCE

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

_SCHEMES = {"dark": 0, "light": 1}
_ANSWER = re.compile(r'<pre id="answer">(.*?)</pre>', re.DOTALL)


def measured(
    page: str, widths: Sequence[int], scheme: Literal["dark", "light"], script: str, place: Path
) -> dict[int, Any]:
    """What the script, a function of a document and its window, says of the page in each width."""
    frames = "".join(
        f'<iframe data-width="{width}" style="width:{width}px;height:4000px;border:0" srcdoc="{escape(page)}"></iframe>'
        for width in widths
    )
    asking = (
        f"<script>const ask = {script}; onload = () => {{ const said = {{}};"
        "for (const each of document.querySelectorAll('iframe'))"
        " said[each.dataset.width] = ask(each.contentDocument, each.contentWindow);"
        "const answer = document.createElement('pre'); answer.id = 'answer';"
        "answer.textContent = JSON.stringify(said); document.body.replaceChildren(answer); }</script>"
    )
    outer = place / f"outer-{scheme}.html"
    outer.write_text(f'<!doctype html><meta charset="utf-8"><body>{frames}{asking}', encoding="utf-8")
    found = _ANSWER.search(_run(place, scheme, "--dump-dom", outer.as_uri()))
    assert found is not None, "the page said nothing"
    return {int(width): said for width, said in json.loads(unescape(found[1])).items()}


def _run(place: Path, scheme: str, *arguments: str) -> str:
    assert BROWSER is not None
    command = [
        BROWSER,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--disable-dev-shm-usage",
        f"--user-data-dir={place / 'profile'}",
        f"--blink-settings=preferredColorScheme={_SCHEMES[scheme]}",
        *arguments,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr[-1000:]
    return done.stdout
