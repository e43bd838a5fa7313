"""Charts: scales, ticks, cuts, dots, bands, and pictures as files of their own."""

import math
import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from hubbub.lab.drawing import Axis, Bar, Mark, Series, bar_chart, chart, error_chart, frontier_chart, standalone

SVG = "{http://www.w3.org/2000/svg}"


def drawn(points: list[tuple[float, float]], *, log: bool = False) -> str:
    return chart(
        [Series(label="a", points=points)],
        "t",
        across=Axis("x", 1.0, 100.0, log=True),
        up=Axis("y", 1.0, 10.0, log),
        marks=[Mark("here", 10.0), Mark("there", 5.0, up=True)],
    )


def coordinates(picture: str) -> list[list[tuple[float, float]]]:
    paths = re.findall(r'<path d="([^"]*)" class="curve one"', picture)
    return [[(float(x), float(y)) for x, y in re.findall(r"[ML]([\d.]+) ([\d.]+)", one)] for one in paths]


def test_a_straight_line_is_straight_on_logarithmic_axes() -> None:
    (places,) = coordinates(drawn([(1, 1), (10, math.sqrt(10)), (100, 10)], log=True))
    (x0, y0), (x1, y1), (x2, y2) = places
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.11)
    assert y0 - y1 == pytest.approx(y1 - y2, abs=0.11)
    assert x0 < x1 < x2
    assert y0 > y1 > y2


def test_what_is_outside_is_cut_at_the_edge() -> None:
    ((left, bottom), (right, top)) = coordinates(drawn([(1, 1), (100, 10)]))[0]
    up, down = coordinates(drawn([(1, 5.5), (10, 14.5), (100, -3.5)]))
    assert up[0] == pytest.approx((left, (top + bottom) / 2), abs=0.2)
    assert up[1] == pytest.approx(((3 * left + right) / 4, top), abs=0.2)
    assert down[0] == pytest.approx(((3 * left + 5 * right) / 8, top), abs=0.2)
    assert down[1] == pytest.approx(((left + 7 * right) / 8, bottom), abs=0.2)


def test_a_curve_is_interrupted_where_it_has_no_value() -> None:
    assert [len(run) for run in coordinates(drawn([(1, 2), (2, 2), (5, math.inf), (10, 3), (20, 4), (50, 5)]))] == [
        2,
        3,
    ]
    assert coordinates(drawn([(1, 20), (100, 30)])) == []
    assert coordinates(drawn([])) == []


@pytest.mark.parametrize(
    ("axis", "labels"),
    [
        (Axis("", 1e-6, 1.0, log=True), "10⁻⁶ 10⁻⁵ 10⁻⁴ 10⁻³ 10⁻² 0.1 1"),
        (Axis("", 1e-12, 1.0, log=True), "10⁻¹² 10⁻¹⁰ 10⁻⁸ 10⁻⁶ 10⁻⁴ 10⁻² 1"),
        (Axis("", 1.0, 20.0, log=True), "1 2 5 10 20"),
        (Axis("", 2.1, 2.6, log=True), "2.1 2.2 2.3 2.4 2.5 2.6"),
        (Axis("", 10.0, 1e4, log=True), "10 100 1,000 10,000"),
        (Axis("", 0.0, 8.0), "0 1 2 3 4 5 6 7 8"),
        (Axis("", -0.31, 0.97), "−0.2 0 0.2 0.4 0.6 0.8"),
        (Axis("", 0.0, 4e6), "0 5·10⁵ 10⁶ 1.5·10⁶ 2·10⁶ 2.5·10⁶ 3·10⁶ 3.5·10⁶ 4·10⁶"),
        (Axis("", 0.0, 0.003), "0 0.0005 0.001 0.0015 0.002 0.0025 0.003"),
        (Axis("", 0.9, 1.0, percent=True), "90 % 92 % 94 % 96 % 98 % 100 %"),
        (Axis("", 1.0, 16.0, log=True, at=(1, 4, 16)), "1 4 16"),
    ],
)
def test_ticks_are_round_and_short(axis: Axis, labels: str) -> None:
    found = axis.over([], 0.0, 600.0, 75).labels()
    assert " ".join(words for _, words in found) == labels
    assert all(-0.2 <= place <= 600.2 for place, _ in found)


def test_ends_follow_from_the_values() -> None:
    scale = Axis("", log=True).over([0.0, 1.0, math.inf, 100.0], 0.0, 600.0, 75)
    assert 0.8 < scale.low < 1
    assert 100 < scale.high < 125
    assert Axis("").over([0.0, 5.0], 0.0, 600.0, 75).low == 0
    assert Axis("", high=7.0).over([1.0, 5.0], 0.0, 600.0, 75).high == 7
    same = Axis("").over([3.0, 3.0], 0.0, 600.0, 75)
    assert same.low < 3 < same.high


def test_dots_lie_in_the_frame_and_rise_upwards() -> None:
    dots = Series(points=[(1.0, 0.1, 0.0, 0.2), (10.0, 0.4, 0.3, 0.5), (100.0, 0.9, 0.8, 1.0)], kind="dots")
    root = ElementTree.fromstring(chart([dots], "t", across=Axis("x", log=True), up=Axis("y")))
    marks = [(float(c.get("cx", "nan")), float(c.get("cy", "nan"))) for c in root.iter("circle")]
    assert all(76 <= x <= 704 and 0 < y < 330 for x, y in marks)
    assert all(a[0] < b[0] and a[1] > b[1] for a, b in pairwise(marks))
    assert marks[1][0] - marks[0][0] == pytest.approx(marks[2][0] - marks[1][0], abs=0.2)
    assert sum(one.get("class") == "whisker one" for one in root.iter("line")) == 3


def test_points_that_a_logarithmic_scale_cannot_show_are_left_out() -> None:
    band = Series(
        label="b", points=[(1.0, 0.1, 0.2), (0.0, 0.1, 0.2), (2.0, 0.0, 0.3), (3.0, math.inf, math.inf)], kind="band"
    )
    dots = Series(label="d", points=[(1.0, 0.5, 0.0, 0.6), (2.0, math.nan, 0.0, 1.0)], kind="dots")
    picture = chart([band, dots], "t", across=Axis("x", log=True), up=Axis("y", log=True))
    root = ElementTree.fromstring(picture)
    assert len(list(root.iter("circle"))) == 2  # one point and the key of the legend
    assert "nan" not in picture


def test_names_beside_dots_keep_apart() -> None:
    picture = frontier_chart(["a", "b", "c"], [(1, 10), (1, 10.1), (1, 10.2)], 0, "t", up="y", central=10.0)
    heights = sorted(float(y) for y in re.findall(r'y="([\d.]+)" text-anchor="start"', picture))
    assert heights.pop(0) == 14  # the legend
    assert len(heights) == 3
    assert all(two - one >= 13.9 for one, two in pairwise(heights))


@pytest.mark.parametrize("words", ["<b>&\"'", "日本語"])
def test_words_are_escaped(words: str) -> None:
    dots = Series(label=words, points=[(1, 1)], kind="dots", names=[words], beside=True)
    picture = chart([dots], words, across=Axis(words, 0, 2), up=Axis(words, 0, 2), marks=[Mark(words, 1.0)])
    root = ElementTree.fromstring(standalone(picture))
    assert [element.text for element in root.iter(f"{SVG}text")].count(words) == 5
    for bars in (bar_chart, error_chart):
        assert words in [one.text for one in ElementTree.fromstring(bars([Bar(words, 1, 1, 0, 2)], words)).iter("text")]


def test_a_file_of_its_own_has_a_ground_below_the_whole_picture() -> None:
    root = ElementTree.fromstring(standalone(drawn([(1, 2), (10, 3)])))
    box = [float(x) for x in root.get("viewBox", "").split()]
    ground = next(root.iter(f"{SVG}rect"))
    assert [float(ground.get(name, "nan")) for name in ("x", "y", "width", "height")] == box
    assert box[3] == 350 + 24
