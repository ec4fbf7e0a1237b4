// The cluster: nodes to drain, queues and their shares, and what would happen if it were different.

import { get, post } from "./api.js";
import { colourOf, running } from "./colours.js";
import { ask, card, h, put, say, scale, table } from "./dom.js";
import { bytes, clock, hours, span, whole } from "./format.js";

export class Cluster {
  constructor({ root, hello }) {
    this.hello = hello;
    this.nodes = h("div");
    this.queues = h("div");
    this.audit = h("div");
    this.result = h("div", { "aria-live": "polite" });
    put(root, h("h1", null, "Cluster"), card("What if", this.form(), this.result), card("Nodes", this.nodes), card("Queues", this.queues), card("Who did what", this.audit));
  }

  async refresh() {
    const [nodes, queues, audit] = await Promise.all([get("/v1/nodes"), get("/v1/queues"), get("/v1/audit?limit=30")]);
    running(nodes.nodes.flatMap((node) => node.devices).map((device) => device.job).filter(Boolean));
    this.showNodes(nodes.nodes);
    this.showQueues(queues.queues, nodes.nodes.reduce((sum, node) => sum + node.devices.length, 0));
    this.showAudit(audit.entries);
  }

  showNodes(nodes) {
    const key = JSON.stringify(nodes.map((node) => [node.name, node.state, node.devices.map((device) => [device.state, device.job])]));
    if (key === this.nodeKey) return;
    this.nodeKey = key;
    const heads = [{ name: "node" }, { name: "in" }, { name: "kind" }, { name: "devices" }, { name: "free", number: true }, { name: "cores", number: true }, { name: "memory", number: true }, { name: "" }];
    const rows = nodes.map((node) => [
      h("b", null, node.name), node.place.join(" / "), node.kind,
      h("span", { class: "cells small" }, node.devices.map((device) => h("i", { class: `cell ${device.state}${device.job ? ` gang-${colourOf(device.job)}` : ""}`, title: `${device.id}: ${device.job || device.state}${device.note ? `, ${device.note}` : ""}` }))),
      `${node.free} / ${node.devices.length}`, node.cpus ? whole(node.cpus) : "", node.memory_bytes ? bytes(node.memory_bytes).replace(/(\d+)\.\d MiB/, (_, mib) => `${whole(mib / 1024)} GiB`) : "", this.orders(node)]);
    put(this.nodes, table(heads, rows, "Nodes"));
  }

  orders(node) {
    if (!this.hello.may_change) return "";
    const out = node.devices.filter((device) => device.state === "drained" || device.state === "draining").length;
    const button = (verb, words) => h("button", { type: "button", class: "small", "aria-label": `${words} ${node.name}`, onclick: () => this.order(verb, node) }, words);
    return h("span", { class: "buttons" }, out < node.devices.length ? button("drain", "Drain") : null, out ? button("undrain", "Undrain") : null);
  }

  async order(verb, node) {
    let why = "";
    if (verb === "drain") {
      const holders = [...new Set(node.devices.map((device) => device.job).filter(Boolean))];
      why = await ask(`Drain ${node.name}?`, holders.length ? `Nothing new starts there. ${holders.join(", ")} may finish first.` : "Nothing new starts there.", { verb: "Drain", reason: "Why (others will see it)" });
      if (why === null) return;
    }
    try {
      say((await post(`/v1/devices/${encodeURIComponent(node.name)}/${verb}`, { why })).said);
      await this.refresh();
    } catch (problem) {
      say(problem.words || String(problem), true);
    }
  }

  // The bar is what a queue holds of all devices, the mark what it is guaranteed.
  showQueues(queues, devices) {
    const held = (queue) => {
      const owed = queue.guarantee.gpu;
      const label = `${queue.devices} of ${devices} devices${owed === undefined ? "" : `, ${owed} guaranteed`}`;
      return scale(queue.devices / (devices || 1), owed === undefined ? -1 : owed / (devices || 1), label);
    };
    const heads = [{ name: "queue" }, { name: "weight", number: true }, { name: "guaranteed" }, { name: "limit" }, { name: "waiting", number: true }, { name: "running", number: true }, { name: "deserved", number: true }, { name: "devices", number: true }, { name: "borrowed", number: true }, { name: "" }, { name: "used lately", number: true }];
    const some = (number) => (number === null || number === undefined ? "–" : whole(number));
    const amounts = (sheet) => Object.entries(sheet).map(([name, value]) => `${whole(value)} ${name}`).join(", ") || "–";
    const rows = queues.map((queue) => [h("b", null, queue.parent ? `${queue.parent} / ${queue.name}` : queue.name, queue.closed ? " (closed)" : ""), whole(queue.weight), amounts(queue.guarantee), amounts(queue.limit), whole(queue.waiting), whole(queue.running), some(queue.deserved), whole(queue.devices), some(queue.borrowed), held(queue), `${hours(queue.used_device_s)} h`]);
    put(this.queues, table(heads, rows, "Queues"));
  }

  showAudit(entries) {
    const heads = [{ name: "when" }, { name: "who" }, { name: "what" }, { name: "to" }];
    put(this.audit, entries.length ? table(heads, entries.map((one) => [clock(one.at_us, true), one.who, one.what, one.target]), "Audit") : h("p", { class: "hint" }, "Nothing yet."));
  }

  form() {
    const field = (name, placeholder, words) => h("label", { class: "field" }, h("span", null, words), h("input", { name, placeholder, autocomplete: "off", spellcheck: "false" }));
    const form = h("form", { class: "fields" },
      field("add_nodes", "2x8", "more nodes (nodes x devices)"), field("remove", "node=n3", "fewer nodes (node=, rack=, kind=)"), field("queue", "default.weight=2", "a queue changed"),
      h("button", { class: "strong", type: "submit" }, "Work it out"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.whatIf(form);
    });
    return form;
  }

  async whatIf(form) {
    const words = (name) => form.elements[name].value.split(/[\s,]+/).filter(Boolean);
    put(this.result, h("p", { class: "hint" }, "Rolling both futures forward …"));
    try {
      const answer = await post("/v1/what-if", { add_nodes: words("add_nodes"), remove: words("remove"), queue: words("queue") });
      put(this.result, this.answered(answer));
    } catch (problem) {
      put(this.result, h("p", { class: "wrong" }, problem.words || String(problem)));
    }
  }

  answered(answer) {
    if (!answer.starts.length) return h("p", { class: "hint" }, "Nothing waits, so nothing would start sooner or later.");
    const heads = [{ name: "job" }, { name: "starts, as it is", number: true }, { name: "starts, if so", number: true }, { name: "", number: true }];
    const at = (seconds) => (seconds === null || seconds === undefined ? "not foreseen" : seconds < 1 ? "now" : `in ${span(seconds)}`);
    const difference = (one) => {
      if (one.before_s === null && one.after_s === null) return "";
      if (one.before_s === null) return h("span", { class: "good" }, "would start");
      if (one.after_s === null) return h("span", { class: "wrong" }, "would not");
      const gain = one.before_s - one.after_s;
      if (Math.abs(gain) < 1) return "the same";
      return h("span", { class: gain > 0 ? "good" : "wrong" }, `${span(gain)} ${gain > 0 ? "sooner" : "later"}`);
    };
    const rows = answer.starts.slice(0, 200).map((one) => [one.gang, at(one.before_s), at(one.after_s), difference(one)]);
    const cut = answer.starts.length > 200 || answer.cut ? " The answer was cut short." : "";
    return [table(heads, rows, "Starts, as it is and if it were so"), h("p", { class: "hint" }, `Assumes that ${answer.assumes}.${cut}`)];
  }

  close() {}
}
