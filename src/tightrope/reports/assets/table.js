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

// A button in every head; `sort(column, way)` puts the rows in order.
const sortable = (table, sort) => {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const way = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      heads.forEach((each) => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", way === 1 ? "ascending" : "descending");
      sort(column, way);
    });
  });
};

// The rows as they were written, by what their cells say to order them by.
const sortRows = (table) => {
  const body = table.tBodies[0];
  const rows = [...body.rows];
  sortable(table, (column, way) => {
    const order = (row) => row.cells[column]?.dataset.order ?? "";
    body.append(...rows.toSorted((a, b) => compare(order(a), order(b), way)));
  });
  return rows;
};

// Whether a text has every word.
const finder = (typed) => {
  const wanted = typed.toLowerCase().split(/\s+/).filter(Boolean);
  return (words) => wanted.every((word) => words.includes(word));
};
