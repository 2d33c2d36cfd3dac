// What a reader must know before comparing runs: that they are shortened, diverged, at chance or unfinished.

const SHORTENED = "shortened"; // a whole recipe is: the heading of a chart says so, once for all of its names

/** The name with the marks of its runs: "SNIP (at chance)", or "SNIP (1 of 3 diverged)". */
function markedName(name, runs) {
  const marks = marksOf({ runs }).filter((mark) => mark !== SHORTENED);
  return marks.length ? `${name} (${marks.join(", ")})` : name;
}

function markedTitle(title, runs) {
  return element("span", {}, title, ...markViews(isMarked(runs, SHORTENED) ? [SHORTENED] : []));
}

/** The marks of the runs of a row; one that not all of them have is counted. */
function marksOf({ runs }) {
  const marks = new Set(runs.flatMap((run) => run.marks));
  return [...marks].map((mark) => {
    const count = runs.filter((run) => run.marks.includes(mark)).length;
    return count < runs.length ? `${count} of ${runs.length} ${mark}` : mark;
  });
}

/** Badges for what a reader must know before comparing these runs. */
function markViews(marks) {
  return marks.flatMap((mark) => [" ", element("span", { class: "mark" }, mark)]);
}

function isMarked(runs, ...wanted) {
  return runs.some(({ marks }) => marks.some((mark) => wanted.includes(mark)));
}

/** Whether the runs should not be compared with the others. */
function isFaint(runs) {
  return isMarked(runs, "diverged", "at chance", "unfinished");
}

/** Whether the runs tell nothing about the range in which the others should be read. */
function isAstray(runs) {
  return isMarked(runs, "diverged", "at chance");
}
