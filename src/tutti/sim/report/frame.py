"""What stands around the pictures of the page: its look by day and by night, the headline, the table, the notes."""

from collections.abc import Callable
from html import escape

from tutti.sim.experiment import Case, Outcome
from tutti.sim.results import LABELS, bound_column, column_of
from tutti.views.table import part, time_s

from .look import policy_colour

STYLE = """
:root{color-scheme:light dark;--ink:#22303c;--quiet:#6b7783;--grid:#e6e9ec;--page:#fff;--card:#f6f8f9;--good:#1f7a4d}
@media(prefers-color-scheme:dark){:root{--ink:#e3e8ec;--quiet:#9aa7b2;--grid:#33404b;--page:#161b20;--card:#1f262c;
--good:#6fcf97}}
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--page);max-width:1080px;margin:2rem auto;
padding:0 1rem}
h1{font-size:1.7rem;margin-bottom:.2rem}h2{font-size:1.2rem;margin:2.6rem 0 .1rem}
h3{font-size:1rem;margin:1rem 0 0}
p.note{color:var(--quiet);margin:.2rem 0}p.finding{font-size:1.15rem;margin:.8rem 0}
ul.notes{color:var(--quiet);font-size:.9rem;padding-left:1.2rem;margin:.8rem 0}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(215px,1fr));gap:.8rem;margin:1.2rem 0}
.card{background:var(--card);border-radius:.5rem;padding:.7rem 1rem}.card h3{margin:0 0 .3rem;font-size:.9rem;
font-weight:600;color:var(--quiet)}
.card div{display:flex;justify-content:space-between;font-variant-numeric:tabular-nums}
.card i{display:inline-block;width:.7rem;height:.7rem;border-radius:.15rem;margin-right:.45rem}
.best{font-weight:700;color:var(--good)}
.wide{overflow-x:auto}table{border-collapse:collapse;margin:1rem 0;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .9rem;text-align:right;border-bottom:1px solid var(--grid)}
th:first-child,td:first-child{text-align:left;padding-left:0;color:var(--quiet)}
@media print{body{max-width:none;margin:0}h2{break-after:avoid}.modebar{display:none}}
"""
DRESS = """
(() => {
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const dress = () => {
    const style = getComputedStyle(document.documentElement);
    const [ink, quiet, grid] = ['--ink', '--quiet', '--grid'].map((name) => style.getPropertyValue(name).trim());
    for (const chart of document.querySelectorAll('.js-plotly-plot')) {
      const change = {'font.color': ink, paper_bgcolor: 'rgba(0,0,0,0)', plot_bgcolor: 'rgba(0,0,0,0)',
        'modebar.bgcolor': 'rgba(0,0,0,0)', 'modebar.color': grid, 'modebar.activecolor': quiet};
      for (const axis of ['xaxis', 'yaxis']) {
        Object.assign(change, {[axis + '.gridcolor']: grid, [axis + '.zerolinecolor']: grid,
          [axis + '.title.font.color']: quiet, [axis + '.tickfont.color']: quiet});
      }
      Plotly.relayout(chart, change);
    }
  };
  dark.addEventListener('change', dress);
  dress();
})();
"""


def framed(title: str, parts: list[str], plotly: str) -> str:
    """The whole page; nothing is fetched from anywhere."""
    head = f"<meta charset=utf-8><meta name=viewport content='width=device-width'><title>{escape(title)}</title>"
    scripts = f"<style>{STYLE}</style><script>{plotly}</script>"
    body = "".join(parts) + f"<script>{DRESS}</script>"
    return f"<!doctype html><html lang=en><head>{head}{scripts}</head><body>{body}</body></html>"


def headline(case: Case, found: list[Outcome]) -> list[str]:
    """The title, and what a planner asks first: one card for each question, the best answer marked."""
    asked = f"{len(case.log.rows):,} jobs, offered load {case.offered:.2f}, estimates {case.estimates}"
    cards = [
        _card("Mean wait", [_of_ended(o, o.metrics.wait_s.mean) for o in found], found, time_s, least=True),
        _card("Mean completion", [_of_ended(o, o.metrics.completion_s.mean) for o in found], found, time_s, least=True),
        _card("Goodput", [o.metrics.goodput for o in found], found, part, least=False),
        _card("Promise error", [_of_promised(o) for o in found], found, time_s, least=True),
    ]
    title = f"{case.log.source} on {case.devices:,} devices"
    return [
        f"<h1>{escape(title)}</h1>",
        f"<p class=note>{escape(asked)}</p>",
        f"<p class=finding>{escape(finding(case, found))}</p>",
        f"<div class=cards>{''.join(cards)}</div>",
    ]


def _of_ended(outcome: Outcome, value: float) -> float | None:
    """A mean over jobs that ended says nothing where none did, and is flattered where some never do."""
    return value if outcome.metrics.finished else None


def _of_promised(outcome: Outcome) -> float | None:
    return outcome.metrics.promise_error_s if outcome.metrics.promised else None


def finding(case: Case, found: list[Outcome]) -> str:
    """The report in one sentence: who waits least, how much less than under the first policy, how near the bound.

    A scene says itself what is to be seen.
    """
    if case.log.kind == "scene":
        return case.log.notes[-1].removeprefix("Moral: ")
    best = min(found, key=lambda each: (each.interrupted, each.metrics.stuck, each.metrics.wait_s.mean)).metrics
    first, limit = found[0].metrics, case.bounds().avg_flow_s
    text = f"Under {best.policy} a job waits {time_s(best.wait_s.mean)} on average"
    if best is not first and not found[0].interrupted and best.wait_s.mean < 0.99 * first.wait_s.mean:
        text += f", {1 - best.wait_s.mean / first.wait_s.mean:.0%} less than under {first.policy},"
    text += f" and is done after {time_s(best.completion_s.mean)}"
    return text + (f": {best.completion_s.mean / limit:.2f} times what no scheduler could beat." if limit else ".")


def _card(
    heading: str, values: list[float | None], found: list[Outcome], shown: Callable[[float], str], least: bool
) -> str:
    words = ["-" if value is None else shown(value) for value in values]
    best = _best(words, values, [outcome.is_whole for outcome in found], least)
    lines = "".join(
        f"<div><span><i style='background:{policy_colour(at)}'></i>{escape(outcome.called)}</span>"
        f"<span{' class=best' if at in best else ''}>{escape(words[at])}</span></div>"
        for at, outcome in enumerate(found)
    )
    return f"<div class=card><h3>{escape(heading)}</h3>{lines}</div>"


def _best(words: list[str], values: list[float | None], whole: list[bool], least: bool) -> set[int]:
    """Places of the best value; nobody is best where all are written alike, nor who leaves jobs waiting for ever."""
    known = [value for value, is_whole in zip(values, whole, strict=True) if value is not None and is_whole]
    if len(set(words)) < 2 or not known:
        return set()
    top = words[values.index(min(known) if least else max(known))]
    return {at for at, word in enumerate(words) if word == top and whole[at]}


def notes(case: Case, found: list[Outcome]) -> str:
    """What was assumed and left out."""
    said = [f"Read as {case.log.kind}; {len(case.faults)} faults.", str(case.fidelity), *case.log.notes]
    if case.log.left_out:
        said.append(f"{len(case.log.left_out)} entries of the trace were left out.")
    if any(outcome.interrupted for outcome in found):
        said.append("The run was interrupted: the figures are of what had ended by then.")
    lines = "".join(f"<li>{escape(each[:1].upper() + each[1:])}</li>" for each in said)
    return f"<h2>What was assumed</h2><ul class=notes>{lines}</ul>"


def figures(case: Case, found: list[Outcome]) -> str:
    """Every figure, policies side by side with the bound."""
    columns = [*(column_of(outcome.metrics) for outcome in found), bound_column(case.bounds())]
    heads = ["", *(outcome.called for outcome in found), "bound"]
    head = "".join(f"<th>{escape(cell)}</th>" for cell in heads)
    lines = "".join(_line(label, [column[at] for column in columns]) for at, label in enumerate(LABELS))
    return f"<h2>All figures</h2><div class=wide><table><tr>{head}</tr>{lines}</table></div>"


def _line(label: str, cells: list[str]) -> str:
    return f"<tr><td>{escape(label)}</td>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
