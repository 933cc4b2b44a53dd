// Read-outs of charts, by pointer and by keys. A page reads without this script.
const data = JSON.parse(document.getElementById("data").textContent);
const SIDE = 1000;

const text = (value) =>
  typeof value === "number"
    ? Number(value.toPrecision(4)).toLocaleString("en", { maximumFractionDigits: 10 }).replace("-", "−")
    : value;

class Chart {
  constructor(figure) {
    this.plot = figure.querySelector(".plot");
    this.readout = figure.querySelector(".readout");
    this.data = data.charts[figure.dataset.chart];
    this.cursor = this.plot.appendChild(document.createElement("div"));
    this.cursor.className = "cursor";
    this.mark = this.plot.appendChild(document.createElement("div"));
    this.mark.className = "mark";
    this.clear();
    this.plot.tabIndex = 0;
    this.plot.setAttribute("role", "group");
    this.plot.setAttribute("aria-label", "Chart: arrow keys read its values");
    this.plot.addEventListener("pointermove", (event) => this.point(event));
    this.plot.addEventListener("pointerdown", (event) => this.point(event));
    this.plot.addEventListener("pointerleave", () => this.clear());
    this.plot.addEventListener("keydown", (event) => this.key(event));
  }

  get series() { return this.data.series.filter((each) => each.x.length); }

  share(axis, value) {
    const [low, high] = this.data[axis];
    return Math.min(1, Math.max(0, (value - low) / (high - low)));
  }

  clear() { this.cursor.hidden = this.mark.hidden = true; }

  point(event) {
    const box = this.plot.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width;
    const y = 1 - (event.clientY - box.top) / box.height;
    const flat = this.data.nearest === "x" ? 0 : box.height / box.width;
    let best = Infinity;
    for (const series of this.data.nearest === "x" ? this.series.slice(0, 1) : this.series) {
      series.x.forEach((value, index) => {
        const far = Math.hypot(this.share("x", value) - x,
                               flat * (this.share("y", series.y[index]) - y));
        if (far < best) { best = far; this.at = { series, index }; }
      });
    }
    this.show();
    return this.at;
  }

  key(event) {
    const moves = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
    if (!(event.key in moves)) return;
    event.preventDefault();
    const series = this.at?.series ?? this.series.at(-1);
    const next = (this.at?.index ?? -1) + moves[event.key];
    this.at = { series, index: Math.min(series.x.length - 1, Math.max(0, next)) };
    this.show();
  }

  // Names and values of all series at the same x, or of the one point.
  parts({ series, index }) {
    const x = series.x[index];
    const parts = [[this.data.x[2], x]];
    if (this.data.nearest === "x") {
      for (const each of this.series) {
        const found = each.x.findLastIndex((value) => value <= x);
        if (found >= 0) parts.push([each.name, each.y[found]]);
      }
    } else {
      parts.push([series.name, ""], [this.data.y[2], series.y[index]]);
    }
    for (const [name, values] of Object.entries(series.more)) parts.push([name, values[index]]);
    return parts;
  }

  show() {
    const { series, index } = this.at;
    this.readout.replaceChildren(...this.parts(this.at).flatMap(([name, value], place) => {
      const bold = document.createElement("b");
      bold.textContent = text(value);
      return [`${place ? " · " : ""}${name} `, bold];
    }));
    this.cursor.style.left = this.mark.style.left = `${100 * this.share("x", series.x[index])}%`;
    this.mark.style.top = `${100 * (1 - this.share("y", series.y[index]))}%`;
    this.cursor.hidden = this.data.nearest !== "x";
    this.mark.hidden = false;
  }
}

const charts = {};
for (const figure of document.querySelectorAll("figure[data-chart]")) {
  charts[figure.dataset.chart] = new Chart(figure);
}
