"""The sliders of the report alone, as a page to embed: alpha, beta and gamma, and the nonzeros they leave."""

import re
from pathlib import Path

from asni import report

# The report calls `show` at the end of its script; of two functions with one name, the second one counts.
SHOW_SCHEDULE = """
function show({ groups }) {
  document.getElementById("report").append(scheduleView(groups[0], "schedule"));
}
"""
STYLE = """
body { background: none; }
main { padding: 0; }
.card { margin: 0; }
.pair { grid-template-columns: repeat(auto-fit, minmax(min(100%, 18rem), 1fr)); }
"""


def schedule_page(results: Path) -> str:
    """The schedule of a recipe, and the sparsity that its first ASNI-I run measured."""
    html = report.page(report.collect(results / "seed-0" / "asni-1"))
    # The policy of the report allows its own script and style, by their hashes.
    html = re.sub(r'<meta http-equiv="Content-Security-Policy".*?>\n', "", html)
    html = html.replace("</style>", f"{STYLE}</style>")
    before, end, after = html.rpartition("</script>")
    return before + SHOW_SCHEDULE + end + after
