(function () {
  "use strict";
  // Replaces the picture beside this script by sliders and a drawing of the packs they lead to.
  const host = document.currentScript.closest(".gnn-packing");
  const content = JSON.parse(host.dataset.packing);
  const names = Object.keys(content.sizes);
  const identity = "gnn-packing-" + Math.random().toString(36).slice(2);

  function fill(sizes, strategy, budget) {
    // The same as `fill` in packing_explorer.py.
    let {nodes, edges, graphs} = budget;
    if (strategy === "PadToMax") {
      nodes = Math.max(...sizes.map((size) => size[0])) * (graphs - 1) + 1;
      edges = Math.max(...sizes.map((size) => size[1])) * (graphs - 1) + 1;
    }
    const room = [nodes - 1, edges - (strategy === "StreamPack" ? 1 : 0), graphs - 1];
    let order = sizes.map((_, at) => at).filter((at) => sizes[at][0] <= room[0] && sizes[at][1] <= room[1]);
    const leftOut = sizes.length - order.length;
    if (strategy === "StreamPack") room.push(nodes - graphs, edges - graphs);
    if (strategy === "Pack") order.sort((a, b) => sizes[b][0] - sizes[a][0] || a - b);
    const packs = [], free = [];
    for (const at of order) {
      const need = [sizes[at][0], sizes[at][1], 1, sizes[at][0] - 1, sizes[at][1] - 1];
      let chosen = -1;
      for (let n = strategy === "Pack" ? 0 : Math.max(packs.length - 1, 0); n < packs.length; n++) {
        const fits = free[n].every((value, kind) => value >= need[kind]);
        if (fits && (chosen < 0 || free[n][0] < free[chosen][0])) chosen = n;
      }
      if (chosen < 0) {
        chosen = packs.length;
        packs.push([]);
        free.push([...room]);
      }
      packs[chosen].push(at);
      free[chosen] = free[chosen].map((value, kind) => value - need[kind]);
    }
    return {packs, nodes, edges, leftOut};
  }

  function slider(label, key, low, high) {
    return '<label style="display:grid;grid-template-columns:5em 1fr 4em;gap:.6em;align-items:center">' + label +
      '<input type="range" data-key="' + key + '" min="' + low + '" max="' + high + '" step="1" ' +
      'data-lm-suppress-shortcuts="true" style="min-width:0;width:100%"><output></output></label>';
  }

  function choice(legend, key, values) {
    const options = values.map((value, number) =>
      '<label style="margin-right:1em;white-space:nowrap"><input type="radio" data-key="' + key + '" name="' +
      identity + key + '" value="' + value + '"' + (number === 0 ? " checked" : "") +
      ' data-lm-suppress-shortcuts="true"> ' + value + "</label>").join(" ");
    return '<fieldset style="border:0;margin:0;padding:.2em 0;min-width:0"><legend style="font-size:inherit;margin:0;' +
      'padding:0;position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)">' + legend + "</legend>" + options + "</fieldset>";
  }

  const box = document.createElement("div");
  box.style.maxWidth = "640px";
  box.innerHTML = (names.length > 1 ? choice("Dataset", "dataset", names) : "") +
    choice("Strategy", "strategy", content.strategies) +
    slider("nodes", "nodes", 20, 2 * content.start.nodes) + slider("edges", "edges", 20, 2 * content.start.edges) +
    slider("graphs", "graphs", 2, Math.max(40, 2 * content.start.graphs)) +
    '<p aria-live="polite" style="margin:.6em 0"></p>' +
    '<svg role="img" viewBox="0 0 640 210" style="width:100%;height:auto"></svg><div style="margin:.3em 0"></div>';
  const chosen = {dataset: names[0], strategy: content.strategies[0], ...content.start};
  const inputs = [...box.querySelectorAll("input")];

  function percent(part) { return Math.round(100 * part) + " %"; }

  function draw() {
    const sizes = content.sizes[chosen.dataset];
    ["nodes", "edges"].forEach((key, kind) => {
      // Far enough for two of the largest graphs.
      const most = Math.max(2 * content.start[key], 2 * Math.max(...sizes.map((size) => size[kind])) + 1);
      inputs.find((input) => input.dataset.key === key).max = most;
      chosen[key] = Math.min(chosen[key], most);
    });
    const filling = fill(sizes, chosen.strategy, chosen);
    const total = (kind) => filling.packs.flat().reduce((sum, at) => sum + sizes[at][kind], 0);
    const count = filling.packs.length;
    const padding = (real, budget) => (count ? percent(1 - real / (budget * count)) : "–");
    for (const input of inputs.filter((one) => one.type === "range")) {
      const key = input.dataset.key;
      // PadToMax takes these two from the largest graph.
      const isTaken = chosen.strategy === "PadToMax" && key !== "graphs";
      input.disabled = isTaken;
      const value = isTaken ? filling[key] : chosen[key];
      input.parentElement.querySelector("output").textContent = value;
      if (!isTaken) input.value = value;
      input.setAttribute("aria-valuetext", value + " " + key);
    }
    const words = count + (count === 1 ? " step" : " steps") + " an epoch. Padding: " +
      padding(total(0), filling.nodes) + " of the nodes, " + padding(total(1), filling.edges) + " of the edges." +
      (filling.leftOut ? " " + filling.leftOut + " graphs fit no pack." : "");
    box.querySelector("p").textContent = words;
    const picture = box.querySelector("svg"), drawn = filling.packs.slice(0, content.drawn);
    picture.setAttribute("aria-label", chosen.dataset + ", " + chosen.strategy + ": " + words);
    const step = 640 / Math.max(drawn.length, 1), width = Math.min(step * 0.86, 40), scale = 210 / filling.nodes;
    let parts = "";
    drawn.forEach((pack, place) => {
      const x = place * step;
      parts += '<rect x="' + x + '" y="0" width="' + width + '" height="210" fill="currentColor" fill-opacity=".14"/>';
      let top = 210;
      pack.forEach((at, number) => {
        const height = sizes[at][0] * scale;
        top -= height;
        parts += '<rect x="' + x + '" y="' + top + '" width="' + width + '" height="' +
          Math.max(height - 0.8, 0.3) + '" fill="' + content.colours[number % 3] + '"/>';
      });
    });
    picture.innerHTML = parts;
    box.lastChild.textContent = (count > drawn.length ? "The first " + drawn.length + " of " : "") + count +
      (count === 1 ? " pack" : " packs") + ", as high as the node budget; grey is padding.";
  }

  box.addEventListener("input", (event) => {
    const {key} = event.target.dataset;
    chosen[key] = event.target.type === "range" ? Number(event.target.value) : event.target.value;
    draw();
  });
  // JupyterLab takes arrow keys for itself, to move between cells.
  box.addEventListener("keydown", (event) => {
    if (event.target.matches("input") && /^(Arrow|Home|End|Page)/.test(event.key)) event.stopPropagation();
  });
  draw();
  host.querySelectorAll(":scope > img").forEach((image) => { image.hidden = true; image.style.display = "none"; });
  host.append(box);
  host.dataset.ready = "yes";
})();
