"""The table of cache rules in the documentation is the table in prices.py."""

from pathlib import Path

from prunewise.prices import DAY, HOUR, MINUTE, RULES, UNKNOWN, CacheRules

BEGIN, END = "<!-- cache rules: begin -->\n", "<!-- cache rules: end -->"


def duration(seconds: float) -> str:
    for unit, name in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min")):
        if seconds % unit == 0:
            return f"{seconds / unit:g} {name}"
    return f"{seconds:g} s"


def marked(row: CacheRules, name: str, text: str) -> str:
    return f"{text} (a)" if name in row.assumed else text


def changed(row: CacheRules) -> str:
    if row.drops_reasoning:
        return marked(row, "drops_reasoning", "drops reasoning")
    return marked(row, "signed", "is refused" if row.signed else "is sent")


def line(row: CacheRules) -> str:
    write = f"{row.write:g}" if row.write == row.write_1h else f"{row.write:g}, {row.write_1h:g}"
    lives = [duration(row.time_to_live)] + [duration(row.longest)] * (row.longest != row.time_to_live)
    held = "any beginning" if row.style == "automatic" else f"{row.breakpoints} breakpoints"
    if row.lookback:
        held += f", {row.lookback} back"
    least = f"{row.minimum}" if row.step == 1 else f"{row.minimum} + {row.step}"
    time = "time_to_live" if "time_to_live" in row.assumed else "longest"
    cells = (
        row.family,
        marked(row, "read", f"{row.read:g}"),
        marked(row, "write", write),
        marked(row, time, " to ".join(lives)),
        marked(row, "minimum", least),
        held,
        changed(row),
        row.source,
    )
    return "| " + " | ".join(cells) + " |"


def table() -> str:
    head = (
        "| family | read | write | lives | least | holds | a changed prefix | source |\n"
        "|---|---|---|---|---|---|---|---|\n"
    )
    return head + "".join(f"{line(row)}\n" for row in (*RULES, UNKNOWN))


def test_the_page_shows_the_table(root: Path):
    page = (root / "docs" / "explanation" / "cost-model.md").read_text()
    _, _, rest = page.partition(BEGIN)
    shown, found, _ = rest.partition(END)
    assert found
    assert shown == table()
    assert {row.checked for row in RULES} == {"2026-11-30"}
    assert "30 November 2026" in page
