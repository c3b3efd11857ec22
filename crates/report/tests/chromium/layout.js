// What is wrong with how a page is laid out: a list of sentences, empty where nothing is. Run in the page at a width.
(() => {
  const faults = new Set(), wide = document.documentElement.clientWidth;
  const words = (e) => (e.textContent ?? "").replace(/\s+/g, " ").trim().slice(0, 40);
  const called = (e) => `${e.tagName.toLowerCase()}${e.getAttribute("class") ? "." + e.getAttribute("class").split(" ")[0] : ""} "${words(e)}"`;
  const shown = (e) => e.checkVisibility() && e.getBoundingClientRect().width > 0;
  const scrolls = (e) => ["auto", "scroll"].includes(getComputedStyle(e).overflowX);
  const inside = (e, test) => {
    for (let at = e.parentElement; at && at !== document.body; at = at.parentElement) if (test(at)) return true;
    return false;
  };

  // Nothing is wider than the window, but for what scrolls by itself.
  if (document.documentElement.scrollWidth > wide) faults.add(`the page is ${document.documentElement.scrollWidth} wide, the window ${wide}`);
  for (const e of document.body.querySelectorAll("*")) {
    if (!shown(e) || inside(e, scrolls)) continue;
    const r = e.getBoundingClientRect();
    if (r.right > wide + 1 || r.left < -1) faults.add(`${called(e)} reaches from ${r.left.toFixed()} to ${r.right.toFixed()} of ${wide}`);
    if (e.clientWidth && e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX === "hidden") faults.add(`${called(e)} is cut`);
  }

  // A text's outline: its box without what letters leave empty above and below, as it lies in the window.
  const outline = (text) => {
    const b = text.getBBox(), m = text.getScreenCTM(), top = b.y + b.height * 0.2, bottom = b.y + b.height * 0.82;
    return [[b.x, top], [b.x + b.width, top], [b.x + b.width, bottom], [b.x, bottom]]
      .map(([x, y]) => [m.a * x + m.c * y + m.e, m.b * x + m.d * y + m.f]);
  };
  // Outlines are apart if a line along a side of one has all of the other beyond it.
  const apart = (a, b) => [a, b].some((shape) => shape.slice(0, 2).some((p, i) => {
    const q = shape[i + 1], axis = [q[0] - p[0], q[1] - p[1]], size = Math.hypot(...axis);
    // A point has no side.
    if (!size) return false;
    const ends = (all) => all.map((c) => (c[0] * axis[0] + c[1] * axis[1]) / size).reduce(([l, h], v) => [Math.min(l, v), Math.max(h, v)], [Infinity, -Infinity]);
    const [first, second] = [ends(a), ends(b)];
    return first[1] <= second[0] + 0.5 || second[1] <= first[0] + 0.5;
  }));
  for (const svg of document.querySelectorAll("svg.chart, svg.heat, svg.time")) {
    if (!shown(svg)) continue;
    const frame = svg.getBoundingClientRect(), title = svg.getAttribute("aria-label")?.slice(0, 50) ?? "a picture";
    const texts = [...svg.querySelectorAll("text")].filter((t) => shown(t) && words(t));
    const outlines = texts.map(outline);
    texts.forEach((text, i) => {
      const [xs, ys] = [0, 1].map((at) => outlines[i].map((p) => p[at]));
      const out = Math.max(frame.left - Math.min(...xs), Math.max(...xs) - frame.right, frame.top - Math.min(...ys), Math.max(...ys) - frame.bottom);
      if (out > 1.5) faults.add(`${title}: ${called(text)} is ${out.toFixed(1)} px outside of its picture`);
      const high = parseFloat(getComputedStyle(text).fontSize) * Math.hypot(text.getScreenCTM().a, text.getScreenCTM().b);
      if (high < 8.5) faults.add(`${title}: ${called(text)} is ${high.toFixed(1)} px high`);
      for (let n = 0; n < i; n++) if (!apart(outlines[i], outlines[n])) faults.add(`${title}: ${called(text)} lies over ${called(texts[n])}`);
    });
    // No line through a name: lines of curves and bounds, where names stand among them.
    for (const line of svg.querySelectorAll(".line, .bound, .schedules")) {
      const names = texts.map((t, i) => [t, outlines[i]]).filter(([t]) => t.matches(".pl, .small"));
      if (!names.length) break;
      const m = line.getScreenCTM(), length = line.getTotalLength();
      for (let at = 0; at <= length; at += 1.5) {
        const p = line.getPointAtLength(at), here = [m.a * p.x + m.c * p.y + m.e, m.b * p.x + m.d * p.y + m.f];
        for (const [text, shape] of names) if (!apart(shape, [here, here, here])) faults.add(`${title}: a line goes through ${called(text)}`);
      }
    }
    // Nor a mark of another series over it.
    for (const dot of svg.querySelectorAll(".pt .dot")) {
      const r = dot.getBoundingClientRect(), square = [[r.left + 2, r.top + 2], [r.right - 2, r.top + 2], [r.right - 2, r.bottom - 2], [r.left + 2, r.bottom - 2]];
      texts.forEach((text, i) => {
        if (text.matches(".pl, .small") && !apart(outlines[i], square)) faults.add(`${title}: a mark lies over ${called(text)}`);
      });
    }
  }

  // Names in tables stand in one line, select boxes show all of their word.
  for (const cell of document.querySelectorAll("tbody th, td.short")) {
    const line = parseFloat(getComputedStyle(cell).lineHeight), range = document.createRange();
    range.selectNodeContents(cell);
    if (shown(cell) && range.getBoundingClientRect().height > 1.6 * line) faults.add(`${called(cell)} wraps`);
  }
  return [...faults];
})()
