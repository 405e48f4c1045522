"""report.html in a real browser: no error, no network, figures with data, selectors that work."""

from __future__ import annotations

import json
import re
import shutil
from html.parser import HTMLParser

import numpy as np
import pytest

from epibias.defenses import BiasDef
from epibias.experiment.demo import run_demo
from epibias.experiment.figures import sweep_figure
from epibias.experiment.report import script_safe
from fake_encoder import FACTS, FakeEncoder

CHROMIUM_FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    out = tmp_path_factory.mktemp("report") / "run"
    return run_demo(out, FakeEncoder(), FACTS, topics=["remote", "wolves", "tipping"]).report


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    system = shutil.which("chromium") or shutil.which("chromium-browser")
    with playwright.sync_playwright() as driver:
        try:
            found = driver.chromium.launch(executable_path=system, args=CHROMIUM_FLAGS)
        except playwright.Error as error:
            if system is None:
                pytest.skip(f"no Chromium: {str(error).splitlines()[0]}")
            raise
        yield found
        found.close()


@pytest.fixture
def page(browser, report):
    """Give the opened report; fails on any message of the console or request beside the file."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    opened = context.new_page()
    troubles = []
    opened.on("console", lambda message: troubles.append(f"console: {message.text}"))
    opened.on("pageerror", lambda error: troubles.append(f"error: {error}"))
    opened.on(
        "request",
        lambda request: (
            troubles.append(f"request: {request.url[:80]}")
            if request.url != report.as_uri() and not request.url.startswith("data:")
            else None
        ),
    )
    opened.goto(report.as_uri())
    opened.wait_for_function("document.documentElement.dataset.drawn === 'yes'")
    yield opened
    assert troubles == []
    context.close()


COUNT_POINTS = """id => document.getElementById(id).data.map(
  trace => [trace.name, (trace.x || []).filter(value => value !== null).length])"""

# Draws every n-th of all choices; n is prime to the number of choices of each selector, so that
# every option of every selector is drawn with many of the others.
CHECK_CHOICES = """step => {
  const run = JSON.parse(document.getElementById('run-data').textContent);
  const ids = ['pick-topic', 'pick-attack', 'pick-axis', 'pick-defense'];
  const options = ids.map(id => [...document.getElementById(id).options].map(o => o.value));
  const all = options.reduce((some, more) => some.flatMap(s => more.map(m => [...s, m])), [[]]);
  const wrong = [], seen = new Set();
  let drawn = 0;
  for (let number = 0; number < all.length; number += step) {
    const choice = all[number];
    choice.forEach((value, i) => {
      seen.add(ids[i] + value);
      document.getElementById(ids[i]).value = value;
    });
    document.getElementById('pick-topic').dispatchEvent(new Event('change'));
    const [topic, attack, axis, defense] = choice;
    const pool = run.topics[topic].pools[axis][attack];
    const text = document.getElementById('query-verdict').textContent;
    const rows = document.querySelectorAll('#query-rows tr').length;
    const data = document.getElementById('plot-query').data;
    if (!pool) {
      if (!text.includes('No such attack') || rows || data.length) wrong.push(choice);
      continue;
    }
    drawn += 1;
    const verdict = pool.verdicts[defense];
    const bad = verdict.selected.filter(i => pool.adversarial[i]).length;
    const points = part => data.filter(t => t.name.includes(part) && t.mode === 'markers')
      .reduce((n, t) => n + t.x.length, 0);
    const sentence = `${verdict.selected.length} passages were selected, ${bad} of them`;
    if (!text.includes(sentence) || rows !== pool.ids.length
        || points('selected') !== verdict.selected.length
        || points('dropped') !== verdict.dropped.length) wrong.push([choice, text]);
  }
  return { wrong, drawn, seen: seen.size, options: options.flat().length };
}"""


def traces(page, figure):
    """Name and number of points of every trace that a figure holds."""
    return page.evaluate(COUNT_POINTS, figure)


def test_every_figure_has_data(page):
    lines = traces(page, "plot-lines")
    assert len(lines) == 2 * 3 * 8
    assert all(n_points == 5 for _, n_points in lines)
    validity = traces(page, "plot-validity")
    assert [n_points for _, n_points in validity] == [3, 3]
    query = traces(page, "plot-query")
    marks = [n for name, n in query if name.startswith(("benign", "adversarial"))]
    assert sum(marks) == 20
    assert {"PS left of the threshold", "PS right of the threshold"} <= {name for name, _ in query}
    assert any(name == "divergence at each threshold" and n > 5 for name, n in query)
    for figure in ("plot-lines", "plot-validity", "plot-query"):
        assert page.locator(f"#{figure} .plot-container svg").first.bounding_box()["height"] > 100


def test_every_option_of_every_selector_draws_what_the_raw_rows_say(page):
    found = page.evaluate(CHECK_CHOICES, 11)
    assert found["wrong"] == []
    # Every 11th of 648 choices is 59; two attacks in nine may have no decoys to be drawn.
    assert found["drawn"] >= 35
    assert found["seen"] == found["options"] == 3 + 9 + 3 + 8


def test_a_selector_works_by_keyboard(page):
    before = page.locator("#query-verdict").text_content()
    page.locator("#pick-topic").focus()
    page.keyboard.press("ArrowDown")
    assert page.locator("#query-verdict").text_content() != before
    assert "tipping" in page.evaluate("document.getElementById('plot-query').data[0].text[0]")


def test_dark_and_light_are_both_readable(page):
    seen = {}
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_function(
            "ink => document.getElementById('plot-query').layout.font.color === ink",
            arg={"light": "#1b1f24", "dark": "#e6e9ed"}[scheme],
        )
        colours = page.evaluate(
            "() => ['color', 'backgroundColor'].map(n => getComputedStyle(document.body)[n])"
        )
        luminance = [np.mean([int(v) for v in re.findall(r"\d+", c)[:3]]) for c in colours]
        # WCAG asks 4.5 : 1 of text: grey that is 137 levels from white, or 117 from black.
        assert abs(luminance[0] - luminance[1]) > 137
        seen[scheme] = luminance
    assert seen["light"][1] > seen["dark"][1]


def test_a_narrow_window_scrolls_tables_and_not_the_page(page):
    page.set_viewport_size({"width": 400, "height": 800})
    # The figures follow the width on the browser's next frame.
    # One pixel more is what rounding of fractional widths adds.
    page.wait_for_function("document.documentElement.scrollWidth <= window.innerWidth + 1")


class Outline(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tables, self.links, self.scripts, self.labels, self.selects = [], [], 0, 0, 0

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        if tag == "table":
            self.tables.append({"caption": 0, "bare": 0, "scoped": 0})
        elif tag == "caption":
            self.tables[-1]["caption"] += 1
        elif tag == "th":
            self.tables[-1]["scoped" if "scope" in named else "bare"] += 1
        elif tag == "script":
            self.scripts += 1
            assert "src" not in named
        elif tag in ("link", "img", "a", "iframe"):
            self.links.append(named.get("href") or named.get("src") or "")
        elif tag == "label":
            self.labels += 1
        elif tag == "select":
            self.selects += 1


def test_markup_is_self_contained_and_sane_for_screen_readers(report):
    outline = Outline()
    text = report.read_text(encoding="utf-8")
    outline.feed(text)
    assert all(link.startswith(("data:", "#")) for link in outline.links)
    assert outline.scripts == 3  # the data, plotly.js once, report.js
    assert len(outline.tables) >= 4
    assert all(t["caption"] == 1 and t["bare"] == 0 and t["scoped"] for t in outline.tables)
    assert outline.labels == outline.selects == 4
    assert '<html lang="en">' in text
    assert text.count('role="img"') == 3
    assert FACTS["note"] in text


def test_the_table_in_the_page_is_the_table_on_disk(report):
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", report.read_text(encoding="utf-8")))
    markdown = (report.parent / "tables" / "results.md").read_text(encoding="utf-8")
    checked = 0
    for line in markdown.splitlines():
        if line.startswith("| ") and not line.startswith("| defence"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            assert " ".join(cell for cell in cells if cell) in text
            checked += 1
    assert checked == 2 * (2 + 6 * 3)


def test_the_words_of_the_page_count_what_was_run(report):
    text = re.sub(r"\s+", " ", report.read_text(encoding="utf-8"))
    chance = json.loads((report.parent / "manifest.json").read_text(encoding="utf-8"))[
        "validity_by_chance"
    ]
    assert set(chance) == {"pca", "ridge"}
    assert all(0 < share < 1 for share in chance.values())
    for words in (
        "<h1>7 defences against injected passages, on 3 questions</h1>",
        "fitted on 8 anchor passages whose stance is known",
        "3, each with 8 anchor passages",
        "54 benign passages, 18 a question",
        "60; 1, 5 or 10 of one polarity at a time",
        f"{100 * chance['pca']:.0f} % (pca) and {100 * chance['ridge']:.0f} % (ridge) exceed .3",
    ):
        assert words in text


def test_a_smaller_plan_has_other_words(report):
    """Nothing about the shipped plan is written into the sentences."""
    from epibias.experiment.findings import findings
    from epibias.experiment.plan import Plan, demo_plan
    from epibias.experiment.report import _counts
    from epibias.experiment.run_folder import RunFolder
    from epibias.experiment.tables import aggregate

    full = demo_plan()
    attacks = tuple(a for a in full.attacks if a.condition in ("0", "5"))
    plan = Plan(full.k, full.pool_factor, full.seed, full.defenses, attacks)
    assert plan.injected == ("5",)
    rows = [row for row in RunFolder(report.parent).rows() if row["condition"] in ("0", "5")]
    text = " ".join(findings(aggregate(rows, plan), plan, []))
    assert "at 5 injected" in text
    assert not re.search(r"10 injected|at 10\b|\b1 injected", text)
    assert (_counts([8, 8]), _counts([8, 5])) == ("8", "5 to 8")


def test_text_cannot_break_out_of_a_script():
    assert "</script" not in script_safe('{"a": "</script><script>alert(1)"}')
    assert "<!--" not in script_safe("<!-- x")


@pytest.mark.parametrize(
    "defense",
    [BiasDef(k=5), BiasDef.bare(k=5), BiasDef.printed(k=5), BiasDef(k=3, side="auto", slack=0.2)],
    ids=lambda defense: defense.name,
)
@pytest.mark.parametrize("seed", range(5))
def test_the_drawn_sweep_is_the_one_that_was_acted_on(defense, seed):
    from epibias.polarization import PolarizationAxis
    from epibias.pool import CandidatePool

    generator = np.random.default_rng(seed)
    rows = generator.standard_normal((20, 8)).astype(np.float32)
    stances = np.array([3, 2, 2, 1, -1, -2, -2, -3])
    anchors = generator.standard_normal((8, 8)) + 0.5 * stances[:, None]
    axis = PolarizationAxis.fit(anchors.astype(np.float32), stances, method="mean_difference")
    pool = CandidatePool.from_vectors(rows[:1] + 0.5, rows, axis, k=defense.k)
    drawn = sweep_figure(defense, pool.similarities, pool.scores)
    threshold = defense.select(pool).diagnostics["sweep_threshold"][0]
    if not np.isfinite(threshold):
        assert drawn["threshold"] is None
        return
    # The page has five significant digits: half a unit of the last is at most 5e-5 of a number.
    assert drawn["threshold"] == pytest.approx(float(threshold), rel=5e-5)
    allowed = [
        y for y, ok in zip(drawn["curve"]["y"], drawn["curve"]["allowed"], strict=True) if ok
    ]
    assert drawn["divergence"] == pytest.approx(max(allowed), rel=5e-5)
    step = (drawn["grid"][-1] - drawn["grid"][0]) / (len(drawn["grid"]) - 1)
    for density in drawn["densities"]:
        # The grid is so fine and wide that only the rounding to five digits is left.
        assert sum(density["values"]) * step == pytest.approx(1, abs=1e-4)


def test_equal_scores_draw_everything_kept():
    drawn = sweep_figure(
        BiasDef(k=5), np.linspace(0.9, 0.1, 20, dtype=np.float32), np.full(20, 0.3, np.float32)
    )
    assert drawn["threshold"] is None
    assert drawn["curve"]["x"] == []
    assert drawn["densities"] == [{"side": "all", "values": []}]
