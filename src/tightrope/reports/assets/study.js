// Filters, dots and tables of a study, from columns of numbers; all is read without this script.
{
  const { named, numbers, columns, count } = data;
  const every = Array.from({ length: count }, (_, row) => row);
  const name = (column, row) => named[column].names[named[column].codes[row]];
  const value = (column, row) => (column in named ? name(column, row) : numbers[column][row]);
  const link = (row) => {
    const file = data.files.names[data.files.codes[row]];
    return file && `${data.folders.names[data.folders.codes[row]]}/${file}`;
  };
  const shown = (column, row) => {
    if (numbers.void[row] && (column === "bound" || column === "rms_raw")) return "void";
    return value(column, row) === null ? "–" : text(value(column, row));
  };
  const anchor = (row, words) => {
    const made = document.createElement("a");
    made.href = link(row);
    made.textContent = words;
    return made;
  };
  const plural = (n, word) => `${text(n)} ${word}${n === 1 ? "" : "s"}`;

  // Dots by any column; of the policy under the pointer, all certificates.
  class Scatter extends Chart {
    constructor(figure) {
      super(figure);
      this.svg = this.plot.querySelector("svg");
      this.legend = figure.querySelector(".legend");
      this.rule = this.legend.firstElementChild;
      this.kin = [this.path("kin", ""), this.path("kin core", "")];
      this.kin.forEach((each) => each.setAttribute("stroke-linecap", "round"));
      this.by = figure.querySelector("#by");
      this.by.closest(".picker").hidden = false;
      this.by.addEventListener("change", () => this.draw(this.rows));
      this.plot.addEventListener("click", (event) => { this.pinned = false; this.point(event); this.pinned = true; });
    }

    path(kind, d) {
      const made = document.createElementNS("http://www.w3.org/2000/svg", "path");
      made.setAttribute("class", kind);
      made.setAttribute("d", d);
      return made;
    }

    spot(row) {
      const unit = (part) => (SIDE * part).toFixed(1).replace(/\.0$/, "");
      return `M${unit(this.share("x", numbers.bound[row]))} ${
        unit(1 - this.share("y", numbers.test_error[row]))}h.1`;
    }

    draw(rows) {
      this.rows = rows;
      const figure = this.plot.parentElement;
      const by = named[this.by.value];
      const groups = by.names.map(() => []);
      for (const row of rows) {
        if (numbers.test_error[row] !== null && !numbers.void[row]) groups[by.codes[row]].push(row);
      }
      this.svg.querySelectorAll("path.dots").forEach((each) => each.remove());
      const legend = [this.rule];
      figure.style.setProperty("--dot", `${rows.length > 2000 ? 4.5 : rows.length > 500 ? 5.5 : 7}px`);
      this.data.series = groups.flatMap((group, code) => {
        if (!group.length) return [];
        group.sort((a, b) => numbers.bound[a] - numbers.bound[b]);
        const look = by.looks[code];
        const d = group.map((row) => this.spot(row)).join("");
        const kinds = [`dots role-look-${look}`];
        if (data.hollow.includes(look)) kinds.push(`dots hole role-look-${look}`);
        const swatch = document.createElementNS("http://www.w3.org/2000/svg", "svg");
        swatch.setAttribute("viewBox", "0 0 24 12");
        swatch.setAttribute("aria-hidden", "true");
        for (const kind of kinds) {
          this.svg.append(this.path(kind, d));
          swatch.append(this.path(kind, "M12 6h.1"));
        }
        const item = document.createElement("li");
        item.append(swatch, by.names[code]);
        legend.push(item);
        const pick = (key) => group.map((row) => numbers[key][row]);
        return [{ name: by.names[code], rows: group, x: pick("bound"), y: pick("test_error"), more: {} }];
      });
      this.svg.append(...this.kin);
      this.legend.replaceChildren(...legend);
      this.at = undefined;
      this.pinned = false;
      this.clear();
      this.readout.textContent = this.says(this.series.flatMap((each) => each.rows));
    }

    says(rows) {
      if (!rows.length) return "No certificate with a test error is chosen.";
      const policies = new Set(rows.map((row) => this.policy(row))).size;
      const above = rows.filter((row) => numbers.test_error[row] > numbers.bound[row]).length;
      const gaps = rows.map((row) => numbers.tightness[row]).sort((a, b) => a - b);
      const middle = (gaps[(gaps.length - 1) >> 1] + gaps[gaps.length >> 1]) / 2;
      return `${plural(rows.length, "certificate")} of ${plural(policies, "policy").replace("policys", "policies")}; ` +
        `median bound − test error ${text(middle)}; test error above the bound in ${text(above)}.`;
    }

    policy(row) {
      return ["agent", "environment", "level", "instance"].map((key) => named[key].codes[row]).join();
    }

    clear() {
      if (this.pinned) return;
      super.clear();
      this.kin?.forEach((each) => each.setAttribute("d", ""));
    }

    point(event) {
      if (!this.pinned && this.series.length) super.point(event);
      return this.at;
    }

    key(event) {
      if (!this.series.length) return;
      if (event.key === "Escape") {
        this.pinned = false;
        this.clear();
        return;
      }
      const other = { ArrowUp: 1, ArrowDown: -1 }[event.key];
      if (other) {
        event.preventDefault();
        const place = this.series.indexOf(this.at?.series);
        const next = this.series[(place + other + this.series.length) % this.series.length];
        const x = this.at?.series.x[this.at.index] ?? -Infinity;
        const found = next.x.findIndex((each) => each >= x);
        this.at = { series: next, index: found < 0 ? next.x.length - 1 : found };
        this.show();
        return;
      }
      super.key(event);
    }

    parts({ series, index }) {
      const row = series.rows[index];
      const policy = ["agent", "environment", "level"].map((key) => name(key, row)).join(", ");
      const parts = [["", `${policy}, instance ${name("instance", row)}`]];
      for (const [key, title] of columns) {
        if (!["agent", "environment", "level", "instance"].includes(key)) parts.push([title, shown(key, row)]);
      }
      return parts;
    }

    show() {
      super.show();
      const row = this.at.series.rows[this.at.index];
      const own = this.policy(row);
      const kin = this.series.flatMap((each) => each.rows).filter((each) => this.policy(each) === own);
      const d = kin.map((each) => this.spot(each)).join("");
      this.kin.forEach((each) => each.setAttribute("d", d));
      if (link(row)) this.readout.append(" · ", anchor(row, "certificate"));
    }
  }

  const dots = document.querySelector('figure[data-chart="scatter"]');
  const scatter = dots && new Scatter(dots);

  // The table of certificates, a page at a time.
  const PAGE = 25;
  const table = document.getElementById("certificates");
  const search = document.getElementById("search");
  const turns = document.getElementById("pages");
  let chosen = every, order = every, found = every, page = 0, words;

  const turn = (to) => {
    const last = Math.max(0, Math.ceil(found.length / PAGE) - 1);
    page = Math.min(last, Math.max(0, to));
    table.tBodies[0].replaceChildren(...found.slice(page * PAGE, (page + 1) * PAGE).map((row) => {
      const line = document.createElement("tr");
      for (const [key, title, isText] of columns) {
        const cell = line.appendChild(document.createElement("td"));
        cell.dataset.name = title;
        if (isText) cell.className = "text";
        if (key === "scheme" && link(row)) cell.append(anchor(row, shown(key, row)));
        else cell.textContent = shown(key, row);
      }
      return line;
    }));
    document.getElementById("page").textContent = `Page ${text(page + 1)} of ${text(last + 1)}`;
    const [back, on] = turns.querySelectorAll("button");
    back.disabled = page === 0;
    on.disabled = page === last;
  };
  const find = () => {
    const has = finder(search.value);
    if (search.value.trim()) {
      const texts = columns.filter(([key, , isText]) => isText || key in named).map(([key]) => key);
      words ??= every.map((row) => texts.map((key) => name(key, row)).join(" ").toLowerCase());
    }
    const inside = new Uint8Array(count);
    for (const row of chosen) inside[row] = search.value.trim() ? has(words[row]) : 1;
    found = order.filter((row) => inside[row]);
    document.getElementById("count").textContent = `${text(found.length)} of ${text(count)}`;
    turn(0);
  };
  sortable(table, (column, way) => {
    const [key] = columns[column];
    const rank = (row) => (key in named ? named[key].codes[row] : numbers[key][row] ?? "");
    order = every.toSorted((a, b) => compare(rank(a), rank(b), way) || a - b);
    find();
  });
  search.addEventListener("input", find);
  turns.addEventListener("click", (event) => {
    const way = Number(event.target.dataset.turn);
    if (way) turn(page + way);
  });
  turns.hidden = document.getElementById("finder").hidden = false;
  document.querySelectorAll(".static").forEach((each) => { each.hidden = true; });

  // Filters: what is chosen in a column must be met, in every column.
  const AXES = Object.keys(data.titles);
  const conditions = sortRows(document.getElementById("by-condition"));
  const codes = conditions.map((row) => row.dataset.codes.split(",").map(Number));
  const form = document.getElementById("filters");
  const wanted = () => new Map(AXES.flatMap((column) => {
    const boxes = form ? [...form.querySelectorAll(`input[name="${column}"]:checked`)] : [];
    return boxes.length ? [[column, new Set(boxes.map((box) => Number(box.value)))]] : [];
  }));
  const choose = () => {
    const asked = wanted();
    chosen = every.filter((row) => {
      for (const [column, set] of asked) if (!set.has(named[column].codes[row])) return false;
      return true;
    });
    conditions.forEach((row, index) => {
      row.hidden = ![...asked].every(([column, set]) => set.has(codes[index][AXES.indexOf(column)]));
    });
    document.querySelectorAll("figure.drawn").forEach((figure) => {
      figure.hidden = ![...asked].every(([column, set]) =>
        !(column in figure.dataset) || set.has(Number(figure.dataset[column])));
    });
    const said = [...asked].map(([column, set]) =>
      `${data.titles[column]} ${[...set].map((code) => named[column].names[code]).join(" or ")}`);
    document.querySelectorAll(".picked").forEach((each) => {
      each.hidden = !asked.size;
      each.textContent = `Only ${said.join("; ")}: ${text(chosen.length)} of ${text(count)} certificates.`;
    });
    scatter?.draw(chosen);
    find();
  };
  if (form) {
    form.hidden = false;
    form.addEventListener("change", choose);
    form.addEventListener("reset", () => setTimeout(choose));
    form.addEventListener("submit", (event) => event.preventDefault());
  }
  choose();
}
