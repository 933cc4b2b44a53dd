// Read-outs for every chart, and any episode in the first. The page reads without this script.
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

  // Values of all series at the same x, or of the one point.
  show() {
    const { series, index } = this.at;
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
    this.readout.replaceChildren(...parts.flatMap(([name, value], place) => {
      const bold = document.createElement("b");
      bold.textContent = text(value);
      return [`${place ? " · " : ""}${name} `, bold];
    }));
    this.cursor.style.left = this.mark.style.left = `${100 * this.share("x", x)}%`;
    this.mark.style.top = `${100 * (1 - this.share("y", series.y[index]))}%`;
    this.cursor.hidden = this.data.nearest !== "x";
    this.mark.hidden = false;
  }
}

const charts = {};
for (const figure of document.querySelectorAll("figure[data-chart]")) {
  charts[figure.dataset.chart] = new Chart(figure);
}

// Any episode along the same axes.
{
  const along = charts.along;
  const figure = along.plot.closest("figure");
  const select = document.getElementById("episode");
  const rows = figure.querySelector("tbody");
  const halfWidth = (step) => {
    const { value, profile, limit } = data.band;
    const part = limit === null ? 0 : Math.floor((step * profile.length) / limit);
    return value * profile[Math.min(part, profile.length - 1)];
  };
  const line = (x, y) =>
    x.map((value, k) => `${(SIDE * along.share("x", value)).toFixed(1)} ${
      (SIDE * (1 - along.share("y", y[k]))).toFixed(1)}`).join("L");
  const draw = (role, d) =>
    along.plot.querySelector(`path.role-${role}`).setAttribute("d", d);

  const show = (index) => {
    const { step, observed, predicted, episode, rms } = data.episodes[index];
    const upper = predicted.map((value, k) => value + halfWidth(step[k]));
    const lower = predicted.map((value, k) => value - halfWidth(step[k]));
    draw("around", `M${line(step, upper)}L${line(step.toReversed(), lower.toReversed())}Z`);
    draw("observed", `M${line(step, observed)}`);
    draw("predicted", `M${line(step, predicted)}`);
    along.data.series.forEach((series) => {
      series.x = step;
      series.y = series.name === "observed" ? observed : predicted;
      if (series.name === "predicted") {
        series.more = { error: predicted.map((value, k) => value - observed[k]) };
      }
    });
    const stride = Math.max(1, Math.floor(step.length / 20));
    rows.replaceChildren(...step.flatMap((value, k) => {
      if (k % stride) return [];
      const row = document.createElement("tr");
      for (const each of [value, observed[k], predicted[k], predicted[k] - observed[k],
                          halfWidth(value)]) {
        row.appendChild(document.createElement("td")).textContent = text(each);
      }
      return [row];
    }));
    select.value = String(index);
    along.at = undefined;
    along.clear();
    along.readout.textContent = `Episode ${episode}: RMS error ${text(rms)}. ` +
      "Point at the chart, or use the arrow keys, for values.";
    figure.querySelector("svg[role=img]").setAttribute(
      "aria-label", `Predicted against observed return in episode ${episode}, RMS error ${text(rms)}`);
  };

  const order = data.episodes.map((_, index) => index)
    .sort((a, b) => data.episodes[a].rms - data.episodes[b].rms);
  const picks = { best: order[0], typical: order[order.length >> 1], worst: order.at(-1) };
  for (const button of figure.querySelectorAll("[data-pick]")) {
    button.addEventListener("click", () => show(picks[button.dataset.pick]));
  }
  select.addEventListener("change", () => show(Number(select.value)));
  figure.querySelector(".picker").hidden = false;
  show(data.shown);

  // A dot among the returns leads to its curve.
  charts.every.plot.addEventListener("click", (event) => {
    const { series, index } = charts.every.point(event);
    const found = data.episodes.findIndex((each) => each.episode === series.x[index]);
    if (found >= 0) {
      show(found);
      figure.scrollIntoView({ block: "nearest" });
    }
  });
}
