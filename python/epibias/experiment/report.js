// Draws the figures of report.html from the JSON that stands in the page. No network, no state
// outside the page. Colours come from the style sheet, so light and dark stay in one place.
"use strict";
(function () {
  const run = JSON.parse(document.getElementById("run-data").textContent);
  const byId = (id) => document.getElementById(id);
  const colour = (name) =>
    getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  const faint = (hex, alpha) => {
    const part = (at) => parseInt(hex.slice(at, at + 2), 16);
    return `rgba(${part(1)},${part(3)},${part(5)},${alpha})`;
  };
  const config = { displaylogo: false, responsive: true, displayModeBar: false };
  const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x"];
  const DASHES = ["solid", "dash", "solid", "dash", "dot", "dashdot", "longdash"];

  function baseLayout() {
    return {
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: colour("panel"),
      font: { color: colour("text"), family: "system-ui, sans-serif", size: 13 },
      hoverlabel: { bgcolor: colour("page"), bordercolor: colour("line"),
        font: { color: colour("text") }, align: "left" },
      hovermode: "closest",
    };
  }
  // The height belongs to the element: plotly forgets a layout's own one when the window changes.
  function render(host, traces, layout) {
    host.style.height = `${layout.height}px`;
    delete layout.height;
    return Plotly.react(host, traces, Object.assign(layout, { autosize: true }), config);
  }
  function axisStyle(more) {
    return Object.assign({ gridcolor: colour("line"), zeroline: false, linecolor: colour("line"),
      tickcolor: colour("line"), automargin: false, title: { standoff: 8 } }, more);
  }

  // ---- A-Recall and recall by injections ----------------------------------------------------
  const narrow = window.matchMedia("(max-width: 760px)");
  function drawLines() {
    // Panels side by side by axis; below each other in a narrow window.
    const columns = narrow.matches ? 1 : run.axes.length;
    const rows = run.lines.length / columns;
    const traces = [];
    const layout = Object.assign(baseLayout(), { height: 40 + 340 * rows,
      margin: { t: narrow.matches ? 150 : 64, r: 12, b: 50, l: 60 }, annotations: [],
      legend: { orientation: "h", y: 1 + 15 / (340 * rows), x: 0, yanchor: "bottom" } });
    run.lines.forEach((panel, place) => {
      const row = Math.floor(place / columns), column = place % columns;
      const suffix = place === 0 ? "" : String(place + 1);
      const metric = run.lineMetrics.find((one) => one.key === panel.metric).title;
      const width = 1 / columns, gap = columns > 1 ? 0.03 : 0;
      const left = column * width + (column ? gap : 0);
      const right = (column + 1) * width - (column < columns - 1 ? gap : 0);
      const top = 1 - row / rows, bottom = top - 1 / rows + (row < rows - 1 ? 0.2 / rows : 0);
      layout["xaxis" + suffix] = axisStyle({ domain: [left, right], anchor: "y" + suffix,
        tickvals: run.conditions.map((_, i) => i), ticktext: run.conditions, tickangle: 0,
        range: [-0.5, run.conditions.length - 0.5], showgrid: false,
        title: { text: row === rows - 1 ? "adversarial passages injected" : "", standoff: 8 } });
      layout["yaxis" + suffix] = axisStyle({ domain: [bottom, top], anchor: "x" + suffix,
        range: [-0.03, 1.03], tickformat: ".1f",
        title: { text: column === 0 ? metric : "", standoff: 8 } });
      layout.annotations.push({ text: `<b>${panel.axis} axis</b>`, showarrow: false, xref: "paper",
        yref: "paper", x: left, y: top, xanchor: "left", yanchor: "bottom" });
      const middle = (panel.series.length - 1) / 2;
      panel.series.forEach((series, number) => {
        const ink = colour("s" + series.style);
        // Lines join the numbers of injections; decoys are another attack, so a point apart.
        const x = [], y = [], up = [], down = [];
        series.mean.forEach((mean, i) => {
          if (run.conditions[i] === "decoys") { x.push(null); y.push(null); up.push(0); down.push(0); }
          x.push(i + (number - middle) * 0.075);
          y.push(mean);
          up.push(mean === null ? 0 : series.high[i] - mean);
          down.push(mean === null ? 0 : mean - series.low[i]);
        });
        traces.push({ type: "scatter", mode: "lines+markers", name: series.title,
          legendgroup: series.defense, showlegend: place === 0, x, y,
          xaxis: "x" + suffix, yaxis: "y" + suffix, connectgaps: false,
          line: { color: ink, width: 1.6, dash: DASHES[series.style % DASHES.length] },
          marker: { color: ink, size: 8, symbol: SYMBOLS[series.style % SYMBOLS.length] },
          error_y: { type: "data", symmetric: false, array: up, arrayminus: down, color: ink,
            thickness: 1, width: 2 },
          hovertemplate: `${series.title}<br>%{y:.2f}<extra></extra>` });
      });
    });
    return render(byId("plot-lines"), traces, layout);
  }

  // ---- validity of the axis -----------------------------------------------------------------
  function drawValidity() {
    const traces = run.validity.map((series, i) => {
      const ink = colour(i === 0 ? "s1" : "s2");
      return { type: "scatter", mode: "markers", name: series.axis + " axis", x: series.values,
        y: run.topics.map((topic) => topic.topic),
        marker: { size: 11, symbol: i === 0 ? "circle" : "diamond", color: i === 0 ? "rgba(0,0,0,0)" : ink,
          line: { color: ink, width: 2 } },
        hovertemplate: `%{y}, ${series.axis}: %{x:.2f}<extra></extra>` };
    });
    const layout = Object.assign(baseLayout(), { height: 90 + 26 * run.topics.length,
      margin: { t: 36, r: 12, b: 50, l: 140 }, legend: { orientation: "h", y: 1.02, x: 0, yanchor: "bottom" },
      xaxis: axisStyle({ range: [-1.05, 1.05], title: { text: "leave-one-out rank correlation of PS with stance", standoff: 8 } }),
      yaxis: axisStyle({ autorange: "reversed", dtick: 1 }),
      shapes: [{ type: "line", x0: run.validAbove, x1: run.validAbove, y0: 0, y1: 1, yref: "paper",
        line: { color: colour("threshold"), width: 1, dash: "dot" } }] });
    return render(byId("plot-validity"), traces, layout);
  }

  // ---- one query: the picture that explains the method --------------------------------------
  const FATES = [
    { key: "selected", text: "selected", suffix: "" },
    { key: "kept", text: "kept, not in the top", suffix: "-open" },
    { key: "dropped", text: "dropped as suspicious", suffix: "-x-open" },
  ];
  function chosen() {
    const topic = run.topics[Number(byId("pick-topic").value)];
    const axis = byId("pick-axis").value, attack = byId("pick-attack").value;
    const defense = byId("pick-defense").value;
    const pool = topic.pools[axis][attack];
    return { topic, axis, attack, defense, pool, verdict: pool && pool.verdicts[defense] };
  }
  function fateOf(verdict, place) {
    if (verdict.selected.includes(place)) return "selected";
    return verdict.dropped.includes(place) ? "dropped" : "kept";
  }
  function pointTraces(pool, verdict) {
    const traces = [];
    [["benign", "circle"], ["adversarial", "diamond"]].forEach(([kind, symbol]) => {
      FATES.forEach((fate) => {
        const places = pool.ids.map((_, i) => i).filter((i) =>
          Boolean(pool.adversarial[i]) === (kind === "adversarial") && fateOf(verdict, i) === fate.key);
        if (!places.length) return;
        traces.push({ type: "scatter", mode: "markers", name: `${kind}, ${fate.text}`,
          x: places.map((i) => pool.similarities[i]), y: places.map((i) => pool.scores[i]),
          text: places.map((i) => `${pool.ids[i]}<br>${run.excerpts[pool.ids[i]] || ""}`),
          marker: { symbol: symbol + fate.suffix, size: fate.key === "selected" ? 13 : 11,
            color: colour(kind), line: { width: 1.5, color: colour(kind) } },
          hovertemplate: "%{text}<br>similarity %{x:.3f}, PS %{y:.3f}<extra></extra>" });
      });
    });
    return traces;
  }
  function densityTraces(sweep) {
    return sweep.densities.map((density) => {
      const ink = colour(density.side === "right" ? "other-side" : density.side === "left" ? "kept-side" : "muted");
      const name = { left: "PS left of the threshold", right: "PS right of the threshold",
        all: "PS of all candidates" }[density.side];
      return { type: "scatter", mode: "lines", name, x: density.values, y: sweep.grid, xaxis: "x2", yaxis: "y",
        fill: "tozerox", fillcolor: faint(ink, 0.18),
        line: { color: ink, width: 2, dash: density.side === "right" ? "dash" : "solid" },
        hovertemplate: `${name}<br>PS %{y:.3f}, density %{x:.2f}<extra></extra>` };
    });
  }
  function curveTraces(sweep) {
    const ink = colour("text");
    return [
      { type: "scatter", mode: "lines+markers", name: "divergence at each threshold", showlegend: false,
        x: sweep.curve.x, y: sweep.curve.y, xaxis: "x", yaxis: "y3", line: { color: ink, width: 1.5 },
        marker: { size: sweep.curve.x.length > 40 ? 3 : 7, color: sweep.curve.allowed.map((ok) => ok ? ink : colour("page")),
          line: { color: ink, width: 1 } },
        hovertemplate: "threshold %{x:.3f}<br>divergence %{y:.3f} nats<extra></extra>" },
    ];
  }
  function drawQuery() {
    const { topic, axis, attack, defense, pool, verdict } = chosen();
    const host = byId("plot-query");
    if (!verdict) {
      byId("query-verdict").textContent = "No such attack on this topic: no adversarial passage of this polarity lies below the query's k-th best benign passage.";
      byId("query-rows").replaceChildren();
      return render(host, [], Object.assign(baseLayout(), { height: 120 }));
    }
    const sweep = verdict.sweep ? pool.sweeps[verdict.sweep] : null;
    const traces = pointTraces(pool, verdict);
    if (sweep) traces.push(...densityTraces(sweep), ...curveTraces(sweep));
    const low = Math.min(...pool.similarities), high = Math.max(...pool.similarities);
    const pad = (high - low) * 0.06 || 0.01;
    const bottom = Math.min(...pool.scores), top = Math.max(...pool.scores);
    const rise = (top - bottom) * 0.3 || 0.01;
    const layout = Object.assign(baseLayout(), { height: sweep ? 660 : 480, margin: { t: 10, r: 12, b: 50, l: 70 },
      legend: { orientation: "h", y: -0.12, x: 0, yanchor: "top" },
      xaxis: axisStyle({ domain: [0, sweep ? 0.76 : 1], anchor: sweep ? "y3" : "y", range: [low - pad, high + pad],
        title: { text: "similarity to the query", standoff: 8 } }),
      yaxis: axisStyle({ domain: [sweep ? 0.36 : 0, 1], anchor: "x", range: [bottom - rise, top + rise], title: { text: "polarization score (PS)", standoff: 8 } }),
      shapes: [], annotations: [] });
    if (sweep) {
      layout.xaxis2 = axisStyle({ domain: [0.79, 1], anchor: "y", rangemode: "tozero", title: { text: "density", standoff: 8 } });
      layout.yaxis3 = axisStyle({ domain: [0, 0.27], anchor: "x", rangemode: "tozero", title: { text: "divergence (nats)", standoff: 8 } });
      if (sweep.threshold !== null) {
        [[0.36, 1], [0, 0.27]].forEach(([y0, y1]) => layout.shapes.push({ type: "line", xref: "x", yref: "paper",
          x0: sweep.threshold, x1: sweep.threshold, y0, y1, line: { color: colour("threshold"), width: 2, dash: "dash" } }));
        layout.annotations.push({ xref: "x", yref: "paper", x: sweep.threshold, y: 1, yanchor: "top",
          xanchor: sweep.threshold > (low + high) / 2 ? "right" : "left", showarrow: false,
          text: ` threshold ${sweep.threshold.toFixed(3)} `, bgcolor: colour("panel") });
      }
    }
    host.setAttribute("aria-label", `Scatter plot for ${topic.query}: similarity against polarization score, ${axis} axis, ${attack}, ${defense}. The table below has the same numbers.`);
    describe(topic, pool, verdict, sweep);
    return render(host, traces, layout);
  }
  function describe(topic, pool, verdict, sweep) {
    const bad = verdict.selected.filter((i) => pool.adversarial[i]).length;
    const inPool = pool.adversarial.filter(Boolean).length;
    let text = `“${topic.query}” ${inPool} of the ${pool.ids.length} candidates are adversarial; ` +
      `${verdict.selected.length} passages were selected, ${bad} of them adversarial. `;
    if (sweep && sweep.threshold !== null) {
      text += verdict.dropped.length
        ? `Split at similarity ${sweep.threshold.toFixed(3)} (divergence ${sweep.divergence.toFixed(2)} nats): ${verdict.dropped.length} dropped on the ${verdict.side || "right"}.`
        : `The best split, at similarity ${sweep.threshold.toFixed(3)}, was not acted on: nothing was dropped.`;
      if (verdict.p_value !== null) text += ` Permutation p-value ${verdict.p_value.toFixed(3)}.`;
    } else if (sweep) {
      text += "No split was found; everything is kept.";
    }
    byId("query-verdict").textContent = text;
    byId("query-rows").replaceChildren(...pool.ids.map((id, i) => {
      const row = document.createElement("tr");
      const cell = (tag, content, kind) => {
        const node = document.createElement(tag);
        node.textContent = content;
        if (kind) node.className = kind;
        if (tag === "th") node.scope = "row";
        row.append(node);
      };
      cell("th", id, "text");
      cell("td", pool.similarities[i].toFixed(3));
      cell("td", pool.scores[i].toFixed(3));
      cell("td", pool.adversarial[i] ? "adversarial" : "benign", "text");
      cell("td", FATES.find((fate) => fate.key === fateOf(verdict, i)).text, "text");
      cell("td", run.excerpts[id] || "", "wrap");
      return row;
    }));
  }

  function drawAll() {
    return Promise.all([drawLines(), drawValidity(), drawQuery()]).then(() => {
      document.documentElement.dataset.drawn = "yes";
    });
  }
  ["pick-topic", "pick-axis", "pick-attack", "pick-defense"].forEach((id) =>
    byId(id).addEventListener("change", drawQuery));
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  narrow.addEventListener("change", drawLines);
  drawAll();
})();
