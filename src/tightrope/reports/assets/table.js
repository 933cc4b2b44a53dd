// Heads of tables that sort. Without this script rows stand as they were written.

// Numbers before words, and what is missing last, whichever way one sorts.
const compare = (a, b, way) => {
  if (a === "" || b === "") return (a === "") - (b === "");
  const [x, y] = [Number(a), Number(b)];
  if (Number.isNaN(x) || Number.isNaN(y)) {
    return way * String(a).localeCompare(String(b), "en", { numeric: true });
  }
  return way * (x - y);
};

// A button in every head puts the rows in order, by what their cells say to order them by.
for (const table of document.querySelectorAll("table.sortable")) {
  const [body, heads] = [table.tBodies[0], [...table.tHead.rows[0].cells]];
  const rows = [...body.rows];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const way = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      heads.forEach((each) => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", way === 1 ? "ascending" : "descending");
      const order = (row) => row.cells[column]?.dataset.order ?? "";
      body.append(...rows.toSorted((a, b) => compare(order(a), order(b), way)));
    });
  });
}
