// Sorting and searching the table; without this script it stands as it was written, worst first.
{
  const rows = sortRows(document.querySelector("table"));
  const words = rows.map((row) => row.textContent.toLowerCase());
  const search = document.getElementById("search");
  const count = document.getElementById("count");

  const find = () => {
    const found = finder(search.value);
    let shown = 0;
    rows.forEach((row, index) => {
      row.hidden = !found(words[index]);
      shown += !row.hidden;
    });
    count.textContent = `${shown} of ${rows.length}`;
  };
  search.addEventListener("input", find);
  search.closest(".picker").hidden = false;
  find();
}
