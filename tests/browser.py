"""A real headless Chromium that opens a report and tells what it shows."""

import json
import re
import shutil
import subprocess
from html import unescape

import pytest

BINARY = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)

needs_browser = pytest.mark.skipif(BINARY is None, reason="no Chromium or Chrome found on the PATH")

# Before everything else: whatever goes wrong, also what the page's own policy refuses, and what is asked from outside.
COLLECT = """<script>
window.wrong = [];
addEventListener("error", e => wrong.push(String(e.message)), true);
addEventListener("unhandledrejection", e => wrong.push(String(e.reason)));
addEventListener("securitypolicyviolation", e => wrong.push(e.violatedDirective + " " + e.blockedURI));
for (const kind of ["error", "warn"]) console[kind] = (...words) => wrong.push(words.join(" "));
</script>"""

# What stands on the page when all is drawn: texts, and of each line the values at which its markers really lie.
TELL = """<script>
function heights(plot) {
  const axis = plot._fullLayout.yaxis;
  return [...plot.querySelectorAll(".scatterlayer .trace")].map(trace =>
    [...trace.querySelectorAll(".points path.point")].map(point =>
      axis.p2c(Number(point.getAttribute("transform").match(/,([-0-9.]+)/)[1]))));
}
addEventListener("load", () => setTimeout(() => {
  ACT
  const shown = [...document.querySelectorAll("figure")].map(figure => {
    const plot = figure.querySelector(".plot");
    return {title: figure.querySelector("h3").innerText, heights: heights(plot),
      pixel: Math.abs(plot._fullLayout.yaxis.p2c(1) - plot._fullLayout.yaxis.p2c(0)),
      width: plot.querySelector("svg").getBoundingClientRect().width, cells: plot.querySelectorAll(".hm image").length,
      customdata: plot._fullData[0].customdata || null};
  });
  const told = document.createElement("pre");
  told.id = "told";
  told.textContent = JSON.stringify({wrong, shown, text: document.body.innerText,
    rows: [...document.querySelectorAll("table.compare tbody tr")].map(row => [...row.cells].map(c => c.innerText)),
    requests: performance.getEntriesByType("resource").map(e => e.name).filter(n => !/^(data|blob):/.test(n)),
    page: document.documentElement.scrollWidth, window: innerWidth});
  document.body.append(told);
}, 500));
</script>"""


def told_by(html_file, act="", width=1200):
    """What a window of this width shows; `act` is what a reader does there first, in JavaScript."""
    copy = html_file.with_suffix(".probe.html")
    text = html_file.read_text().replace("<title>", COLLECT + "<title>", 1)
    copy.write_text(text.replace("</body>\n</html>", TELL.replace("ACT", act) + "</body>\n</html>"))
    command = [
        BINARY, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", f"--window-size={width},2000",
        f"--user-data-dir={html_file.parent / 'profile'}", "--virtual-time-budget=10000", "--dump-dom", copy.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    found = re.search(r'<pre id="told">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, f"the page told nothing; {done.stderr[-2000:]}"
    return json.loads(unescape(found[1]))
