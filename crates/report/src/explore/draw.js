// Pictures and words of the explorer. All text goes in as text, none as markup.
const exploreUnits = (value, units) => {
  const size = Math.abs(value);
  const [factor, name] = units.find(([f]) => size >= f * 0.9995) ?? units[units.length - 1];
  const scaled = value / factor;
  const digits = Math.abs(scaled) >= 99.95 ? 0 : Math.abs(scaled) >= 9.995 ? 1 : 2;
  return `${scaled.toFixed(digits)} ${name}`;
};
const exploreTime = (ns) => ns === null ? "–" : ns === 0 ? "0" : exploreUnits(ns, [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]]);
const exploreEnergy = (mj) => mj === 0 ? "0" : exploreUnits(mj, [[1e3, "J"], [1, "mJ"], [1e-3, "µJ"]]);
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
const exploreTimes = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
const exploreJoules = [[1e3, "J"], [1, "mJ"], [1e-3, "µJ"]];
// Pictures are as wide as their place, a unit a pixel: text has its size on a phone, too.
const exploreRuler = document.createElement("canvas").getContext("2d");
const exploreWide = (text) => {
  exploreRuler.font = `600 12.5px ${getComputedStyle(document.body).fontFamily}`;
  return exploreRuler.measureText(text).width;
};
const exploreRoom = (place, most) => Math.round(Math.max(260, Math.min(most, place.clientWidth || most)));
// A frame with grid and labels: places of values, and the picture to draw into.
const exploreFrame = (size, x, y, label) => {
  const [width, height] = size, right = 18, top = y.label ? 34 : 12, bottom = 52;
  const ys = exploreTicks(y.low, y.high, 5), beside = ys.ticks.map((v) => exploreTick(v, y.high, y.units));
  const left = Math.ceil(Math.max(...beside.map(exploreWide))) + 14;
  const px = (v) => left + (v - x.low) / (x.high - x.low || 1) * (width - left - right);
  const py = (v) => height - bottom - (v - y.low) / (y.high - y.low || 1) * (height - top - bottom);
  const svg = exploreSvg("svg", { class: "chart wide", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  const path = (c, d) => svg.append(exploreSvg("path", { class: c, d }));
  const text = (c, at, words, more = {}) => svg.append(exploreSvg("text", { class: c, x: at[0], y: at[1], ...more }, words));
  path("grid", ys.ticks.map((v) => `M${left} ${py(v)}H${width - right}`).join(""));
  path("axis", `M${left} ${height - bottom}H${width - right}`);
  ys.ticks.forEach((v, i) => text("ty", [left - 8, py(v)], beside[i], { dy: ".35em" }));
  // As many numbers as have room next to each other.
  const named = (v) => exploreTick(v, x.high, x.units);
  let xs = [];
  for (let many = width > 800 ? 9 : 6; many > 0; many--) {
    xs = exploreTicks(x.low, x.high, many).ticks;
    const roomy = xs.every((v, i) => !i || px(v) - px(xs[i - 1]) > (exploreWide(named(v)) + exploreWide(named(xs[i - 1]))) / 2 + 10);
    if (roomy) break;
  }
  for (const v of xs) text("tx", [Math.min(px(v), width - exploreWide(named(v)) / 2), height - bottom + 19], named(v));
  text("lx", [(left + width - right) / 2, height - 8], x.label);
  if (y.label) text("ly", [0, 13], y.label);
  return { svg, px, py, path, text, plot: [left, top, width - right, height - bottom] };
};
// Places for names beside their dots: none over another name, a dot or a line. `points` are [x, y, text].
const exploreNames = (points, lines, [left, top, right, bottom]) => {
  const along = ([x, y], [u, v]) => {
    const n = Math.max(1, Math.ceil(Math.hypot(u - x, v - y) / 3));
    return Array.from({ length: n + 1 }, (_, i) => [x + (u - x) * i / n, y + (v - y) * i / n]);
  };
  const ground = lines.flatMap((line) => line.slice(1).flatMap((to, i) => along(line[i], to)));
  const meet = (a, b) => a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];
  const has = (box, [x, y], by) => x > box[0] - by && x < box[2] + by && y > box[1] - by && y < box[3] + by;
  // Beside a dot first, then slanted, then wherever.
  const turns = [0, 16, 28, 4, 20, 12, ...Array.from({ length: 32 }, (_, i) => i).filter((i) => ![0, 16, 28, 4, 20, 12, 8, 24].includes(i))];
  const ways = turns.map((i) => [Math.cos(i * Math.PI / 16), Math.sin(i * Math.PI / 16)]);
  const wide = points.map(([, , words]) => exploreWide(words)), dots = points.length;
  // Names beside their dots come first, then the led ones; where dots lie close together, leaders may cross them, but
  // never a name.
  const placed = (order) => {
    const boxes = points.map(([x, y]) => [x - 7, y - 7, x + 7, y + 7]), spots = [...ground], places = points.map(() => null);
    const place = (own, [from, to, crossing]) => {
      const [x, y] = points[own];
      for (const far of [12, 18, 26, 38, 52, 68, 86, 106, 128, 152, 176, 200].slice(from, to)) {
        for (const [dx, dy] of ways) {
          const at = [x + dx * far, y + dy * far], first = dx > 0 ? at[0] : at[0] - wide[own], led = far > 12;
          const box = [first - 1, at[1] - 8, first + wide[own] + 1, at[1] + 8];
          if (box[0] < left || box[2] > right || box[1] < top || box[3] > bottom) continue;
          if (boxes.some((b) => meet(b, box)) || spots.some((p) => has(box, p, 2))) continue;
          const leader = led ? along([x, y], at) : [];
          const crosses = (p) => boxes.some((b, i) => (i < dots ? !crossing && !has(boxes[own], p, 0) && has(b, p, -3) : has(b, p, 0)));
          if (leader.some(crosses)) continue;
          boxes.push(box);
          spots.push(...leader);
          return { at, end: dx < 0, led };
        }
      }
      return null;
    };
    for (const how of [[0, 1, false], [1, 12, false], [1, 12, true]]) {
      for (const own of order) places[own] ??= place(own, how);
    }
    return places;
  };
  // Of a few orders the first in which all have a place, else the one in which most have.
  const named = (places) => places.filter((p) => p).length, order = points.map((_, i) => i);
  let best = placed(order), seed = 1;
  for (let n = 0; n < 60 && named(best) < dots; n++) {
    for (let i = order.length - 1; i > 0; i--) {
      seed = seed * 48271 % 0x7fffffff;
      const other = seed % (i + 1);
      [order[i], order[other]] = [order[other], order[i]];
    }
    const next = placed(order);
    if (named(next) > named(best)) best = next;
  }
  return best;
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
// Energy and latency: the bound as a line, governors as marks with their names, the chosen one large.
const exploreScatter = (place, rows, bound, chosen) => {
  const shown = rows.filter((r) => r.answer && r.answer.mean_latency_ns !== null);
  if (!shown.length) return exploreHtml("p", { class: "empty" }, "There is no operation to show.");
  const all = shown.map((r) => [r.answer.total_mj, r.answer.mean_latency_ns]);
  const span = (i) => {
    const values = all.map((p) => p[i]);
    const low = Math.min(...values), high = Math.max(...values);
    return { low: Math.max(0, low - (high - low || high) * 0.25), high: high + (high - low || high) * 0.18 };
  };
  const x = { ...span(0), label: "Energy of the run", units: exploreJoules };
  const y = { ...span(1), label: "Mean latency", units: exploreTimes };
  // The line ends at the frame's sides; it starts at its first corner where nothing is faster.
  const line = [y.low, ...(bound?.corners ?? []).map((p) => p[0]), y.high].filter((v) => bound && v >= y.low && v <= y.high)
    .map((v) => [exploreLeast(bound, v), v]).filter((p) => p[0] !== null);
  if (line.length) x.low = Math.max(0, Math.min(x.low, Math.min(...line.map((p) => p[0])) * 0.97));
  const words = shown.map((r) => `${r.name} ${exploreTime(r.answer.mean_latency_ns)}, ${exploreEnergy(r.answer.total_mj)}`);
  const width = exploreRoom(place, 640);
  const f = exploreFrame([width, width < 420 ? 430 : Math.max(380, width * 0.72)], x, y, `Energy and mean latency. ${words.join("; ")}. The numbers are in the table below.`);
  const into = ([energy, latency]) => [f.px(Math.min(Math.max(energy, x.low), x.high)), f.py(latency)];
  const steps = (points) => points.map((p, i) => `${i ? "L" : "M"}${p.map((v) => v.toFixed(1)).join(" ")}`).join("");
  const schedules = (bound?.schedules ?? []).filter((p) => p[0] >= y.low && p[0] <= y.high).map(([latency, energy]) => into([energy, latency]));
  const least = line.map(into), lines = [];
  if (schedules.length > 1) {
    f.path("schedules", steps(schedules));
    lines.push(schedules);
  }
  if (least.length) {
    f.path("bound", steps(least));
    lines.push(least);
  }
  // The chosen one's name has the first choice of a place; the line has a name, too.
  const ordered = [...shown].sort((a, b) => (b.name === chosen) - (a.name === chosen));
  const marks = ordered.map((row) => [...into([row.answer.total_mj, row.answer.mean_latency_ns]), row.name]);
  const named = exploreNames([...marks, ...(least.length ? [[...least[least.length - 1], "bound"]] : [])], lines, f.plot);
  marks.forEach(([cx, cy, name], i) => {
    const row = ordered[i], mine = name === chosen, spot = named[i];
    const title = `${name}: ${exploreTime(row.answer.mean_latency_ns)}, ${exploreEnergy(row.answer.total_mj)}`;
    const group = exploreSvg("g", { class: row.look[0] });
    if (spot?.led) group.append(exploreSvg("path", { class: "leader", d: steps([[cx, cy], spot.at]) }));
    group.append(exploreSvg("g", { class: "pt", transform: `translate(${cx.toFixed(1)},${cy.toFixed(1)})` }, exploreSvg("title", {}, title),
      exploreSvg("path", { class: mine ? "dot mine" : "dot", d: row.look[1] })));
    if (spot) group.append(exploreSvg("text", { class: mine ? "small mine-text" : "small", x: spot.at[0].toFixed(1), y: spot.at[1].toFixed(1), dy: ".35em", "text-anchor": spot.end ? "end" : "start" }, name));
    f.svg.append(group);
  });
  const spot = named[marks.length];
  if (spot) f.text("small", spot.at, "bound", { dy: ".35em", "text-anchor": spot.end ? "end" : "start" });
  // What has no room for its name beside its mark has it below.
  const left = ordered.filter((_, i) => !named[i]);
  if (!left.length) return f.svg;
  const key = (row) => exploreSvg("svg", { class: `key ${row.look[0]}`, viewBox: "-17 -8 34 16", "aria-hidden": "true" }, exploreSvg("path", { class: "dot", d: row.look[1] }));
  return exploreHtml("div", {}, f.svg, exploreHtml("ul", { class: "legend" }, ...left.map((row) => exploreHtml("li", {}, key(row), exploreHtml("span", {}, row.name)))));
};
// A name that has so much room.
const exploreShort = (name, room) => {
  if (exploreWide(name) <= room) return name;
  let letters = name.length;
  while (letters > 1 && exploreWide(`${name.slice(0, letters)}…`) > room) letters--;
  return `${name.slice(0, letters)}…`;
};
// Energy by part, a bar for each governor.
const exploreBars = (place, rows, chosen) => {
  const shown = rows.filter((r) => r.answer);
  const high = Math.max(...shown.map((r) => r.answer.total_mj), 1e-12);
  const widest = (texts) => Math.ceil(Math.max(0, ...texts.map(exploreWide)));
  const width = exploreRoom(place, 640), each = 34, height = shown.length * each + 8;
  const names = Math.min(widest(shown.map((r) => r.name)), width * 0.45), left = names + 10;
  const right = widest(shown.map((r) => exploreEnergy(r.answer.total_mj))) + 10;
  const label = `Energy by part of ${shown.map((r) => `${r.name} ${exploreEnergy(r.answer.total_mj)}`).join("; ")}`;
  const svg = exploreSvg("svg", { class: "chart wide", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  shown.forEach((row, n) => {
    const y = n * each + 6, scale = (width - left - right) / high;
    svg.append(exploreSvg("text", { class: `ty${row.name === chosen ? " mine-text" : ""}`, x: left - 10, y: y + 11, dy: ".35em" }, exploreShort(row.name, names)));
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
const exploreLine = (place, answer, [from, to], name) => {
  const lines = answer.frequencies.slice(0, 8);
  if (!lines.length || !lines[0][1].length) return exploreHtml("p", { class: "empty" }, "The frequencies of this replay are not kept.");
  const high = Math.max(...answer.residency.map((r) => r.khz), ...lines.flatMap((l) => l[1].map((p) => p[1])));
  const x = { low: from, high: Math.max(to, from + 1), label: "Time since the run's start", units: exploreTimes };
  const y = { low: 0, high: high * 1.04, label: "Frequency", units: [[1e6, "GHz"], [1e3, "MHz"]] };
  const f = exploreFrame([Math.max(640, exploreRoom(place, 1100)), 270], x, y, `Frequency of ${name} over time, from ${exploreTime(from)} to ${exploreTime(to)}.`);
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
