// The explorer: what is chosen is kept in the page's address, and everything is drawn anew from it.
(async () => {
  const root = document.getElementById("explore");
  if (!root) return;
  const status = document.getElementById("explore-status");
  const id = (name) => document.getElementById(`explore-${name}`);
  const fill = (e, ...children) => e.replaceChildren(...children);
  const html = exploreHtml;
  let data, engine;
  try {
    data = JSON.parse(new TextDecoder().decode(await exploreInflate("explore-data")));
    engine = await exploreEngine(data);
  } catch (error) {
    status.textContent = `This section requires a newer browser: ${error.message}`;
    return;
  }
  const form = root.querySelector("form"), control = (name) => root.querySelector(`[name=${name}]`);
  const option = (value, text) => html("option", { value }, text ?? value);
  const windows = [["", "the whole run"], ["10000000000", "the first 10 s"], ["1000000000", "the first second"], ["100000000", "the first 100 ms"]];
  const delayWords = (d) => d === "recorded" ? "as recorded" : d;
  fill(control("device"), ...data.devices.map((d) => option(d.name, d.description ? `${d.name}: ${d.description}` : d.name)));
  fill(control("run"), ...data.runs.map((r) => option(r.name, r.workload && r.workload !== r.name ? `${r.name}: ${r.workload}` : r.name)));
  fill(control("delay"), ...data.delays.map((d) => option(d, delayWords(d))));
  fill(control("governor"), ...data.governors.map((g) => option(g.spec)));
  fill(control("window"), ...windows.map(([v, t]) => option(v, t)));
  if (!engine.free) id("levers").remove();
  fill(id("parts"), ...exploreParts.map(([, words], i) =>
    html("li", {}, html("i", { class: `swatch s${[0, 5, 4, 2, 3][i]}` }), html("span", {}, words))));

  // A governor's text and its name with tunables: interactive{timer_rate=20000,target_loads="85 1500000:90"}.
  const parse = (text) => {
    const [, name, inside] = /^([^{]*)(?:\{(.*)\})?$/s.exec(text.trim()) ?? [null, text, ""];
    const set = {};
    for (const [, k, quoted, plain] of (inside ?? "").matchAll(/([\w.-]+)\s*=\s*(?:"([^"]*)"|([^,"]*))/g)) set[k] = quoted ?? plain.trim();
    return { name, set };
  };
  const print = (name, set) => {
    const list = Object.entries(set).map(([k, v]) => /^[\w.:-]+$/.test(v) ? `${k}=${v}` : `${k}="${v.replaceAll('"', "")}"`);
    return list.length ? `${name}{${list.join(",")}}` : name;
  };
  const first = () => ({
    device: data.devices[0].name, run: data.runs[0].name, delay: data.delays[0], governor: data.governors[0].spec,
    cores: 0, batch: 1, busy: false, cluster: "", storage: "", memory: "", window: "",
  });
  let choice = first();
  // The address: #explore=device:nexus-6,governor:powersave; what it does not name is the first of its list.
  const decode = (text) => {
    try { return decodeURIComponent(text); } catch { return text; }
  };
  const read = () => {
    const found = /^#explore=(.*)$/s.exec(location.hash);
    if (!found) return false;
    const next = first();
    for (const part of found[1].split(/,(?=\w+:)/)) {
      const at = part.indexOf(":"), key = part.slice(0, at), value = decode(part.slice(at + 1));
      if (key === "cores") next.cores = Math.max(0, parseInt(value, 10) || 0);
      else if (key === "batch") next.batch = Math.max(1, parseInt(value, 10) || 1);
      else if (key === "busy") next.busy = value === "1";
      else if (key in next) next[key] = value;
    }
    const known = [["device", data.devices.map((d) => d.name)], ["run", data.runs.map((r) => r.name)], ["delay", data.delays]];
    for (const [key, list] of known) if (!list.includes(next[key])) next[key] = list[0];
    if (!data.governors.some((g) => g.spec === parse(next.governor).name)) next.governor = data.governors[0].spec;
    if (!["recorded", "device"].includes(next.storage)) next.storage = "";
    if (!Number.isFinite(Number(next.memory))) next.memory = "";
    choice = next;
    return true;
  };
  const write = () => {
    const start = first();
    const parts = Object.entries(choice).filter(([k, v]) => v !== start[k] || k === "device")
      .map(([k, v]) => `${k}:${encodeURIComponent(v === true ? 1 : v)}`);
    try { history.replaceState(null, "", `#explore=${parts.join(",")}`); } catch { /* the address stays as it is */ }
  };

  // The controls as the choice has them. A tunable's own value is its placeholder; only what is set is said.
  const controls = () => {
    for (const name of ["device", "run", "delay", "window"]) control(name).value = choice[name];
    const { name, set } = parse(choice.governor);
    control("governor").value = name;
    const governor = data.governors.find((g) => g.spec === name), device = data.devices.find((d) => d.name === choice.device);
    id("about").textContent = governor.about;
    id("cycles").textContent = data.runs.find((r) => r.name === choice.run).notes[choice.device] ?? "";
    const family = name.split(":")[0], own = device.tunables[name] ?? device.tunables[family] ?? {};
    id("tunables").hidden = !engine.free || !governor.tunables.length;
    fill(id("tunables").querySelector(".tunables"), ...governor.tunables.map(([key, unit, value]) => html("label", {},
      unit ? `${key} (${unit === "us" ? "µs" : unit})` : key,
      html("input", { "data-tunable": key, value: set[key] ?? "", placeholder: own[key] ?? value, spellcheck: "false", class: key in set ? "set" : null }))));
    control("reset").hidden = !Object.keys(set).length;
    if (!engine.free) return;
    const own_levers = engine.own(choice), named = (cluster) => device.clusters.find((c) => c.name === cluster);
    const usual = named(own_levers.cluster) ?? device.clusters[0];
    if (!named(choice.cluster) || choice.cluster === usual.name) choice.cluster = "";
    if (!device.storage || choice.storage === (own_levers.device_storage ? "device" : "recorded")) choice.storage = "";
    const stored = own_levers.device_storage ? ["device", "recorded"] : ["recorded", "device"];
    const waits = { recorded: "as recorded", device: "the device's" };
    fill(control("cluster"), ...[usual, ...device.clusters.filter((c) => c !== usual)].map((c) => option(c === usual ? "" : c.name, c.name)));
    fill(control("storage"), ...stored.slice(0, device.storage ? 2 : 1).map((s, i) => option(i ? s : "", waits[s])));
    control("cluster").value = choice.cluster;
    control("storage").value = choice.storage;
    control("memory").value = choice.memory;
    control("memory").placeholder = own_levers.memory_share ?? device.memory_share;
    const cores = (named(choice.cluster) ?? usual).cores;
    fill(control("cores"), option("0", "all"), ...Array.from({ length: cores }, (_, i) => option(`${i + 1}`)));
    choice.cores = choice.cores > cores ? 0 : choice.cores;
    control("cores").value = `${choice.cores}`;
    control("batch").value = choice.batch;
    control("busy").checked = choice.busy;
  };

  const percent = (part) => `${part >= 0 ? "+" : "\u2212"}${Math.abs(part * 100).toFixed(1)}%`;
  const regret = (answer, bound) => {
    const least = bound === null || answer.mean_latency_ns === null ? null : exploreLeast(bound, answer.mean_latency_ns);
    return least > 0 ? answer.total_mj / least - 1 : null;
  };
  // What is wrong with the choice, where it was chosen; the other governors stay.
  const failed = (error) => {
    id("error").textContent = `${error.message}${error.hint ? `. Fix: ${error.hint}` : ""}.`;
    for (const e of root.querySelectorAll("[data-tunable]")) {
      if (error.message.includes(`tunable ${e.dataset.tunable} `)) e.setAttribute("aria-invalid", "true");
    }
    root.dataset.state = "failed";
    for (const part of ["tiles", "line", "residency", "line-note"]) fill(id(part));
  };
  const tiles = (answer, over) => {
    const tile = (name, key, exact, text, small) => html("div", {}, html("dt", {}, name),
      html("dd", { "data-key": key }, exploreValue(exact, text), small ? html("small", {}, small) : null));
    const each = answer.operations ? answer.total_mj / answer.operations : null;
    const busy = answer.run_ns ? `${(answer.busy_ns / answer.run_ns * 100).toFixed(1)}% of the time on a core` : "";
    fill(id("tiles"),
      tile("Mean latency", "mean_latency_ns", answer.mean_latency_ns, exploreTime(answer.mean_latency_ns)),
      tile("99th percentile", "p99_latency_ns", answer.p99_latency_ns, exploreTime(answer.p99_latency_ns)),
      tile("Energy", "total_mj", answer.total_mj, exploreEnergy(answer.total_mj), over === null ? "" : `${percent(over)} over the bound`),
      tile("Energy of an operation", "operation_mj", each, each === null ? "–" : exploreEnergy(each), `${answer.operations} operations`),
      tile("Run", "run_ns", answer.run_ns, exploreTime(answer.run_ns), busy),
      tile("Frequency changes", "transitions", answer.transitions, `${answer.transitions}`));
  };
  const table = (rows, bound, chosen) => {
    const heads = ["Governor", "Mean latency", "99th percentile", "Energy", "Over the bound", ...exploreParts.map((p) => p[1]), "Run"];
    const cell = (exact, text) => html("td", { class: "n" }, exploreValue(exact, text));
    const line = (row) => {
      const a = row.answer, mine = row.name === chosen;
      const button = html("button", { type: "button", "aria-pressed": `${mine}`, "data-governor": row.name }, row.name);
      const head = html("th", { scope: "row" }, button);
      if (!a) return html("tr", {}, head, html("td", { colspan: heads.length - 1 }, `unavailable: ${row.why}`));
      const over = regret(a, bound);
      return html("tr", { class: mine ? "now" : null }, head, cell(a.mean_latency_ns, exploreTime(a.mean_latency_ns)),
        cell(a.p99_latency_ns, exploreTime(a.p99_latency_ns)), cell(a.total_mj, exploreEnergy(a.total_mj)),
        html("td", { class: "n", "data-over": row.name }, exploreValue(over, over === null ? "–" : percent(over))),
        ...exploreParts.map(([p]) => cell(a.energy[`${p}_mj`], exploreEnergy(a.energy[`${p}_mj`]))), cell(a.run_ns, exploreTime(a.run_ns)));
    };
    fill(id("table"), html("thead", {}, html("tr", {}, ...heads.map((h, i) => html("th", { scope: "col", class: i ? "n" : null }, h)))),
      html("tbody", {}, ...rows.map(line)));
  };
  const residency = (answer) => {
    const cell = (text) => html("td", { class: "n" }, text), all = answer.residency.reduce((s, r) => s + r.total_ns, 0);
    const rows = answer.residency.filter((r) => r.total_ns > 0).map((r) => html("tr", {}, html("th", { scope: "row", class: "n" }, exploreMHz(r.khz)),
      cell(exploreTime(r.total_ns)), cell(`${(r.total_ns / all * 100).toFixed(1)}%`), cell(exploreTime(r.busy_ns))));
    const heads = ["Frequency", "In force", "Part", "While a core was busy"];
    fill(id("residency"), html("thead", {}, html("tr", {}, ...heads.map((h) => html("th", { scope: "col", class: "n" }, h)))), html("tbody", {}, ...rows));
  };

  let later = 0;
  const show = () => {
    controls();
    clearTimeout(later);
    delete root.dataset.bound;
    status.textContent = engine.why;
    id("error").textContent = "";
    let answer = null, wrong = null;
    try { answer = engine.replay(choice, choice.governor, null); } catch (error) { wrong = error; }
    const rows = data.governors.map((g, n) => {
      const row = { name: g.spec, look: data.looks[n], answer: null };
      try { row.answer = engine.replay(choice, g.spec, null); } catch (error) { row.why = error.message; }
      return row;
    });
    // With tunables of the reader's own it is one more row, beside the governor as it is.
    if (!rows.some((r) => r.name === choice.governor)) {
      const own = data.governors.findIndex((g) => g.spec === parse(choice.governor).name);
      rows.push({ name: choice.governor, look: data.looks[own], answer, why: wrong?.message });
    }
    const bounded = (bound, note) => {
      if (answer) tiles(answer, regret(answer, bound));
      fill(id("scatter"), exploreScatter(id("scatter"), rows, bound, choice.governor));
      table(rows, bound, choice.governor);
      id("bound-note").textContent = note;
      if (bound) root.dataset.bound = "shown";
    };
    const known = engine.known(choice);
    bounded(known, known ? "" : "The bound is being computed.");
    // It takes longer than a replay: the rest is shown meanwhile.
    if (!known && engine.free) {
      later = setTimeout(() => {
        try { bounded(engine.bound(choice), ""); } catch (error) { bounded(null, `The bound is unavailable: ${error.message}.`); }
      }, 30);
    }
    fill(id("bars"), exploreBars(id("bars"), rows, choice.governor));
    if (wrong) return failed(wrong);
    residency(answer);
    const end = Math.min(Number(choice.window) || answer.run_ns, answer.run_ns), window = [0, end];
    let shown = answer;
    if (engine.free && end < answer.run_ns) {
      try { shown = engine.replay(choice, choice.governor, window); } catch (error) { return failed(error); }
    }
    fill(id("line"), exploreLine(id("line"), shown, window, choice.governor));
    const run = data.runs.find((r) => r.name === choice.run);
    const part = run.operations < run.recorded_operations
      ? ` The page carries the first ${run.operations} of the run's ${run.recorded_operations} operations.` : "";
    id("line-note").textContent = `${choice.governor} on ${choice.device}.${shown.thinned ? " Of many changes close together only some are drawn." : ""}${part}`;
    root.dataset.state = "shown";
  };
  const change = () => {
    write();
    show();
  };
  root.addEventListener("change", (event) => {
    const e = event.target;
    const { name, set } = parse(choice.governor);
    if (e.dataset.tunable) {
      const value = e.value.trim();
      if (value) set[e.dataset.tunable] = value;
      else delete set[e.dataset.tunable];
      choice.governor = print(name, set);
    } else if (e.name === "cores") choice.cores = Number(e.value);
    else if (e.name === "batch") choice.batch = Math.min(1000, Math.max(1, Math.round(Number(e.value)) || 1));
    else if (e.name === "busy") choice.busy = e.checked;
    else choice[e.name] = e.value;
    // The field that has the keyboard is made anew: it gets it back.
    const held = document.activeElement?.dataset?.tunable;
    change();
    if (held) root.querySelector(`[data-tunable="${CSS.escape(held)}"]`)?.focus();
  });
  root.addEventListener("click", (event) => {
    const governor = event.target.closest("[data-governor]")?.dataset.governor;
    if (governor) choice.governor = governor;
    else if (event.target.name === "reset") choice.governor = parse(choice.governor).name;
    else return;
    change();
    if (governor) root.querySelector(`[data-governor="${CSS.escape(governor)}"]`)?.focus();
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  const go = () => {
    if (!read()) return;
    show();
    document.getElementById("s-explore").scrollIntoView();
  };
  addEventListener("hashchange", go);
  // A turned phone has another width.
  let wide = innerWidth, turned = 0;
  addEventListener("resize", () => {
    clearTimeout(turned);
    if (innerWidth !== wide) turned = setTimeout(() => { wide = innerWidth; show(); }, 150);
  });
  root.hidden = false;
  if (location.hash.startsWith("#explore=")) go();
  else show();
})();
