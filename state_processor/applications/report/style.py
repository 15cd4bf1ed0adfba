"""The style sheet of the page: text wraps at any width; wide tables scroll inside of the page."""

from __future__ import annotations

from typing import Final

STYLE: Final = """
:root { color-scheme: light dark; --text: #1d2433; --muted: #5b6478; --page: #f6f7f9; --card: #ffffff; --line: #d9dde5;
  --accent: #2f6fb2; --bad: #b3261e; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e4e7ee; --muted: #9aa3b5; --page: #14171d; --card: #1d2129; --line: #343b48;
    --accent: #6aa9e9; --bad: #ff8a80; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1280px; padding: 1.5rem 1rem 3rem; background: var(--page); color: var(--text);
  font: 15px/1.45 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.4rem; margin: 0 0 0.2rem; }
h2 { font-size: 1.1rem; margin: 0 0 0.7rem; }
h3 { font-size: 0.95rem; margin: 0.9rem 0 0.3rem; }
p { margin: 0.3rem 0; }
.path { color: var(--muted); }
.note { color: var(--muted); font-size: 0.87rem; }
.bad { color: var(--bad); }
.findings { margin: 0; padding-left: 1.2rem; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 1rem; margin-top: 1rem; }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: 0.7rem 1.5rem; margin: 0; }
dt { color: var(--muted); font-size: 0.82rem; }
dd { margin: 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 0.87rem; }
th { color: var(--muted); font-weight: 600; white-space: nowrap; }
th, td { padding: 0.28rem 0.5rem; border-bottom: 1px solid var(--line); vertical-align: top; }
td { overflow-wrap: break-word; max-width: min(20rem, 75vw); font-variant-numeric: tabular-nums; }
td[style*="right"] { white-space: nowrap; }
td:first-child, th:first-child { padding-left: 0; }
td:last-child { max-width: min(36rem, 75vw); }
svg { display: block; width: 100%; }
svg.bars { height: 90px; border-bottom: 1px solid var(--line); }
svg.lines { overflow: visible; }
svg.heat { height: 26px; border: 1px solid var(--line); border-radius: 3px; }
.bar { fill: var(--accent); }
.line { stroke: var(--accent); stroke-width: 1.5px; fill: none; vector-effect: non-scaling-stroke; }
.dot { stroke: var(--accent); stroke-width: 7px; stroke-linecap: round; vector-effect: non-scaling-stroke; }
.grid { stroke: var(--line); fill: none; vector-effect: non-scaling-stroke; }
.chart { display: grid; grid-template-columns: auto minmax(0, 1fr); gap: 0 0.5rem; padding-top: 0.5rem; }
.chart .axis { grid-column: 2; }
.ticks { display: flex; flex-direction: column; justify-content: space-between; align-items: flex-end; color: var(--muted);
  font-size: 0.75rem; white-space: nowrap; font-variant-numeric: tabular-nums; }
.ticks span { height: 0; line-height: 0; }
.axis { display: flex; justify-content: space-between; gap: 1rem; color: var(--muted); font-size: 0.8rem; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); gap: 0 2rem; }
footer { color: var(--muted); font-size: 0.8rem; margin-top: 1rem; }
"""
