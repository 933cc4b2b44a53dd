// Searching the table; without this script it stands as it was written, worst first.
{
  const rows = [...document.querySelector("table").tBodies[0].rows];
  const words = rows.map((row) => row.textContent.toLowerCase());
  const search = document.getElementById("search");
  const count = document.getElementById("count");

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
