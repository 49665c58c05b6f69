(function () {
  "use strict";
  // Replaces the picture beside this script by a 3D view with a slider, once 3Dmol.js is loaded.
  const host = document.currentScript.closest(".gnn-molecules");
  const content = JSON.parse(host.dataset.molecules);
  const name = "3Dmol-min.js";

  function addresses() {
    const found = [];
    const config = document.getElementById("jupyter-config-data");
    if (config) {
      // JupyterLab serves the files below its root: look in each folder on the way to the open notebook.
      const base = JSON.parse(config.textContent).baseUrl || "/";
      const folders = decodeURI(location.pathname).split("/tree/").pop().split("/");
      for (let depth = 0; depth < folders.length; depth++) {
        const folder = folders.slice(0, depth).concat("build/vendor").join("/");
        found.push(base + "files/" + folder + "/" + name);
      }
    } else {
      ["vendor", "../vendor", "../../vendor", "build/vendor", "../build/vendor"].forEach(
        (folder) => found.push(new URL(folder + "/" + name, document.baseURI).href));
    }
    return found.concat(content.network);
  }

  function load(address) {
    return new Promise((resolve, reject) => {
      if (window.requirejs && window.define && window.define.amd) {
        window.requirejs([address], resolve, reject);
        return;
      }
      const tag = document.createElement("script");
      tag.src = address;
      tag.onload = resolve;
      tag.onerror = reject;
      document.head.append(tag);
    });
  }

  async function library() {
    for (const address of addresses()) {
      if (window.$3Dmol) break;
      try { await load(address); } catch (error) { continue; }
    }
    if (!window.$3Dmol) throw new Error(name + " was found nowhere");
    return window.$3Dmol;
  }

  function show(viewer, molecule) {
    const atoms = molecule.atoms.map(([elem, x, y, z], index) =>
      ({elem, x, y, z, serial: index, bonds: [], bondOrder: []}));
    for (const [start, end, order] of molecule.bonds) {
      for (const [from, to] of [[start, end], [end, start]]) {
        atoms[from].bonds.push(to);
        atoms[from].bondOrder.push(Math.floor(order));
      }
    }
    viewer.removeAllModels();
    viewer.removeAllLabels();
    viewer.addModel().addAtoms(atoms);
    const colorscheme = {prop: "elem", map: content.colours};
    viewer.setStyle({}, {stick: {radius: 0.12, colorscheme}, sphere: {scale: 0.28, colorscheme}});
    for (const {elem, x, y, z} of atoms) {
      const fontColor = content.ink[elem] || "black";
      viewer.addLabel(elem, {
        position: {x, y, z}, fontColor, fontSize: 13, alignment: "center", backgroundOpacity: 0, inFront: true});
    }
    viewer.zoomTo();
    viewer.zoom(1.4);
    viewer.render();
  }

  function build($3Dmol) {
    const count = content.molecules.length;
    const box = document.createElement("div");
    box.innerHTML =
      '<label style="display:flex;align-items:center;gap:.6em;max-width:560px">Molecule' +
      ' <input type="range" min="0" value="0" step="1" style="flex:1;min-width:0"></label>' +
      '<div aria-live="polite" style="margin:.3em 0"></div>' +
      '<div style="max-width:560px;border:1px solid #bbb;overflow:hidden">' +
      '<div role="img" style="position:relative;width:100%"></div></div>';
    const [slider, words, canvas] = [box.querySelector("input"), box.children[1], box.lastChild.firstChild];
    slider.max = count - 1;
    canvas.style.height = content.height + "px";
    box.dataset.lmSuppressShortcuts = "true";  // else JupyterLab takes the arrow keys from the slider
    // Nor may the notebook around it hear of them: it would move to the next cell.
    slider.addEventListener("keydown", (event) => {
      if (/^(Arrow|Home|End|Page)/.test(event.key)) event.stopPropagation();
    });
    // The wheel scrolls the page, as anywhere else; with Ctrl it zooms.
    canvas.addEventListener("wheel", (event) => { if (!event.ctrlKey) event.stopPropagation(); }, true);
    host.append(box);
    let viewer;
    try {
      viewer = $3Dmol.createViewer(canvas, {backgroundColor: "white", backgroundAlpha: 0});
    } catch (error) { viewer = null; }
    if (!viewer) { box.remove(); return; }  // no WebGL: the picture stays
    host.querySelector("img").style.display = "none";
    const update = () => {
      const molecule = content.molecules[slider.value];
      words.textContent = `${Number(slider.value) + 1} of ${count}. ${molecule.label}`;
      canvas.setAttribute("aria-label", "3D view of " + molecule.label);
      show(viewer, molecule);
    };
    slider.addEventListener("input", update);
    update();
    host.dataset.ready = "yes";
  }

  library().then(build).catch((error) => console.info("3D view not shown:", error.message));
})();
