"""Charts show their data in both widths and in every format, with a colour-blind-safe palette."""

import itertools
import math
import re
import subprocess
import sys
import threading
from pathlib import Path
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from numpy.typing import NDArray
from tests.cli.conftest import call
from tests.report.structure import Structure

import hubbub as hb
from hubbub.errors import MissingExtra
from hubbub.report import (
    Axis,
    Bar,
    Chart,
    Mark,
    Rank,
    Series,
    bar_chart,
    chart,
    error_chart,
    estimate_chart,
    frontier_chart,
    plans_chart,
    style,
)

SVG = "{http://www.w3.org/2000/svg}"
RANKS = [Rank("local", 600.0, "nobody", 1), Rank("fakes", 2.8, "shuffler-noise", 1), Rank("split", 7.1, "shuffling", 3)]


def drawn(points: list[tuple[float, ...]], *, kind: str = "line", log: bool = False, **more: object) -> Chart:
    return chart(
        [Series(label="a", points=points, kind=kind, **more)],  # type: ignore[arg-type]
        "t",
        across=Axis("x", 1.0, 100.0, log=True),
        up=Axis("y", 1.0, 10.0, log),
        marks=[Mark("here", 10.0), Mark("there", 5.0, up=True)],
    )


def tree(one: Chart, *, wide: bool = True) -> ElementTree.Element:
    return ElementTree.fromstring(one.standalone(wide=wide))


def words(one: Chart, *, wide: bool = True) -> list[str]:
    return [element.text or "" for element in tree(one, wide=wide).iter(f"{SVG}text")]


def curves(one: Chart) -> list[list[tuple[float, float]]]:
    """Return the points of the lines in the first colour, without the legend."""
    found = []
    for path in tree(one).iter(f"{SVG}path"):
        if path.get("stroke") == style.LIGHT["one"] and path.get("clip-path"):
            pieces = path.get("d", "").split("M")[1:]
            found += [[(float(x), float(y)) for x, y in re.findall(r"([-\d.]+) ([-\d.]+)", piece)] for piece in pieces]
    return found


def test_a_straight_line_is_straight_on_logarithmic_axes() -> None:
    (places,) = curves(drawn([(1, 1), (10, math.sqrt(10)), (100, 10)], log=True))
    (x0, y0), (x1, y1), (x2, y2) = places
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
    assert y0 - y1 == pytest.approx(y1 - y2, abs=0.2)
    assert x0 < x1 < x2
    assert y0 > y1 > y2


def test_a_curve_is_interrupted_where_it_has_no_value() -> None:
    pieces = curves(drawn([(1, 2), (2, 2), (5, math.inf), (10, 3), (20, 4), (50, 5)]))
    assert [len(piece) for piece in pieces] == [2, 3]
    assert curves(drawn([])) == []


@pytest.mark.parametrize(
    ("axis", "labels"),
    [
        (Axis("", 1e-6, 1.0, log=True), "10⁻⁶ 10⁻⁵ 10⁻⁴ 10⁻³ 10⁻² 0.1 1"),
        (Axis("", 1e-14, 1e-10, log=True), "10⁻¹⁴ 10⁻¹³ 10⁻¹² 10⁻¹¹ 10⁻¹⁰"),
        (Axis("", 1.0, 20.0, log=True), "1 2 5 10 20"),
        (Axis("", 10.0, 1e4, log=True), "10 100 1,000 10,000"),
        (Axis("", 0.0, 8.0), "0 1 2 3 4 5 6 7 8"),
        (Axis("", -0.31, 0.97), "−0.2 0 0.2 0.4 0.6 0.8"),
        (Axis("", 0.0, 4e6), "0 5·10⁵ 10⁶ 1.5·10⁶ 2·10⁶ 2.5·10⁶ 3·10⁶ 3.5·10⁶ 4·10⁶"),
        (Axis("", 0.0, 0.003), "0 0.0005 0.001 0.0015 0.002 0.0025 0.003"),
        (Axis("", 0.9, 1.0, percent=True), "90% 92% 94% 96% 98% 100%"),
        (Axis("", 1.0, 16.0, log=True, at=(1, 4, 16)), "1 4 16"),
    ],
)
def test_ticks_are_round_and_short(axis: Axis, labels: str) -> None:
    found = words(chart([], "t", across=axis, up=Axis("", 0, 1, at=(0.5,))))
    assert " ".join(word for word in found if word != "0.5") == labels


def test_points_that_an_axis_cannot_show_are_left_out() -> None:
    band = Series(label="b", points=[(1, 0.1, 0.2), (0, 0.1, 0.2), (2, 0.0, 0.3), (3, math.inf, 1)], kind="band")
    dots = Series(label="d", points=[(1, 0.5, 0.0, 0.6), (2, math.nan, 0.0, 1.0)], kind="dots", names=["one", "two"])
    one = chart([band, dots], "t", across=Axis("x", log=True), up=Axis("y", log=True))
    text = one.html()
    assert "nan" not in text
    assert text.count("<title>one</title>") == 2  # in both widths
    assert "<title>two" not in text


@pytest.mark.parametrize("points", [[(3.0, 3.0)], [(1e12, 1e12)], [(1e-9, 5.0), (1e9, 5.0)]])
@pytest.mark.parametrize("log", [False, True])
def test_extreme_points_are_drawn(points: list[tuple[float, ...]], log: bool) -> None:
    one = chart([Series(points=points, kind="both")], "t", across=Axis("x", log=log), up=Axis("y", log=log))
    assert "nan" not in one.html()


@pytest.mark.parametrize("label", ["<b>&\"'", "日本語", "$x^2$", "a" * 200])
def test_labels_are_not_interpreted(label: str) -> None:
    bars = [Bar(label, 1, 1, 0, 2)]
    charts = [
        chart(
            [Series(label=label, points=[(1, 1)], names=[label], kind="dots")], label, across=Axis(label), up=Axis("")
        ),
        bar_chart(bars, label),
        error_chart(bars, label),
        frontier_chart([Rank(label, 1.0, "nobody", 1.0)], label, central=2.0),
    ]
    for one in charts:
        page = Structure(one.html())
        assert page.named == [label, label]
        assert page.open == []
        shown = [word for word in words(one) if word.startswith(label[:30])]
        assert shown
        assert label in "".join(shown) or "…" in shown[0]


def test_bars_show_estimate_interval_and_truth() -> None:
    for wide in (True, False):
        found = words(bar_chart([Bar("a", 10, 1100, 9, 13), Bar("b", None, 5, 4, 6)], "t"), wide=wide)
        assert {"a", "b", "1,100", "5", "estimate", "95% interval", "truth", "people"} <= set(found)
    assert "truth" not in words(bar_chart([Bar("b", None, 5, 4, 6)], "t"))


def test_errors_are_signed_around_the_truth() -> None:
    found = words(error_chart([Bar("a", 100, 110, 90, 130), Bar("b", 7, 7, 7, 7)], "t"))
    assert {"a", "b", "truth", "+10", "−10"} <= set(found)
    assert words(error_chart([Bar("b", 7, 7, 7, 7)], "t"))  # all intervals may be empty


def test_the_frontier_ranks_protocols_and_shows_trust() -> None:
    one = frontier_chart(RANKS, "t", central=2.5)
    for wide in (True, False):
        found = words(one, wide=wide)
        names = [word for word in found if word in ("fakes", "split", "local")]
        assert names == ["fakes", "split", "local"]
        assert "a server that sees every record: 2.5" in found
        assert {"nobody", "the shuffler", "the shuffler, which also draws fakes"} <= set(found)
        assert {"2.8", "7.1", "600"} <= set(found)
    root = tree(one)
    heights = {
        text.text: float(text.get("transform", "").split()[-1].rstrip(")"))
        if text.get("y") is None
        else float(text.get("y", ""))
        for text in root.iter(f"{SVG}text")
    }
    assert heights["fakes"] < heights["split"] < heights["local"]
    shapes = {use.get("fill"): use.get("href") for use in root.iter(f"{SVG}use") if use.get("fill")}
    used = [style.LIGHT[name] for name in ("one", "two", "three")]
    assert len({shapes[colour] for colour in used}) == 3  # every colour has a different marker


def test_plans_and_estimates_are_drawn() -> None:
    schema = hb.Schema.one_hot(["red", "green", "blue"])
    plans = hb.frontier(schema, 1000, hb.Budget(1.0, 1e-6))
    assert "flipped records" in words(plans_chart(plans))
    reports = hb.randomize(hb.Collection.from_values(["red"] * 1000, schema), plans[0])
    found = hb.estimate(hb.tally(hb.shuffle(reports)), plans[0]).question
    assert [word for word in words(estimate_chart(found, top=1)) if word in schema.labels] == ["red"]
    assert "99% interval" in words(found.plot(level=0.99))
    assert all(label in found._repr_html_() for label in schema.labels)
    assert "var(--" in found.plot()._repr_html_()


def test_inline_charts_follow_the_page() -> None:
    """Colours are variables with a fallback, ids are unique, and the rest of the page is not affected."""
    one = frontier_chart(RANKS, "ranked")
    text = one.html("x")
    page = Structure(f"{text}{one.html()}{drawn([(1, 2), (10, 3)], kind='both').html()}")
    assert len(page.ids) == len(set(page.ids))
    assert {name[1:] for name in page.references} == set(page.ids)
    assert page.named == ["ranked"] * 4 + ["t"] * 2
    assert "<style" not in text
    assert "font-family" not in text
    assert "xmlns" not in text
    for colour in set(re.findall(r"#[0-9a-f]{6}", text)):
        assert colour in style.LIGHT.values()
    assert not re.search(r'style="[^"]*#[0-9a-f]{6}', text)
    assert one.html() == one.html()


def test_every_text_is_large_enough() -> None:
    for one in (frontier_chart(RANKS, "t", central=2.0), drawn([(1, 2)]), bar_chart([Bar("a", 1, 1, 0, 2)], "t")):
        sizes = [
            float(size)
            for size in re.findall(r"font-size: ([\d.]+)px|font: (?:bold )?([\d.]+)px", one.html())
            for size in size
            if size
        ]
        assert sizes
        assert min(sizes) >= 13


def test_files(tmp_path: Path) -> None:
    one = frontier_chart(RANKS, "A title & more")
    for name, start in (("a.svg", b"<?xml"), ("a.PNG", b"\x89PNG"), ("a.pdf", b"%PDF")):
        one.save(str(tmp_path / name))
        first = (tmp_path / name).read_bytes()
        assert first.startswith(start)
        one.save(str(tmp_path / name))
        assert (tmp_path / name).read_bytes() == first
    root = ElementTree.parse(tmp_path / "a.svg").getroot()
    assert "A title & more" in [text.text for text in root.iter(f"{SVG}text")]
    root = ElementTree.fromstring(one.standalone())
    assert next(root.iter(f"{SVG}title")).text == "A title & more"
    assert "prefers-color-scheme: dark" in (next(root.iter(f"{SVG}style")).text or "")
    for name in ("a.gif", "a"):
        with pytest.raises(hb.InvalidInput, match=r"\.svg, \.png or \.pdf"):
            one.save(str(tmp_path / name))


def test_drawing_leaves_the_settings_of_the_process_alone() -> None:
    one = drawn([(1, 2), (10, 3)])
    expected = one.html()
    results: list[str] = []
    with mpl.rc_context({"font.size": 30, "axes.grid": False, "svg.fonttype": "path"}):
        before = dict(mpl.rcParams)
        threads = [threading.Thread(target=lambda: results.append(one.html())) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert dict(mpl.rcParams) == before
    assert results == [expected] * 4


def test_matplotlib_and_the_lab_are_loaded_on_demand() -> None:
    script = (
        "import sys, hubbub.report; from hubbub.cli import collect, inspect, plan;"
        "assert not {'matplotlib', 'hubbub.lab'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for name in ("backends.backend_svg", "figure", "lines", "ticker"):
        monkeypatch.setitem(sys.modules, f"matplotlib.{name}", None)
    for command in (("demo",), ("study", "--one-hot", "3"), ("attacks", "-o", "a.html")):
        result = call(*command)
        assert result.exit_code == 2
        assert result.stderr.startswith("error: Plotting needs the extra 'plot': pip install 'hubbub[plot]'")
    with pytest.raises(MissingExtra, match=r"^Plotting needs the extra 'plot': pip install 'hubbub\[plot\]'$"):
        drawn([(1, 2)]).save(str(tmp_path / "a.svg"))
    assert list(tmp_path.iterdir()) == []


# The palette. Colour vision deficiencies are simulated with the matrices of Machado, Oliveira and Fernandes (2009).

DEFICIENCIES = {
    "none": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}


def linear(colour: str) -> NDArray[np.float64]:
    c = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def lab(rgb: NDArray[np.float64]) -> NDArray[np.float64]:
    matrix = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = matrix @ np.clip(rgb, 0, 1) / np.array([0.95047, 1, 1.08883])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def contrast(one: str, two: str) -> float:
    low, high = sorted(float(linear(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (one, two))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("palette", [style.LIGHT, style.DARK], ids=["light", "dark"])
def test_the_palette_is_safe(palette: dict[str, str]) -> None:
    data = [palette[name] for name in style.COLOURS]
    assert min(contrast(colour, palette["card"]) for colour in data) >= 3
    assert min(contrast(palette[name], palette[on]) for name in ("ink", "muted") for on in ("card", "paper")) >= 4.5
    for deficiency in DEFICIENCIES.values():
        seen = [lab(deficiency @ linear(colour)) for colour in data]
        assert min(float(np.linalg.norm(a - b)) for a, b in itertools.combinations(seen, 2)) >= 20
    assert len(set(palette.values())) == len(palette)
    assert palette.keys() == style.LIGHT.keys()
