// Any episode along the axes of the first chart.
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
      for (const each of [value, observed[k], predicted[k]]) {
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
