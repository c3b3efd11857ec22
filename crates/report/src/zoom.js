// Zooming into a time line. What is drawn without this script is the whole run; the numbers of its spans lie beside it.
(() => {
  const SHADES = 8, COLOURS = 12, LETTER = 7, SVG = "http://www.w3.org/2000/svg", LEAST = 200; // ns
  const element = (name, attributes, text) => {
    const e = document.createElementNS(SVG, name);
    for (const key in attributes) e.setAttribute(key, attributes[key]);
    if (text !== undefined) e.textContent = text;
    return e;
  };
  const unit = (ns) => [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]].find(([size]) => ns >= size) || [1, "ns"];
  const duration = (ns) => {
    const [size, name] = unit(ns);
    return (ns === 0 ? "0" : Number((ns / size).toPrecision(4))) + " " + name;
  };
  const unpack = (row) => {
    const spans = [];
    let start = 0;
    for (let n = 0; row.spans && n < row.spans.length; n += 4) {
      start += row.spans[n];
      spans.push({ start, length: row.spans[n + 1], idle: row.spans[n + 2], kind: row.spans[n + 3] });
    }
    return spans;
  };

  for (const source of document.querySelectorAll("[data-spans]")) {
    const figure = source.closest("figure"), svg = figure.querySelector("svg.time");
    const { length, left, width, rows } = JSON.parse(source.dataset.spans);
    const kinds = [...figure.querySelectorAll(".legend li")].map((li) => li.textContent);
    const groups = [...svg.querySelectorAll("g.row")], ticks = svg.querySelector("g.ticks");
    const all = rows.map(unpack);
    const whole = [...groups, ticks].map((g) => [...g.childNodes]);
    const grid = ticks.querySelector(".grid").getAttribute("d").match(/ (\S+)V(\S+?)(M|$)/);
    const tickY = ticks.querySelector("text").getAttribute("y");
    let from = 0, to = length;
    const across = (ns) => left + ((ns - from) / (to - from)) * width;

    const drawSpans = (n) => {
      const middle = rows[n].top + 11, nodes = [], seen = [];
      const shares = kinds.map(() => new Float64Array(width)), marks = kinds.map(() => "");
      for (const s of all[n]) {
        if (s.start > to || s.start + s.length < from || !kinds[s.kind]) continue;
        seen.push(s);
        if (s.length === 0) {
          marks[s.kind] += `M${across(s.start).toFixed(1)} ${middle}h1`;
          continue;
        }
        const a = Math.max(0, across(s.start) - left), b = Math.min(width, across(s.start + s.length) - left);
        const density = 1 - s.idle / s.length;
        for (let x = Math.floor(a); x < b; x++) {
          shares[s.kind][x] = Math.min(1, shares[s.kind][x] + density * (Math.min(b, x + 1) - Math.max(a, x)));
        }
      }
      kinds.forEach((_, kind) => {
        const paths = Array(SHADES + 1).fill("");
        for (let x = 0; x < width; ) {
          const level = (share) => (share > 0 ? Math.min(SHADES, Math.max(1, Math.ceil(share * SHADES - 1e-6))) : 0);
          const shade = level(shares[kind][x]);
          let end = x + 1;
          while (end < width && level(shares[kind][end]) === shade) end++;
          if (shade) paths[shade] += `M${left + x} ${middle}h${end - x}`;
          x = end;
        }
        paths[SHADES] += marks[kind];
        const g = element("g", { class: "s" + (kind % COLOURS) });
        paths.forEach((d, shade) => {
          if (d) g.append(element("path", { class: "span" + (shade < SHADES ? " f" + shade : ""), d }));
        });
        if (g.childNodes.length) nodes.push(g);
      });
      // Each span says what it is, while there are few enough to be pointed at.
      if (seen.length <= 1200) {
        const areas = element("g", { class: "areas" });
        for (const s of seen) {
          const a = Math.max(left, across(s.start)), b = Math.min(left + width, across(s.start + s.length));
          const path = element("path", { d: `M${a.toFixed(1)} ${middle}h${Math.max(4, b - a).toFixed(1)}` });
          const long = s.length ? `, ${duration(s.length - s.idle)}` : "";
          path.append(element("title", {}, `${kinds[s.kind]}${long} from ${duration(s.start)}`));
          areas.append(path);
        }
        nodes.push(areas);
      }
      return nodes;
    };
    const drawSteps = (n) => {
      const steps = rows[n].steps, bottom = rows[n].top + 40;
      const values = steps.map((s) => s[1]).filter((v) => v !== null);
      const high = Math.max(0, ...values), low = Math.min(0, ...values);
      let d = "";
      steps.forEach(([start, value], i) => {
        const end = i + 1 < steps.length ? steps[i + 1][0] : length;
        if (value === null || end < from || start > to) return;
        const [a, b] = [across(Math.max(start, from)), across(Math.min(end, to))];
        const y = bottom - ((value - low) / (high - low || 1)) * 40;
        d += `M${a.toFixed(1)} ${bottom}V${y.toFixed(1)}H${b.toFixed(1)}V${bottom}z`;
      });
      const g = element("g", { class: "s0" });
      g.append(element("path", { class: "steps", d }));
      return [g, ...whole[n].filter((node) => node.nodeName === "text").map((node) => node.cloneNode(true))];
    };
    const drawTicks = () => {
      const rough = (to - from) / 8, power = 10 ** Math.floor(Math.log10(rough));
      const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= rough);
      const [size, name] = unit(to);
      const decimals = Math.max(0, Math.ceil(-Math.log10(step / size) - 1e-9));
      let d = "";
      const labels = [];
      for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
        const text = `${(t / size).toFixed(decimals)} ${name}`;
        d += `M${across(t).toFixed(1)} ${grid[1]}V${grid[2]}`;
        // The last one ends where the picture does.
        const x = Math.min(across(t), svg.viewBox.baseVal.width - text.length * LETTER / 2).toFixed(1);
        labels.push(element("text", { class: "tx", x, y: tickY }, text));
      }
      return [element("path", { class: "grid", d }), ...labels];
    };

    const bar = document.createElement("div"), said = document.createElement("span");
    bar.className = "zoom";
    said.setAttribute("role", "status");
    const show = (start, end) => {
      const long = Math.min(length, Math.max(LEAST, end - start));
      from = Math.max(0, Math.min(start, length - long));
      to = from + long;
      const complete = long >= length;
      groups.forEach((g, n) => {
        g.replaceChildren(...(complete ? whole[n] : rows[n].steps ? drawSteps(n) : drawSpans(n)));
      });
      ticks.replaceChildren(...(complete ? whole[groups.length] : drawTicks()));
      said.textContent = complete ? "" : `${duration(from)} to ${duration(to)} of ${duration(length)}`;
    };
    const about = (factor, shift) => {
      const middle = (from + to) / 2 + shift * (to - from), half = ((to - from) * factor) / 2;
      show(middle - half, middle + half);
    };
    for (const [label, act] of [
      ["Zoom in", () => about(0.5, 0)],
      ["Zoom out", () => about(2, 0)],
      ["Earlier", () => about(1, -0.5)],
      ["Later", () => about(1, 0.5)],
      ["Whole run", () => show(0, length)],
    ]) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = label;
      button.addEventListener("click", act);
      bar.append(button);
    }
    bar.append(said);
    svg.parentNode.before(bar);

    // Dragging over a part shows it.
    const place = (event) => {
      const box = svg.getBoundingClientRect();
      const x = ((event.clientX - box.x) / box.width) * svg.viewBox.baseVal.width;
      return Math.max(left, Math.min(left + width, x));
    };
    let drag = null;
    svg.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || event.pointerType === "touch") return;
      const height = svg.viewBox.baseVal.height - 50;
      drag = { x: place(event), box: element("rect", { class: "drag", y: 0, height, width: 0 }) };
      svg.append(drag.box);
      svg.setPointerCapture(event.pointerId);
      event.preventDefault();
    });
    svg.addEventListener("pointermove", (event) => {
      if (!drag) return;
      const x = place(event);
      drag.box.setAttribute("x", Math.min(x, drag.x));
      drag.box.setAttribute("width", Math.abs(x - drag.x));
    });
    const done = (event) => {
      if (!drag) return;
      const [a, b] = [drag.x, place(event)].sort((p, q) => p - q);
      drag.box.remove();
      drag = null;
      const time = (x) => from + ((x - left) / width) * (to - from);
      if (event.type === "pointerup" && b - a > 4) show(time(a), time(b));
    };
    svg.addEventListener("pointerup", done);
    svg.addEventListener("pointercancel", done);
  }
})();
