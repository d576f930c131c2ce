"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const names = Object.keys(data.methods);
  const label = (name) => data.labels[name];  // for Plotly, which would take markup in a name for its own
  // After Okabe and Ito, whom colour-blind readers can follow; dashes and symbols do the same in print.
  const colours = {
    light: ["#d55e00", "#009e73", "#cc79a7", "#b07800", "#2a8fd0", "#8c6d31", "#6a51a3", "#111111"],
    dark: ["#ff8a3d", "#2fc89a", "#e59cc8", "#f0b429", "#6cc3f5", "#c9a867", "#b3a0ec", "#eeeeee"],
  };
  const strong = { light: "#0072b2", dark: "#58aef0" }, plain = { light: "#767676", dark: "#a0a0a0" };
  const dashes = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
  const symbols = ["circle", "square", "diamond", "triangle-up", "x", "cross", "star"];
  const look = (name) => {
    const place = names.indexOf(name), mode = theme().dark ? "dark" : "light";
    const colour = name === data.recommended ? strong[mode] : name === data.before ? plain[mode] : colours[mode][place % colours[mode].length];
    return { colour, dash: dashes[place % dashes.length], symbol: symbols[place % symbols.length] };
  };
  const find = (id) => document.getElementById(id);
  const percent = (value, digits = 2) => value === null ? "–" : (100 * value).toFixed(digits) + "%";
  const times100 = (values) => values.map((value) => value === null ? null : 100 * value);
  const known = (diagram) => diagram.confidence.map((_, at) => at).filter((at) => diagram.accuracy[at] !== null);

  // --- what all pictures share ---

  let printing = false;
  const narrow = () => !printing && window.innerWidth < 640;

  function theme() {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    if (printing) return { dark: false, ink: "#000000", line: "#cccccc", paper: "#ffffff", faint: "#444444" };
    return { dark: colour("--dark") === "1", ink: colour("--ink"), line: colour("--line"), paper: colour("--paper"), faint: colour("--faint") };
  }

  function layout(extra) {
    const { ink, line, paper } = theme();
    const base = {
      ...(printing ? { width: 690 } : {}),
      paper_bgcolor: paper, plot_bgcolor: paper, font: { color: ink, size: narrow() ? 11 : 13 },
      margin: { l: narrow() ? 48 : 64, r: 12, t: 12, b: 48 }, hovermode: "closest",
      legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
    };
    for (const [key, value] of Object.entries(extra)) {
      base[key] = key.includes("axis") ? { gridcolor: line, zerolinecolor: line, linecolor: ink, automargin: true, ...value } : value;
    }
    return base;
  }

  const options = { responsive: true, displaylogo: false, displayModeBar: false };
  const draw = (id, traces, extra) => Plotly.react(find(id), traces, layout(extra), options);

  // --- reliability ---

  const capital = (text) => text[0].toUpperCase() + text.slice(1);

  function bandTrace(diagram, at) {
    const x = at.map((i) => diagram.confidence[i]);
    const low = at.map((i) => diagram.band_low[i]), high = at.map((i) => diagram.band_high[i]);
    return {
      x: times100([...x, ...x.slice().reverse()]), y: times100([...high, ...low.slice().reverse()]),
      fill: "toself", fillcolor: "rgba(127,127,127,0.25)", line: { width: 0 }, mode: "lines",
      name: "if calibrated", hoverinfo: "skip",
    };
  }

  function hoverText(diagram, at, name) {
    const rows = diagram.edges ? "rows" : "rows near it";
    return at.map((i) => {
      const range = diagram.edges ? `bin (${diagram.edges[i].toFixed(3)}, ${diagram.edges[i + 1].toFixed(3)}]<br>` : "";
      return `<b>${label(name)}</b><br>${range}${rows} ${Number(diagram.weight[i].toPrecision(6)).toLocaleString("en")}` +
        `<br>${data.score_label} ${percent(diagram.confidence[i])}<br>${data.share_label} ${percent(diagram.accuracy[i])}` +
        `<br>interval ${percent(diagram.low[i])} to ${percent(diagram.high[i])}` +
        `<br>if calibrated ${percent(diagram.band_low[i])} to ${percent(diagram.band_high[i])}`;
    });
  }

  function curveTraces(name, kind, main) {
    const diagram = data.methods[name].reliability[kind], at = known(diagram), { colour, dash, symbol } = look(name);
    const x = times100(at.map((i) => diagram.confidence[i])), y = times100(at.map((i) => diagram.accuracy[i]));
    const curve = {
      x, y, name: label(name), mode: diagram.edges ? "lines+markers" : "lines", text: hoverText(diagram, at, name), hoverinfo: "text",
      line: { color: colour, width: 2, dash: main ? "solid" : "dash", shape: "linear" },
      marker: { color: colour, size: 8, symbol },
    };
    const low = at.map((i) => diagram.low[i]), high = at.map((i) => diagram.high[i]);
    if (diagram.edges) {
      curve.error_y = {
        type: "data", symmetric: false, color: colour, thickness: 1.2, width: 3,
        array: times100(at.map((i, j) => high[j] - diagram.accuracy[i])),
        arrayminus: times100(at.map((i, j) => diagram.accuracy[i] - low[j])),
      };
      return [curve];
    }
    const ribbon = {
      x: [...x, ...x.slice().reverse()], y: [...times100(high), ...times100(low).reverse()], fill: "toself",
      fillcolor: colour, opacity: 0.2, line: { width: 0 }, mode: "lines", hoverinfo: "skip", showlegend: false,
    };
    return [ribbon, curve];
  }

  function histogramTrace(name, kind) {
    const { edges, weight } = data.methods[name].reliability[kind].histogram, total = weight.reduce((a, b) => a + b, 0);
    const { colour } = look(name);
    return {
      type: "bar", name: label(name), showlegend: false, yaxis: "y2", marker: { color: colour, opacity: 0.6 },
      x: weight.map((_, i) => 50 * (edges[i] + edges[i + 1])), width: weight.map((_, i) => 100 * (edges[i + 1] - edges[i])),
      y: weight.map((one) => 100 * one / total), hoverinfo: "text",
      text: weight.map((one, i) => `<b>${label(name)}</b><br>(${edges[i].toFixed(3)}, ${edges[i + 1].toFixed(3)}]<br>rows ${Number(one.toPrecision(6)).toLocaleString("en")}`),
      textposition: "none",
    };
  }

  function drawReliability() {
    const name = find("reliability-method").value, beside = find("reliability-beside").value, kind = find("reliability-kind").value;
    const { ink } = theme(), diagram = data.methods[name].reliability[kind];
    const others = names.includes(beside) && beside !== name ? [beside] : [];
    const diagonal = { x: [0, 100], y: [0, 100], mode: "lines", line: { color: ink, dash: "dot", width: 1 }, hoverinfo: "skip", showlegend: false };
    const traces = [
      bandTrace(diagram, known(diagram)), diagonal,
      ...others.flatMap((other) => curveTraces(other, kind, false)), ...curveTraces(name, kind, true),
      ...others.map((other) => histogramTrace(other, kind)), histogramTrace(name, kind),
    ];
    draw("reliability-plot", traces, {
      xaxis: { title: { text: `${data.score_label} (%)` }, range: [-1, 101], constrain: "domain", anchor: "y2" },
      yaxis: { title: { text: `${data.share_label} (%)` }, range: [-1, 101], domain: [0.27, 1] },
      yaxis2: { title: { text: "rows (%)" }, domain: [0, 0.2], rangemode: "tozero" },
      barmode: "overlay",
    });
    fillTable(name, diagram);
  }

  function fillTable(name, diagram) {
    const table = find("reliability-table"), head = [diagram.edges ? "Bin" : "Point", "Rows", capital(data.score_label), capital(data.share_label), "Interval", "If calibrated"];
    table.replaceChildren();
    const caption = table.createCaption();
    caption.textContent = `Reliability of ${name}`;
    const first = table.createTHead().insertRow();
    for (const text of head) {
      const cell = document.createElement("th");
      cell.scope = "col"; cell.textContent = text; first.append(cell);
    }
    const body = table.createTBody();
    diagram.confidence.forEach((confidence, i) => {
      const row = body.insertRow();
      const bin = diagram.edges ? `(${diagram.edges[i].toFixed(3)}, ${diagram.edges[i + 1].toFixed(3)}]` : String(i + 1);
      const range = (low, high) => low === null ? "–" : `${percent(low)} .. ${percent(high)}`;
      const cells = [bin, String(diagram.weight[i]), percent(confidence), percent(diagram.accuracy[i]),
        range(diagram.low[i], diagram.high[i]), range(diagram.band_low[i], diagram.band_high[i])];
      for (const text of cells) row.insertCell().textContent = text;
    });
  }

  // --- temperatures ---

  function runningMedian(x, y, parts = 15) {
    const order = x.map((_, i) => i).sort((a, b) => x[a] - x[b]), size = Math.max(1, Math.floor(order.length / parts));
    const points = { x: [], y: [] };
    const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];
    for (let start = 0; start + size <= order.length; start += size) {
      const part = order.slice(start, start + size);
      points.x.push(median(part.map((i) => x[i]))); points.y.push(median(part.map((i) => y[i])));
    }
    return points;
  }

  function drawTemperatures() {
    if (!find("temperatures-plot")) return;
    const name = find("temperatures-method").value, against = find("temperatures-against").value;
    const cloud = data.methods[name].temperatures, { colour } = look(name), { ink } = theme(), one = data.temperature_of_ts;
    const total = cloud.counts.reduce((a, b) => a + b, 0), scale = against === "confidence" ? 100 : 1;
    const x = cloud[against].map((value) => scale * value), trend = runningMedian(x, cloud.temperature);
    const stacked = narrow();
    const traces = [
      { type: "bar", x: cloud.counts.map((_, i) => (cloud.edges[i] + cloud.edges[i + 1]) / 2), y: cloud.counts.map((n) => 100 * n / total),
        marker: { color: colour }, showlegend: false, name: label(name),
        hovertemplate: "temperature %{x:.3f}<br>rows %{y:.2f}%<extra></extra>" },
      { x, y: cloud.temperature, mode: "markers", marker: { color: colour, size: 4, opacity: 0.4 }, xaxis: "x2", yaxis: "y2",
        customdata: cloud.rows, showlegend: false, hovertemplate: `row %{customdata}<br>${against} %{x:.2f}<br>temperature %{y:.3f}<extra></extra>` },
      { ...trend, mode: "lines", line: { color: ink, width: 2 }, xaxis: "x2", yaxis: "y2", name: "running median", hoverinfo: "skip" },
    ];
    const line = (extra) => ({ type: "line", line: { color: ink, dash: "dash", width: 1.5 }, ...extra });
    const shapes = one === null ? [] : [
      line({ x0: one, x1: one, y0: 0, y1: 1, xref: "x", yref: "y domain" }), line({ x0: 0, x1: 1, y0: one, y1: one, xref: "x2 domain", yref: "y2" }),
    ];
    const units = { confidence: "confidence before (%)", margin: "margin of the two largest logits", entropy: "entropy before (share of the most)" };
    draw("temperatures-plot", traces, {
      xaxis: { title: { text: "temperature" }, domain: stacked ? [0, 1] : [0, 0.44] }, yaxis: { title: { text: "rows (%)" }, domain: stacked ? [0.6, 1] : [0, 1] },
      xaxis2: { title: { text: units[against] }, domain: stacked ? [0, 1] : [0.56, 1], anchor: "y2" },
      yaxis2: { title: { text: "temperature" }, anchor: "x2", domain: stacked ? [0, 0.4] : [0, 1] },
      shapes, bargap: 0,
    });
  }

  // --- the others ---

  function drawRisk() {
    const traces = names.map((name) => {
      const { coverage, risk, confidence } = data.methods[name].risk, { colour, dash } = look(name);
      return {
        x: times100(coverage), y: times100(risk), name: label(name), mode: "lines", line: { color: colour, dash, width: 2 }, customdata: times100(confidence),
        hovertemplate: `<b>${label(name)}</b><br>coverage %{x:.1f}%<br>error rate %{y:.2f}%<br>confidence from %{customdata:.1f}%<extra></extra>`,
      };
    });
    draw("risk-plot", traces, {
      xaxis: { title: { text: "coverage (%)" }, range: [0, 100] }, yaxis: { title: { text: "error rate (%)" }, rangemode: "tozero" },
    });
  }

  function drawClasses() {
    const { edges, gap, weight } = data.methods[find("classes-method").value].gaps;
    const bins = edges.slice(1).map((edge, i) => `${(100 * edges[i]).toFixed(0)}–${(100 * edge).toFixed(0)}`);
    const most = Math.max(...gap.flat().filter((value) => value !== null).map(Math.abs), 0.01);
    const z = gap.map(times100), rows = z.length;
    find("classes-plot").style.height = `${Math.max(22, 6 + 0.95 * rows)}rem`;
    draw("classes-plot", [{
      type: "heatmap", x: bins, y: data.classes, z, customdata: weight, zmid: 0, zmin: -100 * most, zmax: 100 * most,
      colorscale: [[0, "#b2182b"], [0.25, "#ef8a62"], [0.5, "#f7f7f7"], [0.75, "#67a9cf"], [1, "#2166ac"]], hoverongaps: false,
      colorbar: { title: { text: "points" }, thickness: 12 }, xgap: 1, ygap: 1,
      hovertemplate: "class %{y}<br>confidence %{x}%<br>rows %{customdata}<br>accuracy − confidence %{z:.1f} points<extra></extra>",
    }], { xaxis: { title: { text: "confidence (%)" }, type: "category" }, yaxis: { title: { text: "predicted class" }, type: "category", autorange: "reversed", dtick: rows > 40 ? 2 : 1 } });
  }

  function drawBins() {
    const traces = names.map((name) => {
      const { n_bins, ece } = data.methods[name].bins, { colour, dash, symbol } = look(name);
      return { x: n_bins, y: times100(ece), name: label(name), mode: "lines+markers", line: { color: colour, dash, width: 2 }, marker: { color: colour, symbol, size: 7 },
        hovertemplate: `<b>${label(name)}</b><br>%{x} bins<br>ECE %{y:.2f}%<extra></extra>` };
    });
    const { n_bins, null: chance } = data.methods[data.recommended].bins, { ink } = theme();
    traces.push({ x: n_bins, y: times100(chance), name: `${label(data.recommended)}, if calibrated`, mode: "lines", line: { color: ink, dash: "dot", width: 1.5 },
      hovertemplate: "if calibrated<br>%{x} bins<br>ECE %{y:.2f}%<extra></extra>" });
    draw("bins-plot", traces, { xaxis: { title: { text: "bins" } }, yaxis: { title: { text: "ECE (%)" }, rangemode: "tozero" } });
  }

  // --- tables that sort ---

  function sortBy(table, column, head) {
    const falling = head.getAttribute("aria-sort") === "ascending", body = table.tBodies[0];
    const key = (row) => {
      const text = row.cells[column].dataset.order, number = Number(text);
      return text !== "" && !Number.isNaN(number) ? number : text === "inf" ? Infinity : text;
    };
    const order = (a, b) => typeof a === "string" || typeof b === "string" ? String(a).localeCompare(String(b)) : a === b ? 0 : a < b ? -1 : 1;
    const rows = [...body.rows].sort((a, b) => order(key(a), key(b)) * (falling ? -1 : 1));
    for (const other of table.tHead.rows[0].cells) other.setAttribute("aria-sort", "none");
    head.setAttribute("aria-sort", falling ? "descending" : "ascending");
    body.append(...rows);
  }

  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      head.querySelector("button").addEventListener("click", () => sortBy(table, column, head));
    });
  }

  // --- all together ---

  const drawAll = () => { drawReliability(); drawTemperatures(); drawRisk(); drawClasses(); drawBins(); };
  const redraw = { reliability: drawReliability, temperatures: drawTemperatures, classes: drawClasses };
  for (const [section, again] of Object.entries(redraw)) {
    for (const select of document.querySelectorAll(`#${section} select`)) select.addEventListener("change", again);
  }
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  window.matchMedia("(max-width: 639px)").addEventListener("change", drawAll);
  // Paper is about 690 pixels wide, and its colours are those of the style sheet for print.
  window.addEventListener("beforeprint", () => { printing = true; drawAll(); });
  window.addEventListener("afterprint", () => { printing = false; drawAll(); });
  drawAll();
})();
