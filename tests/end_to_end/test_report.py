"""The report in a real browser: every chart draws, no script complains, names stay text, nothing is fetched."""

import os
import re
import shutil
import subprocess

import pytest

import report_answers
from commands import lobra
from experiments.report.charts import drawn, plotted
from experiments.rundir import pretty
from report_answers import HOSTILE

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHARTS = [chart for chart in report_answers.charts() if drawn(chart)]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def browser():
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"no browser: none of {', '.join(BROWSERS)} is on the path")
    return found


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    for name in ("one", "two"):
        (folder / name).mkdir()
        (folder / name / "summary.json").write_text(pretty(report_answers.answer().as_dict()), encoding="utf-8")
    assert lobra("report", "one", "two", "run_dir=out", cwd=folder).returncode == 0
    return folder / "out" / "report.html"


def played(browser, report, *options):
    """The browser without a window or a network, in a profile of its own."""
    command = [browser, "--headless", "--disable-gpu", "--enable-logging=stderr", "--virtual-time-budget=20000",
               "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={report.parent / 'profile'}"]  # fmt: skip
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []  # root has none
    return subprocess.run(
        [*command, *sandbox, *options, report.as_uri()], capture_output=True, text=True, check=True, timeout=120
    )


@pytest.fixture(scope="module")
def seen(browser, report):
    return played(browser, report, "--dump-dom")


def test_every_chart_is_drawn(seen):
    assert f'data-drawn="{2 * len(CHARTS)}"' in seen.stdout
    assert 'data-errors=""' in seen.stdout
    for section in (1, 2):
        for number, chart in enumerate(report_answers.charts(), 1):
            if chart in CHARTS:
                inside = part(seen.stdout, f"q{section}-chart{number}")
                assert 'class="main-svg"' in inside
                assert traces(inside) == len(plotted(chart)["data"])


def part(dom, place):
    """What was drawn into a place."""
    start = dom.index(f'id="{place}"')
    return dom[start : dom.index("<figcaption", start)]


def traces(inside):
    return len(re.findall(r'class="trace (?:bars|scatter trace[0-9a-f]+)"', inside))


def test_no_script_complains(seen):
    complaints = [line for line in seen.stderr.splitlines() if "CONSOLE" in line]
    assert complaints == []


def test_names_are_text_in_what_is_drawn(seen):
    """Case S16: Plotly reads tags in its labels; none of a tenant may become one."""
    bars = part(seen.stdout, "q1-chart3")
    ticks = re.findall(r'<g class="ytick">.*?</g>', bars)
    assert len(ticks) == len(HOSTILE)
    assert "&lt;b&gt;x&lt;/b&gt;" in ticks[0]
    assert ">a&amp;b<" in ticks[1]
    assert "&lt;/script&gt;&lt;script&gt;aler…" in ticks[2]
    assert "&amp;lt;i&amp;gt;" in ticks[9]
    assert "<img" not in seen.stdout.partition("<body>")[2].replace("&lt;img", "").partition("<script")[0]


@pytest.mark.parametrize(("theme", "page"), [(1, (255, 255, 255)), (0, (29, 32, 38))], ids=["light", "dark"])
def test_a_picture_of_the_page_is_not_blank(browser, report, theme, page):
    image = pytest.importorskip("PIL.Image", reason="no pillow to read the picture with")
    path = report.parent / f"{theme}.png"
    played(browser, report, f"--blink-settings=preferredColorScheme={theme}", "--window-size=1280,2400",
           f"--screenshot={path}")  # fmt: skip
    with image.open(path) as picture:
        colours = {colour[:3]: count for count, colour in picture.convert("RGB").getcolors(1 << 24)}
    assert max(colours, key=lambda colour: colours[colour]) == page  # the cards
    ink = (0, 114, 178) if theme == 1 else (78, 165, 221)
    assert colours.get(ink, 0) > 5000  # bars in the first colour of the theme


def test_it_prints(browser, report):
    path = report.parent / "print.pdf"
    played(browser, report, f"--print-to-pdf={path}", "--no-pdf-header-footer")
    assert path.read_bytes().startswith(b"%PDF-")
    assert path.stat().st_size > 50_000
