"""A demonstration as one HTML page: no script, no font, no picture from elsewhere; light or dark as the reader is."""

import html
import math

from hubbub import __version__
from hubbub.lab.demonstration import Demonstration
from hubbub.lab.drawing import Bar, Point, bar_chart, error_chart, scatter_chart
from hubbub.protocol import Plan

__all__ = ["STYLE", "attack", "document", "page", "why"]

STYLE = """
:root { color-scheme: light dark; --paper: #fbfaf7; --ink: #20242b; --quiet: #68707c; --line: #dcd9d0;
  --card: #ffffff; --accent: #1f6f8b; --soft: #1f6f8b22; --mark: #c8553d; }
@media (prefers-color-scheme: dark) { :root { --paper: #15181d; --ink: #e4e6ea; --quiet: #98a1ad; --line: #323842;
  --card: #1c2027; --accent: #5fb3cf; --soft: #5fb3cf2b; --mark: #f08a6c; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2.5rem 1.25rem 4rem; max-width: 52rem; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .4rem; } h2 { font-size: 1.2rem; margin: 2.6rem 0 .5rem; }
.lead, figcaption, footer, .quiet { color: var(--quiet); } .lead { font-size: 1.08rem; margin-top: 0; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); gap: .8rem; margin: 1.6rem 0; }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: .8rem 1rem; }
.tile b { display: block; font-size: 1.55rem; font-variant-numeric: tabular-nums; }
.tile span { color: var(--quiet); font-size: .88rem; }
figure { margin: 1rem 0; background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: 1rem; }
figcaption { font-size: .88rem; margin-top: .6rem; }
svg { display: block; width: 100%; height: auto; font-size: 12.5px; font-family: inherit; }
svg text { fill: var(--ink); }
svg .quiet { fill: var(--quiet); } svg .strong { font-weight: 600; } svg .figure { font-variant-numeric: tabular-nums; }
.bar { fill: var(--accent); opacity: .85; } .interval { stroke: var(--ink); stroke-width: 2; }
.truth { stroke: var(--mark); stroke-width: 2; } .dot { fill: var(--accent); } .other { fill: var(--quiet); }
.whisker { stroke: var(--accent); stroke-width: 1.2; opacity: .6; } .whisker.other { stroke: var(--quiet); }
.alarm { fill: var(--mark); color: var(--mark); } .whisker.alarm { stroke: var(--mark); opacity: 1; }
.curve { fill: none; stroke: var(--accent); stroke-width: 2; } .bad { fill: var(--mark); }
.limit { fill: none; stroke: var(--mark); stroke-width: 1.5; } tr.bad td { color: var(--mark); font-weight: 600; }
.axis { stroke: var(--line); } .reference { stroke: var(--quiet); stroke-dasharray: 5 4; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { padding: .35rem .6rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th { color: var(--quiet); font-weight: 500; } th:first-child, td:first-child { text-align: left; }
.tests td:nth-child(-n+2), .tests th:nth-child(-n+2) { white-space: normal; text-align: left; }
tr.best td { font-weight: 600; background: var(--soft); }
ol.flow { list-style: none; padding: 0; display: grid; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr));
  gap: .8rem; counter-reset: step; } ol.flow li { border-left: 3px solid var(--accent); padding: .1rem 0 .1rem .8rem; }
ol.flow b { display: block; } code { font-size: .85em; overflow-wrap: anywhere; }
footer { margin-top: 3rem; font-size: .85rem; }
"""


def page(shown: Demonstration) -> str:
    """The whole page."""
    plan, found = shown.plan, shown.estimate
    parts = [
        f"<h1>{plan.n:,} people, one question, and a guarantee</h1>",
        '<p class="lead">Which page does your browser open first? A collection on synthetic people, by hubbub.</p>',
        _tiles(shown),
        "<h2>The plan, and why</h2>",
        f"<p>{html.escape(why(shown))}</p>",
        _frontier(shown),
        _table(shown),
        "<h2>What happened</h2>",
        _flow(shown),
        "<h2>Truth against estimate</h2>",
        _pictures(shown),
        "<h2>What an attacker could learn</h2>",
        "<ul>" + "".join(f"<li>{html.escape(line)}</li>" for line in attack(shown)) + "</ul>",
        f"<footer>hubbub {__version__} · plan <code>{plan.id}</code> · {len(found.labels)} labels · the people are "
        "synthetic; nothing on this page comes from elsewhere, and nothing is sent.</footer>",
    ]
    return document(f"hubbub: a collection of {plan.n:,}", "".join(parts))


def document(title: str, body: str, style: str = "") -> str:
    """A page that loads nothing: its head forbids it.

    >>> document("hubbub", "<p>counts</p>").count("<style>")
    1
    """
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{html.escape(title)}</title><style>{STYLE}{style}</style></head>"
        f"<body>{body}</body></html>\n"
    )


def why(shown: Demonstration) -> str:
    """Why this protocol was chosen, in a sentence or two."""
    best, name = shown.plan, shown.names[0]
    text = (
        f"Of {len(shown.plans)} protocols that meet ε = {shown.budget.epsilon:g}, δ = {shown.budget.delta:g}, "
        f"“{name}” has the smallest error: {best.stderr:.3g} people on every count, "
        f"where a server trusted with the raw answers would need {shown.central:.3g}"
    )
    if shown.local is not None:
        text += f", and without a shuffler it would be {shown.local:,.0f}"
    return text + "."


def attack(shown: Demonstration) -> list[str]:
    """What stands against an attacker, sentence by sentence."""
    held = shown.plan.guarantee
    proven = held.epsilon if held.solved == "epsilon" else held.delta
    lines = [
        f"One person's answer changes the odds of anything that is released by a factor of at most "
        f"e^{held.epsilon:.3g} = {math.exp(held.epsilon):.3g}, but for a chance of {held.delta:.2g}: "
        f"{held.basis.value}, by {held.method}.",
        f"An attacker who knows everybody else's answer, and hesitates between two answers of one person, is right in "
        f"at most {shown.guess:.1%} of all cases; guessing gives 50%.",
        f"The best attack known reaches {held.solved} = {held.lower:.3g}, and {proven:.3g} is proven: "
        f"no one can promise less than the former.",
        *held.trusts.sentences(),
    ]
    if shown.safer is not None:
        name, other = shown.safer
        lines.append(
            f"Whoever does not trust the shuffler that far takes “{name}”: an error of {other.stderr:.3g}, and "
            f"ε = {other.guarantee.trusts.collusion:.3g} is left if it colludes."
        )
    if shown.half.epsilon > held.epsilon * 1.001:
        lines.append(f"If every second user works for the attacker, ε is {shown.half.epsilon:.3g} at the same δ.")
    else:
        lines.append("If every second user works for the attacker, the guarantee is the same.")
    return lines


def _tiles(shown: Demonstration) -> str:
    held = shown.plan.guarantee
    tiles = (
        (f"ε = {held.epsilon:.3g}", f"proven for every person, δ = {held.delta:.2g}"),
        (f"± {shown.reach:.3g} people", "on a count, 95 of 100 times"),
        (
            f"{shown.plan.messages:.3g} message{'s' * (shown.plan.messages != 1)}",
            f"of each person, {shown.plan.upload:.3g} bytes",
        ),
        (f"{shown.covered} of {len(shown.truth)}", "true counts in their 95 % intervals"),
    )
    return (
        '<div class="tiles">'
        + "".join(f'<div class="tile"><b>{a}</b><span>{b}</span></div>' for a, b in tiles)
        + "</div>"
    )


def _frontier(shown: Demonstration) -> str:
    points = [
        Point(name, one.messages, one.stderr, one is shown.plan)
        for one, name in zip(shown.plans, shown.names, strict=True)
    ]
    picture = scatter_chart(
        points,
        "The frontier: standard error against messages",
        across="messages of a user",
        up="standard error, people",
        lines=[("central: the server sees everything", shown.central)],
    )
    caption = "Every protocol that meets the budget. Lower is more precise, further left is cheaper."
    return f"<figure>{picture}<figcaption>{caption}</figcaption></figure>"


def _table(shown: Demonstration) -> str:
    rows = []
    for one, name in zip(shown.plans, shown.names, strict=True):
        cells = (
            html.escape(name),
            f"{one.stderr:,.3g}",
            f"{one.messages:.3g}",
            f"{one.upload:.3g}",
            _colluding(one),
        )
        kind = ' class="best"' if one is shown.plan else ""
        rows.append(f"<tr{kind}>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    head = "".join(
        f"<th>{name}</th>" for name in ("protocol", "error", "messages", "bytes", "if the shuffler colludes")
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'


def _colluding(one: Plan) -> str:
    pure = one.guarantee.trusts.collusion
    return "nothing protects" if pure == math.inf else f"ε = {pure:.3g}"


def _flow(shown: Demonstration) -> str:
    added = shown.released - shown.messages
    told = f"adds {added:,} fakes of its own and " if added else ""
    steps = (
        ("devices", f"{shown.plan.n:,} people, each on their own, send {shown.messages:,} messages"),
        ("shuffler", f"{told}passes on {shown.released:,} messages in random order, without senders"),
        (
            "analyzer",
            f"counts them, subtracts the expected noise, and says how sure it is of {len(shown.truth)} counts",
        ),
    )
    return '<ol class="flow">' + "".join(f"<li><b>{a}</b>{html.escape(b)}</li>" for a, b in steps) + "</ol>"


def _pictures(shown: Demonstration) -> str:
    low, high = shown.estimate.interval(0.95)
    bars = [
        Bar(label, float(true), float(value), float(a), float(b))
        for label, true, value, a, b in zip(
            shown.estimate.labels, shown.truth, shown.estimate.values, low, high, strict=True
        )
    ]
    caption = "Bars: estimates. Upright lines: the truth, which only this demonstration knows."
    counts = f"<figure>{bar_chart(bars, 'Counts')}<figcaption>{caption}</figcaption></figure>"
    nearer = "The same under a magnifying glass: estimate minus truth, in people, with 95 % intervals."
    errors = error_chart(bars, "Errors")
    return f"{counts}<figure>{errors}<figcaption>{nearer}</figcaption></figure>"
