"""The HTML report in Chromium: nothing runs, nothing sticks out, all can be read, wide and narrow, light and dark."""

from pathlib import Path
from typing import Literal

import pytest

from holdfast.doctor.diagnosis.diagnosing import diagnose
from holdfast.doctor.findings.rules import RULES
from holdfast.doctor.matching.sightings import observe
from holdfast.doctor.reports.document import LogsRead, Report
from holdfast.doctor.reports.page import page
from tests.doctor.browser import BROWSER, measured
from tests.doctor.events import MINUTE, NOON, event, expired

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium here: apt-get install chromium")

WIDTHS = (320, 390, 1280)
HOSTILE = "<script>parent.hacked = true</script><img src=x onerror='parent.hacked = true'>"

LOOK = """(page, window) => {
  const channel = c => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const light = text => { const [r, g, b] = text.match(/[\\d.]+/g).map(Number);
    return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b); };
  const ground = node => { for (; node; node = node.parentElement) {
    const colour = window.getComputedStyle(node).backgroundColor;
    if (colour !== 'rgba(0, 0, 0, 0)') return colour; } return 'rgb(255, 255, 255)'; };
  const contrast = node => { const pair = [light(window.getComputedStyle(node).color), light(ground(node))];
    return (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05); };
  const texts = [...page.querySelectorAll('h1, h2, p, dt, dd, pre, pre span, .badge, .label, .tick')];
  const box = node => node.getBoundingClientRect();
  const bars = [...page.querySelectorAll(".bar")].map(bar => [box(bar), box(bar.parentElement)]);
  const ticks = [...page.querySelectorAll('.tick')].map(box).filter(r => r.width);
  return {
    hacked: Boolean(parent.hacked || window.hacked),
    scripts: page.scripts.length,
    sticksOut: page.documentElement.scrollWidth - window.innerWidth,
    smallest: Math.min(...texts.map(n => parseFloat(window.getComputedStyle(n).fontSize))),
    contrast: Math.min(...texts.map(contrast)),
    bars: bars.length,
    barsOutside: bars.filter(([b, t]) => b.left < t.left - 1 || b.right > t.right + 7 || b.width < 5).length,
    ticksTouching: ticks.filter((r, n) => n && r.left < ticks[n - 1].right + 4).length,
    background: window.getComputedStyle(page.body).backgroundColor,
  };
}"""


@pytest.fixture(scope="module")
def html() -> str:
    exceeded = ("org.apache.flink.util.FlinkRuntimeException", "Exceeded checkpoint tolerable failure threshold.")
    long_path = "hdfs://nn1/" + "a-very-long-directory-name-without-a-space/" * 6
    failed = f"asynchronous part of checkpoint 9 could not be completed {HOSTILE}"
    seen = observe(
        [
            *(expired(n, NOON + n * 10 * MINUTE, source="x" * 90 + ".log") for n in range(1, 5)),
            event("Trying to recover", exceeded, at=NOON + 41 * MINUTE),
            event(failed, ("java.io.IOException", f"{long_path}: No space left on device"), at=NOON, job="b" * 32),
            event(f"Job {HOSTILE} switched from state RUNNING to FAILED", at=NOON + 90 * MINUTE, job="c" * 32),
        ],
        RULES,
    )
    logs = LogsRead(files=3, bytes=1, lines=9, events=7, unparsed=0, skipped=(f"{HOSTILE} is not text",))
    return page(Report(findings=diagnose(seen), logs=logs))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_readable_in_every_width(html: str, scheme: Literal["light", "dark"], tmp_path: Path) -> None:
    assert HOSTILE not in html
    looks = measured(html, WIDTHS, scheme, LOOK, tmp_path)
    assert set(looks) == set(WIDTHS)
    for width, look in looks.items():
        assert not look["hacked"], width
        assert look["scripts"] == 0
        assert look["sticksOut"] <= 0, width
        assert look["smallest"] >= 11.9, width
        assert look["contrast"] >= 4.5, (scheme, look)
        assert look["bars"] >= 4
        assert (look["barsOutside"], look["ticksTouching"]) == (0, 0), width
    dark = looks[1280]["background"] == "rgb(13, 17, 23)"
    assert dark == (scheme == "dark")
