"use strict";
// Draws the charts in the colours of the page's theme, again when the theme changes, light for print; saves the data.
(() => {
  const root = document.documentElement;
  const held = (id) => JSON.parse(document.getElementById(id).textContent);
  const charts = held("charts");
  const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const errors = [];
  addEventListener("error", (event) => errors.push(event.message));

  function coloured(trace, number) {
    const ink = colour(`--ink${number % 8}`), paper = colour("--card");
    const made = { ...trace, marker: { ...trace.marker, color: ink } };
    if (trace.line) made.line = { ...trace.line, color: ink };
    if (trace.marker.pattern) {
      made.marker.pattern = { ...trace.marker.pattern, fgcolor: paper, bgcolor: ink };
      made.marker.line = { color: paper, width: 0.5 };
    }
    for (const key of ["error_x", "error_y"]) {
      if (trace[key]) made[key] = { ...trace[key], color: colour(trace.type === "bar" ? "--text" : `--ink${number % 8}`), width: 4 };
    }
    return made;
  }

  function axis(given) {
    return {
      ...given, gridcolor: colour("--line"), zerolinecolor: colour("--line"), linecolor: colour("--line"),
      automargin: true, fixedrange: true, title: { ...given.title, standoff: 12 },
    };
  }

  function laidOut(given) {
    return {
      ...given, xaxis: axis(given.xaxis), yaxis: axis(given.yaxis),
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: colour("--text") },
      hoverlabel: { bgcolor: colour("--card"), bordercolor: colour("--text"), font: { color: colour("--text") }, align: "left" },
      legend: { orientation: "h", x: 0, xanchor: "left", y: 1.02, yanchor: "bottom", traceorder: "normal" },
      margin: { l: 8, r: 24, t: 16, b: 8 }, dragmode: false, hovermode: "closest",
    };
  }

  const settings = { responsive: true, displayModeBar: false, scrollZoom: false, doubleClick: false };

  function draw() {
    const waits = Object.entries(charts).map(([id, chart]) =>
      Plotly.react(id, chart.data.map(coloured), laidOut(chart.layout), settings));
    return Promise.all(waits).then(
      () => { root.dataset.drawn = String(waits.length); root.dataset.errors = errors.join("; "); },
      (error) => { root.dataset.errors = String(error); console.error(error); });
  }

  function saved(name, kind, text) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: kind }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  const button = document.getElementById("save");
  button.hidden = false;
  button.addEventListener("click", () => saved("report.json", "application/json", JSON.stringify(held("data"), null, 2) + "\n"));

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  addEventListener("beforeprint", () => { root.dataset.print = ""; draw(); });
  addEventListener("afterprint", () => { delete root.dataset.print; draw(); });
  draw();
})();
