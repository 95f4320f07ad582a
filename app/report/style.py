"""How the page looks and what moves in it: one style sheet and two short scripts, both inlined."""

CSS = """
:root {
  color-scheme: light; --paper: #fdfdfb; --ink: #1f2328; --quiet: #5a626b; --grid: #e3e4e0; --card: #f4f4f0;
  --full: #bcd3e6; --warn: #9a3b00; --shade: #0003;
  --s0: #0072b2; --s1: #d55e00; --s2: #009e73; --s3: #8a4a78; --s4: #d99000; --s5: #3f9fd0; --s6: #5b5b5b;
  --s0-soft: #0072b22e; --s1-soft: #d55e002e; --s2-soft: #009e732e; --s3-soft: #8a4a782e; --s4-soft: #d990002e;
  --s5-soft: #3f9fd02e; --s6-soft: #5b5b5b2e;
}
@media screen and (prefers-color-scheme: dark) { :root:not([data-paper]) {
  color-scheme: dark; --paper: #16191d; --ink: #e4e6e8; --quiet: #9da5ae; --grid: #2e343b; --card: #1e2329;
  --full: #27455e; --warn: #ff9d5c; --shade: #000a;
  --s0: #5bb3f0; --s1: #ff8a4c; --s2: #35c99b; --s3: #d89bc6; --s4: #f0b93a; --s5: #8fd0f5; --s6: #b0b0b0;
  --s0-soft: #5bb3f033; --s1-soft: #ff8a4c33; --s2-soft: #35c99b33; --s3-soft: #d89bc633; --s4-soft: #f0b93a33;
  --s5-soft: #8fd0f533; --s6-soft: #b0b0b033;
} }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0 auto; max-width: 72rem; padding: 2.5rem clamp(1rem, 4vw, 2.5rem) 4rem; background: var(--paper);
  color: var(--ink); font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
  font-variant-numeric: tabular-nums;
}
h1 { font-size: 1.05rem; font-weight: 600; color: var(--quiet); margin: 0 0 .6rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 3rem 0 .6rem; }
h3 { font-size: 1rem; margin: 0; overflow-wrap: anywhere; }
.lead { font-size: clamp(1.2rem, 2.6vw, 1.55rem); line-height: 1.4; margin: 0 0 1.6rem; max-width: 46em;
  text-wrap: pretty; overflow-wrap: anywhere; }
.warn { color: var(--warn); font-weight: 600; overflow-wrap: anywhere; }
.note { color: var(--quiet); font-size: .875rem; margin: .15rem 0 .4rem; max-width: 46em; overflow-wrap: anywhere; }
dl.key { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .75rem; margin: 0; }
dl.key div { background: var(--card); border-radius: .5rem; padding: .75rem .9rem; display: flex;
  flex-direction: column; }
dl.key dt { color: var(--quiet); font-size: .8125rem; }
dl.key dd { margin: 0; font-size: 1.2rem; font-weight: 600; line-height: 1.4; white-space: nowrap; }
dl.key dd.more { font-size: .8125rem; font-weight: 400; white-space: normal; color: var(--quiet); margin-top: .1rem; }
.charts { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 2.25rem 2rem; margin-top: 2.25rem; }
figure { margin: 0; min-width: 0; display: flex; flex-direction: column; }
figure.wide { grid-column: 1 / -1; }
.plot { width: 100%; margin-top: auto; }
.charts + .note { margin-top: 1.75rem; }
.scroll { overflow-x: auto; background-repeat: no-repeat; background-attachment: local, local, scroll, scroll;
  background-image: linear-gradient(to right, var(--paper) 30%, transparent),
    linear-gradient(to left, var(--paper) 30%, transparent),
    linear-gradient(to right, var(--shade), transparent), linear-gradient(to left, var(--shade), transparent);
  background-size: 2.5rem 100%, 2.5rem 100%, .8rem 100%, .8rem 100%;
  background-position: left, right, left, right; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; padding: .4rem .9rem .4rem 0; border-bottom: 1px solid var(--grid); vertical-align: top; }
thead th { color: var(--quiet); font-weight: 600; vertical-align: bottom; }
td.number, th.number { text-align: right; }
table.compare td, table.compare th { padding-right: .55rem; font-size: .7875rem; }
table.compare tr > :last-child { padding-right: 0; }
table.words td { overflow-wrap: break-word; } table.words td:last-child { overflow-wrap: anywhere; }
table.words th { white-space: nowrap; font-weight: 400; color: var(--quiet); }
table.compare td:first-child { min-width: 6rem; font-weight: 600; }
table.compare tr > :first-child { position: sticky; left: 0; background: var(--paper); }
table.compare td:nth-child(2), .absent { white-space: nowrap; }
.absent { color: var(--quiet); font-size: .9em; }
th button { font: inherit; color: inherit; background: none; border: 0; padding: 0; cursor: pointer;
  text-align: inherit; }
th button::after { content: "\\00a0\\2195"; opacity: .45; }
th[aria-sort=ascending] button::after { content: "\\00a0\\2191"; opacity: 1; }
th[aria-sort=descending] button::after { content: "\\00a0\\2193"; opacity: 1; }
footer { margin-top: 3rem; }
@media (max-width: 46rem) { body { padding-top: 1.5rem; } .charts { grid-template-columns: minmax(0, 1fr); }
  dl.key { grid-template-columns: repeat(2, minmax(0, 1fr)); }
  table.words th[scope=row] { white-space: normal; width: 38%; } }
@media print {
  @page { margin: 15mm; }
  body { max-width: none; padding: 0; font-size: 10pt; background: none; }
  figure, dl.key div, tr { break-inside: avoid; } h2 { break-after: avoid; }
  .charts { grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 6mm 8mm; }
  dl.key { grid-template-columns: repeat(3, 1fr); } dl.key div { border: 1px solid var(--grid); }
  .scroll { overflow: visible; background: none; }
  table.compare td, table.compare th { font-size: 6.5pt; padding-right: 1.5mm; min-width: 0 !important; }
  th button::after { content: none; }
}
"""

DRAW = """
const figures = JSON.parse(document.getElementById("figures").textContent);
const coarse = matchMedia("(pointer: coarse)").matches;
function draw(paper_width) {
  const style = getComputedStyle(document.documentElement);
  const text = JSON.stringify(figures).replace(/"var\\((--[a-z0-9-]+)\\)"/g,
    (_, name) => JSON.stringify(style.getPropertyValue(name).trim()));
  const ink = style.getPropertyValue("--ink").trim(), paper = style.getPropertyValue("--paper").trim();
  for (const [id, figure] of Object.entries(JSON.parse(text))) {
    const alone = document.getElementById(id).closest(".wide");
    const width = paper_width && (alone ? paper_width : paper_width / 2 - 15);
    const layout = Object.assign({
      height: 300, margin: {l: 56, r: 10, t: 10, b: 44}, paper_bgcolor: "transparent", plot_bgcolor: "transparent",
      font: {family: getComputedStyle(document.body).fontFamily, size: 12, color: ink},
      legend: {orientation: "h", x: 0, y: 1.02, yanchor: "bottom", traceorder: "normal"},
      dragmode: coarse ? false : "zoom",
      hoverlabel: {bgcolor: paper, font: {color: ink}, namelength: -1}, autosize: !width, width: width || undefined,
    }, figure.layout);
    if (width) layout.height *= 0.8;
    Plotly.react(id, figure.data, layout, {responsive: !width, displayModeBar: false});
  }
}
draw();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw());
addEventListener("beforeprint", () => { document.documentElement.dataset.paper = ""; draw(660); });
addEventListener("afterprint", () => { delete document.documentElement.dataset.paper; draw(); });
"""
"""Colours are looked up when drawing; on paper they are the light ones, and the page's width is fixed."""

SORT = """
for (const button of document.querySelectorAll("th button")) button.addEventListener("click", () => {
  const head = button.closest("th"), body = head.closest("table").tBodies[0];
  const up = head.getAttribute("aria-sort") !== "ascending";
  for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  const key = row => row.cells[head.cellIndex].dataset.value;
  const missing = row => key(row) === "";
  const order = (a, b) => missing(a) - missing(b) || (up ? 1 : -1) *
    (isNaN(key(a)) || isNaN(key(b)) ? key(a).localeCompare(key(b), undefined, {numeric: true}) : key(a) - key(b));
  body.append(...[...body.rows].sort(order));
});
"""
"""What was not recorded stays at the end, whichever way a column is sorted."""
