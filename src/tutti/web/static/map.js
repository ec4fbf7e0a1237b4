// The map: a cell per device, coloured by gang, in its node, in its rack. Cells are made once and changed where they differ.

import { jobLink } from "./api.js";
import { colourOf } from "./colours.js";
import { h, hideTip, put, showTip } from "./dom.js";

const WORDS = {
  free: "free", busy: "busy", starting: "starting", promised: "promised", draining: "drained once it is free",
  drained: "drained", foreign: "used by others", broken: "broken",
};

export class DeviceMap {
  constructor(go) {
    this.go = go;
    this.cells = [];
    this.known = new Map();
    this.element = h("div", { class: "map", role: "group", "aria-label": "Devices; arrows move from one to the next, Enter opens its job" });
    this.element.addEventListener("pointerover", (event) => this.over(event));
    this.element.addEventListener("pointerleave", () => this.leave());
    this.element.addEventListener("focusin", (event) => this.focused(event.target));
    this.element.addEventListener("focusout", () => this.leave());
    this.element.addEventListener("click", (event) => this.opened(event.target));
    this.element.addEventListener("keydown", (event) => this.key(event));
  }

  show(nodes) {
    const shape = nodes.map((node) => `${node.place.join("/")}|${node.name}|${node.devices.length}`).join(";");
    if (shape !== this.shape) this.build(nodes, shape);
    let at = 0;
    for (const node of nodes) {
      for (let index = 0; index < node.devices.length; index += 1) {
        const job = node.devices[index].job;
        const left = index > 0 && job && node.devices[index - 1].job === job;
        const right = index + 1 < node.devices.length && job && node.devices[index + 1].job === job;
        this.cell(this.cells[at], node, node.devices[index], left, right);
        at += 1;
      }
    }
  }

  build(nodes, shape) {
    this.shape = shape;
    this.cells = [];
    const racks = new Map();
    for (const node of nodes) {
      const rack = node.place.join(" / ") || "";
      if (!racks.has(rack)) racks.set(rack, []);
      racks.get(rack).push(node);
    }
    const total = nodes.reduce((sum, node) => sum + node.devices.length, 0);
    this.element.classList.toggle("many", total > 200);
    this.element.classList.toggle("most", total > 600);
    put(this.element, [...racks].map(([rack, inside]) => this.rack(rack, inside)));
    if (this.cells.length) this.cells[0].element.tabIndex = 0;
  }

  rack(name, nodes) {
    const label = name ? h("h3", null, name) : null;
    return h("div", { class: "rack", role: "group", "aria-label": name ? `rack ${name}` : "devices" }, label, h("div", { class: "nodes" }, nodes.map((node) => this.node(node))));
  }

  node(node) {
    const cells = node.devices.map((device) => {
      const element = h("button", { class: "cell", type: "button", tabindex: "-1", data: { at: this.cells.length } });
      this.cells.push({ element, id: device.id, key: "" });
      return element;
    });
    return h("div", { class: "node" }, h("span", { class: "label", title: node.name }, node.name), h("div", { class: "cells" }, cells));
  }

  cell(cell, node, device, left, right) {
    const key = `${device.state}|${device.job}|${device.rank}|${device.note}|${left}|${right}|${device.job ? colourOf(device.job) : ""}`;
    if (cell.key === key) return;
    cell.key = key;
    cell.job = device.job;
    const joins = `${left ? " left" : ""}${right ? " right" : ""}`;
    cell.element.className = `cell ${device.state}${joins}${device.job ? ` gang-${colourOf(device.job)}` : ""}`;
    const rank = device.rank >= 0 ? `rank ${device.rank}` : "";
    cell.words = [device.job || WORDS[device.state] || device.state, [rank, device.id, device.job ? WORDS[device.state] : device.kind].filter(Boolean).join(" · "), device.note].filter(Boolean).join("\n");
    cell.element.setAttribute("aria-label", `${node.name} device ${device.index}: ${cell.words.replaceAll("\n", ", ")}`);
    cell.element.dataset.job = device.job;
  }

  of(element) {
    const found = element.closest?.(".cell");
    return found ? this.cells[Number(found.dataset.at)] : null;
  }

  over(event) {
    const cell = this.of(event.target);
    if (!cell) return this.leave();
    showTip(cell.words, event.clientX, event.clientY);
    this.light(cell.job);
  }

  focused(target) {
    const cell = this.of(target);
    if (!cell || !target.matches(":focus-visible")) return;
    const box = target.getBoundingClientRect();
    showTip(cell.words, box.left, box.bottom - 12);
    this.light(cell.job);
  }

  leave() {
    hideTip();
    this.light("");
  }

  // The other members of a gang, wherever they are.
  light(job) {
    if (this.lit === job) return;
    this.lit = job;
    this.element.classList.toggle("dim", Boolean(job));
    for (const cell of this.cells) cell.element.classList.toggle("lit", Boolean(job) && cell.job === job);
  }

  opened(target) {
    const cell = this.of(target);
    if (cell?.job) {
      hideTip();
      this.go(jobLink(cell.job));
    }
  }

  key(event) {
    const cell = this.of(event.target);
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: "down", ArrowUp: "up", Home: "first", End: "last" }[event.key];
    if (!cell || step === undefined) return;
    event.preventDefault();
    const at = Number(event.target.dataset.at);
    const next = this.cells[this.next(at, step)];
    if (!next) return;
    event.target.tabIndex = -1;
    next.element.tabIndex = 0;
    next.element.focus();
  }

  next(at, step) {
    if (step === "first") return 0;
    if (step === "last") return this.cells.length - 1;
    if (typeof step === "number") return at + step;
    const from = this.cells[at].element.getBoundingClientRect();
    let best = -1;
    let nearest = Infinity;
    this.cells.forEach((cell, index) => {
      const box = cell.element.getBoundingClientRect();
      const dy = step === "down" ? box.top - from.top : from.top - box.top;
      const far = dy * 4 + Math.abs(box.left - from.left);
      if (dy > 2 && far < nearest) {
        nearest = far;
        best = index;
      }
    });
    return best;
  }
}
