// The replay of the explorer: the WebAssembly module where the page has it, else what was computed before.
const exploreBytes = (id) => {
  const text = atob(document.getElementById(id).textContent.trim());
  return Uint8Array.from(text, (c) => c.charCodeAt(0));
};
const exploreInflate = async (id) => {
  const stream = new DecompressionStream("deflate");
  const writer = stream.writable.getWriter();
  // Whoever reads the other end is told of a fault; these need not be waited for.
  writer.write(exploreBytes(id)).catch(() => {});
  writer.close().catch(() => {});
  return new Uint8Array(await new Response(stream.readable).arrayBuffer());
};
// A module's answers: `ask` takes a request and returns what it gives, or throws an Error with a `hint`.
const exploreModule = async (bytes) => {
  const { instance } = await WebAssembly.instantiate(bytes, {});
  const x = instance.exports;
  const ask = (request) => {
    const question = new TextEncoder().encode(JSON.stringify(request));
    const at = x.take(question.length);
    new Uint8Array(x.memory.buffer, at, question.length).set(question);
    const found = x.answer(at, question.length);
    x.give_back(at, question.length);
    const length = new DataView(x.memory.buffer).getUint32(found, true);
    const text = new TextDecoder().decode(new Uint8Array(x.memory.buffer, found + 4, length));
    x.give_back(found, length + 4);
    const answer = JSON.parse(text);
    if ("error" in answer) throw Object.assign(new Error(answer.error), { hint: answer.hint });
    return answer.ok;
  };
  return { ask };
};
// What answers the page: `replay(choice)` and `bound(choice)`, both remembered; `free` says whether tunables and
// levers can be chosen.
const exploreEngine = async (data) => {
  let module = null, why = "";
  if (document.getElementById("explore-module")) {
    try {
      const bytes = await exploreInflate("explore-module");
      module = await exploreModule(bytes);
      const activities = data.runs.map((r) => r.activity);
      module.ask({ do: "hold", devices: data.devices.map((d) => d.profile), activities });
    } catch (error) {
      why = `The replay does not run in this browser (${error.message}), so tunables and levers are fixed.`;
      module = null;
    }
  }
  if (!module) {
    // Only the first of these lists were computed before.
    data.devices.splice(data.grid_lists[0]);
    data.delays.splice(data.grid_lists[1]);
  }
  const known = new Map();
  const at = (c) => [
    data.devices.findIndex((d) => d.name === c.device), data.runs.findIndex((r) => r.name === c.run),
    data.delays.indexOf(c.delay),
  ];
  const same = (a, b) => a.every((x, i) => x === b[i]);
  const levers = (c) => {
    const own = data.runs.find((r) => r.name === c.run).levers[c.device];
    const all = { ...own, batch: c.batch, busy_waiting: c.busy };
    if (c.delay !== "recorded") all.delay = c.delay;
    if (c.cores) all.cores = c.cores;
    if (c.cluster) all.cluster = c.cluster;
    if (c.storage) all.device_storage = c.storage === "device";
    if (c.memory !== "") all.memory_share = Number(c.memory);
    return all;
  };
  const remember = (request, make) => {
    const key = JSON.stringify(request);
    if (!known.has(key)) {
      if (known.size > 400) known.clear();
      known.set(key, make());
    }
    return known.get(key);
  };
  const request = (what, c) => ({ do: what, device: c.device, activity: at(c)[1], levers: levers(c) });
  return {
    free: module !== null,
    // The levers that a run has on a device before a reader chooses any.
    own: (c) => data.runs.find((r) => r.name === c.run).levers[c.device] ?? {},
    why,
    replay: (c, governor, window) => {
      if (module) {
        const asked = { ...request("replay", c), governor };
        if (window) asked.window_ns = window;
        return remember(asked, () => module.ask(asked));
      }
      const index = data.governors.findIndex((g) => g.spec === governor);
      const row = data.grid.find((r) => same(r.of, [...at(c), index]));
      if (!row) throw new Error(`${governor} was not computed before for this choice`);
      return row.answer;
    },
    // The bound where it is known; `null` where it has to be computed first, by `bound`: that may take a while.
    known: (c) => module ? known.get(JSON.stringify(request("front", c))) ?? null : data.bounds.find((r) => same(r.of, at(c)))?.least ?? null,
    bound: (c) => {
      const asked = request("front", c);
      return remember(asked, () => module.ask(asked));
    },
  };
};
