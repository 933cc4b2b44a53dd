// Sorting and searching the table; without this script it stands as it was written, worst first.
{
  const body = document.querySelector("tbody");
  const rows = [...body.rows];
  const words = rows.map((row) => row.textContent.toLowerCase());
  const heads = [...document.querySelectorAll("thead th")];
  const search = document.getElementById("search");
  const count = document.getElementById("count");

  // Numbers before words, and what is missing last, whichever way one sorts.
  const compare = (a, b, way) => {
    if (a === "" || b === "") return (a === "") - (b === "");
    const [x, y] = [Number(a), Number(b)];
    if (Number.isNaN(x) || Number.isNaN(y)) return way * a.localeCompare(b, "en", { numeric: true });
    return way * (x - y);
  };

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

  const find = () => {
    const wanted = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    rows.forEach((row, index) => {
      row.hidden = !wanted.every((word) => words[index].includes(word));
      shown += !row.hidden;
    });
    count.textContent = `${shown} of ${rows.length}`;
  };
  search.addEventListener("input", find);
  search.closest(".picker").hidden = false;
  find();
}
