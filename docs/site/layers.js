// On a phone the rows of these tables are cards, whose lines are named after the columns.
function nameCells(table) {
  const names = [...table.tHead.rows[0].cells].map((heading) => heading.textContent.trim());
  for (const row of table.tBodies[0].rows) {
    [...row.cells].forEach((cell, i) => {
      cell.dataset.label = names[i];
      if (!cell.textContent.trim()) cell.dataset.empty = "";
    });
  }
}

document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll(".layers table, #cheat-sheet table").forEach(nameCells);
});

// The table of layers: a box to search in, a choice of verdicts, and columns that sort when their heading is pressed.
document.addEventListener("DOMContentLoaded", () => {
  const table = document.querySelector(".layers table");
  if (!table) return;
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const headings = [...table.tHead.rows[0].cells];

  const verdicts = [...new Set(rows.map((row) => row.cells[2].textContent.trim()))];
  const form = document.createElement("form");
  form.className = "layers-search";
  form.innerHTML =
    '<label>Search <input type="search" class="form-control" placeholder="GCNConv, pooling, dim_size …"></label>' +
    '<label>Verdict <select class="form-select"><option value="">any</option>' +
    verdicts.map((verdict) => `<option>${verdict}</option>`).join("") +
    '</select></label><output aria-live="polite"></output>';
  document.querySelector(".layers").prepend(form);
  const [search, verdict, count] = [form.querySelector("input"), form.querySelector("select"), form.querySelector("output")];

  function filter() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      const right = !verdict.value || row.cells[2].textContent.trim() === verdict.value;
      row.hidden = !(right && words.every((word) => text.includes(word)));
      shown += !row.hidden;
    }
    count.textContent = `${shown} of ${rows.length}`;
  }
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());

  headings.forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const falling = heading.getAttribute("aria-sort") === "ascending";
      headings.forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", falling ? "descending" : "ascending");
      const key = (row) => row.cells[column].textContent.trim();
      rows.sort((a, b) => key(a).localeCompare(key(b), "en", { sensitivity: "base" }) * (falling ? -1 : 1));
      body.append(...rows);
    });
  });
  search.value = new URLSearchParams(location.search).get("q") || "";
  filter();
});
