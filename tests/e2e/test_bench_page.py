"""`tidegate-bench report`: the page is opened in a browser, on a phone and on a wide screen."""

import pytest
from playwright.sync_api import Error

from figures import all_figures, write
from harness.process import until
from said import one_sentence

# Three of each contest, two of each of tables A and C, one of each number of streams, five of table D, and three of growth.
PLOTS = 8 * 3 + 2 * 2 + 6 + 5 + 3

# Of every text in a plot: what it says, where it is, and how large its letters are on the screen.
TEXTS = """() => [...document.querySelectorAll('svg[role=img]')].flatMap((svg, plot) => {
    const [frame, view] = [svg.getBoundingClientRect(), svg.viewBox.baseVal];
    return [...svg.querySelectorAll('text')].map(text => {
        const box = text.getBoundingClientRect();
        return {
            plot, said: text.textContent,
            size: parseFloat(getComputedStyle(text).fontSize) * frame.width / view.width,
            left: box.left - frame.left, top: box.top - frame.top, right: box.right - frame.left, bottom: box.bottom - frame.top,
            wide: frame.width, high: frame.height,
        };
    });
})"""

# Of every plot: how many lines its legend has, or rows its table where there is no legend; in how many groups something
# of the data is seen, and how many lines, bars, boxes and points there are in all.
DRAWN = """() => [...document.querySelectorAll('figure')].map(figure => {
    const svg = figure.querySelector('svg[role=img]'), view = svg.viewBox.baseVal;
    const seen = shape => {
        const box = shape.getBBox(), paint = getComputedStyle(shape);
        const fits = (from, length, most) => from >= -0.5 && from + length <= most + 0.5;
        const inside = fits(box.x, box.width, view.width) && fits(box.y, box.height, view.height);
        return inside && Math.max(box.width, box.height) > 0 && [paint.fill, paint.stroke].some(it => it !== 'none');
    };
    const count = (of, shapes) => [...of.querySelectorAll(shapes)].filter(seen).length;
    return {
        said: figure.querySelector('figcaption').textContent,
        wanted: figure.querySelectorAll('.legend li').length || figure.querySelectorAll('tbody tr').length,
        // A line of one value is a marker alone.
        groups: [...svg.querySelectorAll('g')].filter(it => count(it, '.line, .marker, .bar, .box, .point')).length,
        shapes: count(svg, '.line, .bar, .box, .point'),
    };
})"""


@pytest.fixture(scope="module")
def page_of_all(bench, tmp_path_factory):
    """The page of all kinds of figures."""
    folder = tmp_path_factory.mktemp("figures")
    write(folder, all_figures())
    run = bench("report", folder)
    assert run.exit == 0 and run.text == f"{folder}/index.html\n", run
    return folder / "index.html"


def picture(of, path):
    """Takes one for people to look at. On a busy machine the browser may have nothing to take it of yet."""

    def taken():
        try:
            return of.screenshot(path=path, timeout=10_000)
        except Error as error:
            assert "Unable to capture" in str(error), error

    until(f"there is a picture, {path.name}", taken)


def overlap(one, other):
    """Whether two texts cover each other; the boxes have room above and below the letters."""
    across = min(one["right"], other["right"]) - max(one["left"], other["left"])
    down = min(one["bottom"], other["bottom"]) - max(one["top"], other["top"])
    return one["plot"] == other["plot"] and across > 0.5 and down > 0.35 * one["size"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_the_page_is_read_on_a_phone_and_on_a_wide_screen(browser, page_of_all, tmp_path, width, scheme):
    # What is read needs no script.
    context = browser.new_context(
        viewport={"width": width, "height": 800}, color_scheme=scheme, java_script_enabled=False, offline=True
    )
    asked, wrong = [], []
    context.on("request", lambda request: asked.append(request.url))
    page = context.new_page()
    page.on("console", lambda message: wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(page_of_all.as_uri(), timeout=30_000)
    # The whole is higher than a picture may be.
    picture(page, tmp_path / f"{width}-{scheme}.png")
    for section in page.locator("section").all():
        picture(section, tmp_path / f"{width}-{scheme}-{section.get_attribute('id')}.png")

    for state in ("closed", "open"):
        page.evaluate("open => document.querySelectorAll('details').forEach(it => it.open = open)", state == "open")
        wide, most = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        assert wide <= most == width, f"{state}: {wide} px of {most}"
        spilled = page.evaluate(
            """() => [...document.querySelectorAll('body *')]
                .filter(it => !it.closest('.scroll') && !it.closest('svg'))
                .filter(it => it.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5)
                .map(it => it.outerHTML.slice(0, 200))"""
        )
        assert spilled == [], state
    picture(page.locator("figure").first, tmp_path / f"{width}-{scheme}-open.png")

    texts = page.evaluate(TEXTS)
    assert len({text["plot"] for text in texts}) == PLOTS
    for text in texts:
        assert text["size"] >= 10 and text["right"] > text["left"], text
        # A letter such as J begins a little before its place.
        inside = text["left"] >= -3 and text["right"] <= text["wide"] + 1 and text["bottom"] <= text["high"] + 1
        assert inside and text["top"] >= -3, text
    for number, text in enumerate(texts):
        for other in texts[number + 1 :]:
            assert not overlap(text, other), (text, other)

    light = sum(int(part) for part in page.evaluate("getComputedStyle(document.body).backgroundColor")[4:-1].split(","))
    assert light > 3 * 200 if scheme == "light" else light < 3 * 60
    assert asked == [page_of_all.as_uri()] and wrong == [], (asked, wrong)
    context.close()


def test_every_plot_draws_what_its_legend_or_its_table_names(browser, page_of_all):
    page = browser.new_page()
    page.goto(page_of_all.as_uri(), timeout=30_000)
    plots = page.evaluate(DRAWN)
    assert len(plots) == PLOTS
    for plot in plots:
        assert plot["groups"] == plot["wanted"] > 0 and plot["shapes"] > 0, plot
    page.close()


def test_what_does_not_hold_is_seen_before_the_plots(bench, browser, tmp_path):
    broken = "4 MiB: auto takes 1.38 times as long as part by part"
    figures = all_figures()
    write(tmp_path, {"a": figures["a"] | {"broken": [broken]}, "c": figures["c"] | {"broken": []}, "b": figures["b"]})
    assert bench("report", tmp_path).exit == 0
    page = browser.new_page()
    page.goto((tmp_path / "index.html").as_uri(), timeout=30_000)
    said = page.locator("#a").get_by_text(f"DOES NOT HOLD: {broken}", exact=True)
    plot = page.locator("#a svg[role=img]").first
    assert said.is_visible() and said.bounding_box()["y"] < plot.bounding_box()["y"]
    assert page.get_by_text("DOES NOT HOLD").count() == 1
    page.close()


def test_who_does_not_see_a_plot_has_its_name_and_its_numbers(browser, page_of_all):
    page = browser.new_page()
    page.goto(page_of_all.as_uri(), timeout=30_000)
    images = page.get_by_role("img")
    assert images.count() == page.locator("figure").count() == PLOTS
    for figure in page.locator("figure").all():
        name = figure.locator("figcaption").inner_text()
        image = figure.get_by_role("img", name=name, exact=True)
        assert image.count() == 1 and image.locator("desc").text_content().endswith("in the table below.")
        figure.locator("summary").click()
        assert figure.get_by_role("row").count() > 1
    page.close()


def test_what_a_file_says_is_text(bench, browser, tmp_path):
    name = '<script>alert(1)</script><img src=http://127.0.0.1:9/x>&"'
    figures = all_figures()
    memory = figures["memory"]
    memory["title"] = memory["series"][0]["name"] = name
    figures["upload"]["tools"][1]["tool"] = name
    write(tmp_path, {"memory": memory, "upload": figures["upload"]})
    assert bench("report", tmp_path, "--to", tmp_path / "page.html").exit == 0
    asked, page = [], browser.new_page()
    page.on("request", lambda request: asked.append(request.url))
    page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
    page.goto((tmp_path / "page.html").as_uri(), timeout=30_000)
    assert page.get_by_role("img", name=name, exact=True).count() == 1
    assert page.locator("script, main img").count() == 0 and len(asked) == 1
    assert "Not measured: " in page.locator("footer").inner_text()
    page.close()


def test_what_is_no_figure_is_named_and_nothing_is_written(bench, tmp_path):
    one_sentence(bench("report", tmp_path), tmp_path, "a.json", exit=1)
    tables = all_figures()["tables"]
    del tables["lines"][3]["runs"][0]["usage"]["wall"]
    write(tmp_path, {"tables": tables, "b": all_figures()["b"]})
    one_sentence(bench("report", tmp_path), tmp_path / "tables.json", "lines[3].runs[0].usage", "`wall`", exit=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.json", "tables.json"]
