"""The page, as text and in a real browser."""

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest
from tests.replay import browser
from tests.replay.browser import Browser
from tests.replay.rows import figures, pair, rich_rows, session

from prunewise.replay.report import html
from prunewise.replay.results import ErrorRow, Row
from prunewise.replay.totals import gather

PLOTS = ("cost", "distribution", "loss", "savings", "sweep", "timelines")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    rows: list[Row] = [
        *rich_rows("<b>&'\"", sessions=14),
        ErrorRow("bad.jsonl", "no session & <no> sense", 5),
    ]
    html.write(gather(rows, (0.1, 0.5)), rows, path)
    return path


def test_everything_from_sessions_is_escaped(written: Path):
    text = written.read_text()
    assert "<b>" not in text
    assert "&lt;b&gt;" in text
    assert "no session &amp; &lt;no&gt; sense" in text


def test_the_page_is_one_file_without_script(written: Path):
    text = written.read_text()
    assert "<script" not in text
    assert "@import" not in text
    assert not re.findall(r'(?:src|href)="(?!#|data:)', text)
    assert set(re.findall(r"https?://[\w./-]+", text)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }


def test_ids_are_the_pages_own_and_lead_somewhere(written: Path):
    text = written.read_text()
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r"(?:href=\"|url\()#([^\")]+)", text)) <= set(ids)


def test_the_same_rows_give_the_same_page():
    rows = rich_rows(sessions=3)
    totals = gather(rows)
    assert html.page(totals, rows) == html.page(totals, rows[::-1])


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [ErrorRow("a", "unreadable")],
        [pair("a", 100, 100)],
        [pair("a", 100, 90)],
        [session("a", figures("none", 100))],
        [session("a", figures("none", 100), figures("documented", 90, removed=5))],
    ],
)
def test_there_is_a_page_where_little_can_be_said(rows: list[Row]):
    totals = gather(rows)
    text = html.page(totals, rows)
    assert totals.verdict.sentences[0] in unescape(text)
    assert "None" not in re.sub(r"<svg.*?</svg>", "", text, flags=re.DOTALL)


# ------------------------------------------------------------ in a browser


@pytest.fixture(scope="module")
def shown() -> Iterator[Browser]:
    path = browser.program()
    if path is None:
        pytest.skip("needs a chromium on PATH")
    with Browser(path) as running:
        yield running


def unfold(shown: Browser) -> None:
    """Open everything that can be opened, all at once."""
    shown.value(
        """document.querySelectorAll('details').forEach(one => {
            one.removeAttribute('name');
            one.open = true;
        })"""
    )


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_asks_for_nothing_and_fits(shown: Browser, written: Path, width: int, dark: bool):
    shown.open(written, width=width, dark=dark)
    assert shown.value("document.title") == "What pruning would have done"
    assert shown.complaints == []
    assert [url for url in shown.requests if not url.startswith("data:")] == [written.as_uri()]
    assert shown.value("document.documentElement.scrollWidth") <= width
    # Open everything: nothing that unfolds may be wider than the window either.
    unfold(shown)
    assert shown.value("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [1280, 390])
def test_every_plot_has_marks_that_can_be_seen(shown: Browser, written: Path, width: int):
    shown.open(written, width=width)
    unfold(shown)
    for plot in PLOTS:
        marks = shown.value(
            f"""[...document.querySelectorAll('[aria-labelledby="{plot}"] [id*="mark-"]')].filter(one => {{
                const box = one.getBoundingClientRect();
                return box.width + box.height > 1 && one.querySelector('title');
            }}).length"""
        )
        assert marks, plot
        drawn = shown.value(
            f"""[...document.querySelectorAll('section[aria-labelledby="{plot}"] svg')].filter(
                one => one.getBoundingClientRect().width > 0).map(one => [
                one.getAttribute('role'), Boolean(one.getAttribute('aria-label')),
                one.getBoundingClientRect().width <= innerWidth])"""
        )
        assert drawn, plot
        assert all(one == ["img", True, True] for one in drawn)


def test_text_in_plots_can_be_read_on_a_phone(shown: Browser, written: Path):
    shown.open(written, width=390)
    smallest = shown.value(
        """Math.min(...[...document.querySelectorAll('.plot.narrow svg text')].filter(
            one => one.textContent.trim() && one.getBoundingClientRect().height > 0).map(
            one => one.getBoundingClientRect().height))"""
    )
    assert smallest > 9


def test_dark_and_light_differ_in_page_and_plots(shown: Browser, written: Path):
    looks: list[list[str]] = []
    for dark in (False, True):
        shown.open(written, width=1280, dark=dark)
        looks.append(
            shown.value(
                """[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color,
                ...[...document.querySelectorAll('.plot.wide svg')].filter(
                    one => one.getBoundingClientRect().width > 0).map(
                    one => getComputedStyle(one.querySelector('text')).fill),
                getComputedStyle(document.querySelector('[id*="cost-wide-mark-"] path')).fill]"""
            )
        )
    light, dark_look = looks
    assert len(light) == len(dark_look) > 5
    assert all(one != other for one, other in zip(light, dark_look, strict=True))


def test_text_stands_out_from_its_ground(shown: Browser, written: Path):
    for dark in (False, True):
        shown.open(written, width=1280, dark=dark)
        unfold(shown)
        low = shown.value(
            """(() => {
                const part = (text) => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
                const light = (colour) => {
                    const [r, g, b] = part(colour).map(v => v / 255).map(
                        v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
                    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
                };
                const ground = (one) => {
                    for (; one; one = one.parentElement) {
                        const colour = getComputedStyle(one).backgroundColor;
                        if (colour !== 'rgba(0, 0, 0, 0)') return colour;
                    }
                    return 'rgb(255, 255, 255)';
                };
                const found = [];
                const texts = 'p, li, td, th, summary, strong, span, dd, h2, svg text';
                for (const one of document.querySelectorAll(texts)) {
                    if (!one.textContent.trim() || !one.getBoundingClientRect().width) continue;
                    const style = getComputedStyle(one);
                    const colour = one.closest('svg') ? style.fill : style.color;
                    const [a, b] = [light(colour), light(ground(one))].sort((x, y) => y - x);
                    const ratio = (a + 0.05) / (b + 0.05);
                    if (ratio < 4.5)
                        found.push([one.tagName, one.textContent.trim().slice(0, 40), colour, ratio]);
                }
                return found;
            })()"""
        )
        assert low == [], "each text has a contrast of 4.5 or more"


def test_it_can_be_used_with_a_keyboard(shown: Browser, written: Path):
    shown.open(written, width=1280)
    assert shown.value(
        """[...document.querySelectorAll('.scroll')].every(one => one.tabIndex === 0
            && one.getAttribute('aria-label') && one.getAttribute('role') === 'region')"""
    )
    assert shown.value("[...document.querySelectorAll('summary')].every(one => one.tabIndex === 0)")
    assert shown.value(
        "[...document.querySelectorAll('th')].every(one => one.scope === 'col' || one.scope === 'row')"
    )
