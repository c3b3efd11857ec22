// Tooltips that show at once and near the pointer. Without this script the browser shows its own.
(() => {
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  tip.setAttribute("aria-hidden", "true");
  document.body.append(tip);
  let held = null, title = ""; // what is shown; its <title> is set aside
  const centre = (e) => {
    const r = e.getBoundingClientRect();
    return [r.x + r.width / 2, r.y + r.height / 2];
  };
  const hold = (e) => {
    if (e === held) return;
    if (held) {
      held.classList.remove("on");
      held.querySelector("title").textContent = title;
    }
    held = e;
    tip.hidden = !e;
    if (!e) return;
    const t = e.querySelector("title");
    title = t.textContent;
    t.textContent = "";
    tip.textContent = title;
    e.classList.add("on");
  };
  const find = (event) => {
    const chart = event.target.closest("svg.chart");
    const own = event.target.closest(".pt, path:has(title)");
    if (own || !chart) return own;
    let best = null, least = 30;
    for (const p of chart.querySelectorAll(".pt")) {
      const [x, y] = centre(p);
      const d = Math.hypot(x - event.clientX, y - event.clientY);
      if (d < least) [best, least] = [p, d];
    }
    return best;
  };
  const move = (event) => {
    hold(event.target.closest ? find(event) : null);
    if (!held) return;
    const [x, y] = centre(held);
    const w = tip.offsetWidth, h = tip.offsetHeight;
    tip.style.left = Math.max(4, Math.min(x - w / 2, innerWidth - w - 4)) + "px";
    tip.style.top = (y - h - 12 < 4 ? y + 14 : y - h - 12) + "px";
  };
  addEventListener("pointermove", move);
  addEventListener("pointerdown", move);
  addEventListener("scroll", () => hold(null), { passive: true });
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const d of opened) d.open = true;
  });
  addEventListener("afterprint", () => {
    for (const d of opened) d.open = false;
  });
})();
