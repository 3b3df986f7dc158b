"""The page, as text and in a real browser."""

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest
from tests.replay import browser
from tests.replay.browser import Browser
from tests.replay.rows import figures, pair, rich_rows, session

from prunewise.replay.report import html, plots
from prunewise.replay.results import Detected, ErrorRow, Missed, Row
from prunewise.replay.totals import gather

HARD_WORDS = r"\b(both|two-level|suffix|net|gross|harness|optimum|recalls?|blocks?|lanes?|epochs?|log\w*)\b"
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


def test_tiles_are_of_the_recommended_policy_money_first_and_both_figures():
    rows = [
        session(
            f"{n}",
            figures("none", 100, dollars=2.0),
            figures(
                "documented",
                99.0 + n % 3 / 10,
                dollars=1.98,
                removed=5,
                missed=Missed(1, 5, 1, 1),
                detected=Detected(98, 98, 0, 0, Missed(), 1.96),
            ),
            figures(
                "priced",
                80.0 + n % 3,
                dollars=1.6,
                removed=50,
                missed=Missed(9, 50, 1, 1),
                detected=Detected(70, 70, 0, 0, Missed(), 1.4),
            ),
        )
        for n in range(20)
    ]
    tiles = re.findall(r"<li><strong[^>]*>(.*?)</strong><span>(.*?)</span>", html.page(gather(rows), rows))
    assert [value for value, _ in tiles] == [
        "$40.00", "$8.00 (19.1%)", "$12.00 (30.0%)", "$8.00 to $8.00", "0 of 20", "none",
    ]  # fmt: skip
    assert tiles[1][1].startswith("saved by priced;")


@pytest.mark.parametrize("saved", [0.02, 0.26, 0.13, -0.26, -0.4])
def test_a_saving_is_as_long_as_it_is_large(saved: float):
    names = ("none", "documented", "priced")
    costs = (100, 98, 100 * (1 - saved))
    row = session("a", *(figures(name, cost, removed=1) for name, cost in zip(names, costs, strict=True)))
    drawn = plots.cost(gather([row])).wide
    bars = re.findall(r"saved</title><path d=\"M ([\d.]+) [\d.]+ L ([\d.]+)", re.sub(r"\s+", " ", drawn))
    first, second = (float(right) - float(left) for left, right in bars)
    assert second / first == pytest.approx(saved / 0.02, rel=1e-4)


def test_each_plot_has_one_sentence_and_no_word_to_look_up(written: Path):
    text = written.read_text()
    said = re.findall(
        r"<h2 id=\"(?!verdict|basis)[a-z]+\">([^<]+)</h2>\s*<p>([^<]+)</p>\s*(?:<figure|<details)", text
    )
    assert len(said) == len(PLOTS)
    for title, sentence in said:
        assert re.fullmatch(r"[A-Z][^.]*\.", unescape(sentence)), sentence
        assert re.findall(HARD_WORDS, f"{title} {sentence}".lower()) == []


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
