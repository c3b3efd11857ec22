// Pictures and words of the explorer. All text goes in as text, none as markup.
const exploreUnits = (value, units) => {
  const size = Math.abs(value);
  const [factor, name] = units.find(([f]) => size >= f * 0.9995) ?? units[units.length - 1];
  const scaled = value / factor;
  const digits = Math.abs(scaled) >= 99.95 ? 0 : Math.abs(scaled) >= 9.995 ? 1 : 2;
  return `${scaled.toFixed(digits)} ${name}`;
};
const exploreTime = (ns) => ns === null ? "–" : ns === 0 ? "0" : exploreUnits(ns, [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]]);
const exploreEnergy = (mj) => mj === 0 ? "0" : exploreUnits(mj, [[1e3, "J"], [1, "mJ"], [1e-3, "uJ"]]);
const exploreMHz = (khz) => `${Number((khz / 1000).toFixed(1))} MHz`;
const exploreParts = [["active", "cores that run"], ["idle", "idle cores"], ["awake", "device awake"], ["memory", "memory"], ["flash", "storage"]];
const exploreMake = (space) => (name, attributes = {}, ...children) => {
  const e = space ? document.createElementNS(space, name) : document.createElement(name);
  for (const [k, v] of Object.entries(attributes)) if (v !== null && v !== false) e.setAttribute(k, v === true ? "" : v);
  e.append(...children.filter((c) => c !== null));
  return e;
};
const exploreHtml = exploreMake(null);
const exploreSvg = exploreMake("http://www.w3.org/2000/svg");
// A number with what it is exactly.
const exploreValue = (exact, text) => exploreHtml("data", { value: exact ?? "" }, text);
const exploreTicks = (low, high, many) => {
  const rough = (high - low) / many || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= rough * 0.999);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-6; i++) ticks.push(i * step);
  return { ticks, step };
};
const exploreTick = (value, highest, units) => {
  const [factor, name] = units.find(([f]) => highest >= f) ?? units[units.length - 1];
  return value === 0 ? "0" : `${Number((value / factor).toPrecision(6))} ${name}`;
};
const exploreTimes = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]];
const exploreJoules = [[1e3, "J"], [1, "mJ"], [1e-3, "uJ"]];
// A frame with grid and labels: places of values, and the picture to draw into.
const exploreFrame = (size, x, y, label) => {
  const [width, height] = size, left = 74, right = 18, top = 12, bottom = 52;
  const px = (v) => left + (v - x.low) / (x.high - x.low || 1) * (width - left - right);
  const py = (v) => height - bottom - (v - y.low) / (y.high - y.low || 1) * (height - top - bottom);
  const svg = exploreSvg("svg", { class: "chart wide", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  const path = (c, d) => svg.append(exploreSvg("path", { class: c, d }));
  const text = (c, at, words, more = {}) => svg.append(exploreSvg("text", { class: c, x: at[0], y: at[1], ...more }, words));
  const ys = exploreTicks(y.low, y.high, 5), xs = exploreTicks(x.low, x.high, width > 800 ? 9 : 5);
  path("grid", ys.ticks.map((v) => `M${left} ${py(v)}H${width - right}`).join(""));
  path("axis", `M${left} ${height - bottom}H${width - right}`);
  for (const v of ys.ticks) text("ty", [left - 8, py(v)], exploreTick(v, y.high, y.units), { dy: ".35em" });
  for (const v of xs.ticks) text("tx", [px(v), height - bottom + 19], exploreTick(v, x.high, x.units));
  text("lx", [(left + width - right) / 2, height - 8], x.label);
  return { svg, px, py, path, text };
};
// The least energy for a mean latency: straight lines between the bound's corners. `null` where nothing is so fast.
const exploreLeast = (bound, latency) => {
  const all = bound.corners, first = all[0], last = all[all.length - 1];
  if (!first || latency < first[0] * (1 - 1e-12)) return null;
  const next = all.findIndex((p) => latency < p[0]);
  if (next < 0) return last[1];
  if (next === 0) return first[1];
  const [a, b] = [all[next - 1], all[next]];
  return a[1] + (latency - a[0]) / (b[0] - a[0]) * (b[1] - a[1]);
};
// Latency against energy: the bound as a line, governors as dots, the chosen one large and named.
const exploreScatter = (rows, bound, chosen) => {
  const shown = rows.filter((r) => r.answer && r.answer.mean_latency_ns !== null);
  const all = [...shown.map((r) => [r.answer.mean_latency_ns, r.answer.total_mj])];
  const span = (i) => {
    const values = all.map((p) => p[i]);
    const low = Math.min(...values), high = Math.max(...values);
    return { low: Math.max(0, low - (high - low || high) * 0.18), high: high + (high - low || high) * 0.18 };
  };
  if (!shown.length) return exploreHtml("p", { class: "empty" }, "There is no operation to show.");
  const x = { ...span(0), label: "Mean latency", units: exploreTimes }, y = { ...span(1), units: exploreJoules };
  const schedules = (bound?.schedules ?? []).filter((p) => p[0] >= x.low && p[0] <= x.high);
  // The line ends at the frame's sides; it starts at its first corner where nothing is faster.
  const line = [x.low, ...(bound?.corners ?? []).map((p) => p[0]), x.high].filter((v) => bound && v >= x.low && v <= x.high)
    .map((v) => [v, exploreLeast(bound, v)]).filter((p) => p[1] !== null);
  if (line.length) y.low = Math.max(0, Math.min(y.low, Math.min(...line.map((p) => p[1])) * 0.97));
  const words = shown.map((r) => `${r.name} ${exploreTime(r.answer.mean_latency_ns)}, ${exploreEnergy(r.answer.total_mj)}`);
  const f = exploreFrame([560, 380], x, y, `Mean latency and energy. ${words.join("; ")}. The numbers are in the table below.`);
  const into = (v) => f.py(Math.min(Math.max(v, y.low), y.high)).toFixed(1);
  const steps = (points) => points.map((p, i) => `${i ? "L" : "M"}${f.px(p[0]).toFixed(1)} ${into(p[1])}`).join("");
  if (schedules.length > 1) f.path("schedules", steps(schedules));
  if (line.length) {
    f.path("bound", steps(line));
    f.text("small te", [f.px(x.high), f.py(line[line.length - 1][1]) + 15], "bound", { "text-anchor": "end" });
  }
  const taken = all.map(([x, y]) => [f.px(x) - 6, f.py(y) - 6, f.px(x) + 6, f.py(y) + 6]);
  for (const row of [...shown].sort((a, b) => (b.name === chosen) - (a.name === chosen))) {
    const a = row.answer, mine = row.name === chosen;
    const [cx, cy] = [f.px(a.mean_latency_ns), f.py(a.total_mj)];
    const title = `${row.name}: ${exploreTime(a.mean_latency_ns)}, ${exploreEnergy(a.total_mj)}`;
    f.svg.append(exploreSvg("g", { class: `pt s${row.colour % 8}` }, exploreSvg("title", {}, title),
      exploreSvg("circle", { class: mine ? "dot mine" : "dot other", cx, cy, r: mine ? 8 : 5.5, "transform-origin": `${cx} ${cy}` })));
    // A name stands beside its dot, on the side and height where no other one does.
    const end = cx > 400, width = row.name.length * 6.6;
    const box = (dy) => [end ? cx - 11 - width : cx + 11, cy + dy - 6, end ? cx - 11 : cx + 11 + width, cy + dy + 6];
    const free = (b) => taken.every((t) => b[2] < t[0] || b[0] > t[2] || b[3] < t[1] || b[1] > t[3]);
    const dy = [0, -13, 13, -26, 26].find((d) => free(box(d)));
    if (dy === undefined) continue;
    taken.push(box(dy));
    f.text(mine ? "mine-text small" : "small", [end ? cx - 11 : cx + 11, cy + dy], row.name, { dy: ".35em", "text-anchor": end ? "end" : "start" });
  }
  f.text("ly", [-(380 - 40) / 2, 12], "Energy", { transform: "rotate(-90)", "text-anchor": "middle" });
  return f.svg;
};
// Energy by part, a bar for each governor.
const exploreBars = (rows, chosen) => {
  const shown = rows.filter((r) => r.answer);
  const high = Math.max(...shown.map((r) => r.answer.total_mj), 1e-12);
  const width = 560, left = 152, right = 72, each = 34, height = shown.length * each + 8;
  const label = `Energy by part of ${shown.map((r) => `${r.name} ${exploreEnergy(r.answer.total_mj)}`).join("; ")}`;
  const svg = exploreSvg("svg", { class: "chart wide", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  shown.forEach((row, n) => {
    const y = n * each + 6, scale = (width - left - right) / high;
    const name = row.name.length > 20 ? `${row.name.slice(0, 19)}…` : row.name;
    svg.append(exploreSvg("text", { class: `ty${row.name === chosen ? " mine-text" : ""}`, x: left - 10, y: y + 11, dy: ".35em" }, name));
    let x = left;
    exploreParts.forEach(([part, words], i) => {
      const mj = row.answer.energy[`${part}_mj`], w = mj * scale;
      svg.append(exploreSvg("g", { class: `pt s${[0, 5, 4, 2, 3][i]}` }, exploreSvg("title", {}, `${row.name}, ${words}: ${exploreEnergy(mj)}`),
        exploreSvg("rect", { class: "bar", x, y, width: Math.max(w, 0), height: 22 })));
      x += w;
    });
    svg.append(exploreSvg("text", { class: "tb", x: x + 8, y: y + 11, dy: ".35em" }, exploreEnergy(row.answer.total_mj)));
  });
  return svg;
};
// The frequency of each domain over a window of time.
const exploreLine = (answer, [from, to], name) => {
  const lines = answer.frequencies.slice(0, 8);
  if (!lines.length || !lines[0][1].length) return exploreHtml("p", { class: "empty" }, "The frequencies of this replay are not kept.");
  const high = Math.max(...answer.residency.map((r) => r.khz), ...lines.flatMap((l) => l[1].map((p) => p[1])));
  const x = { low: from, high: Math.max(to, from + 1), label: "Time since the run's start", units: exploreTimes };
  const y = { low: 0, high: high * 1.04, units: [[1e6, "GHz"], [1e3, "MHz"]] };
  const f = exploreFrame([1100, 250], x, y, `Frequency of ${name} over time, from ${exploreTime(from)} to ${exploreTime(to)}.`);
  lines.forEach(([domain, points], n) => {
    const inside = points.filter((p) => p[0] <= x.high);
    const steps = inside.map(([t, khz], i) => i ? `H${f.px(Math.max(t, from)).toFixed(1)}V${f.py(khz).toFixed(1)}` : `M${f.px(Math.max(t, from)).toFixed(1)} ${f.py(khz).toFixed(1)}`);
    const g = exploreSvg("g", { class: `s${n}` }, exploreSvg("title", {}, lines.length > 1 ? `clock ${domain}` : "frequency"));
    const line = `${steps.join("")}H${f.px(x.high)}`;
    if (n === 0) g.append(exploreSvg("path", { class: "steps", d: `${line}V${f.py(0)}H${f.px(Math.max(inside[0][0], from))}Z`, stroke: "none", style: "stroke:none" }));
    g.append(exploreSvg("path", { class: "line", d: line, style: `stroke-width:${n ? 1.2 : 1.6}` }));
    f.svg.append(g);
  });
  return f.svg;
};
