// Now: figures, the map, and who runs and waits.

import { get } from "./api.js";
import { running } from "./colours.js";
import { figure, h, put } from "./dom.js";
import { percent, whole } from "./format.js";
import { ledgerBar } from "./ledger.js";
import { JobList } from "./list.js";
import { DeviceMap } from "./map.js";

export class Now {
  constructor({ root, go, hello }) {
    this.hello = hello;
    this.figures = h("div", { class: "figures" });
    this.map = new DeviceMap(go);
    this.notes = h("p", { class: "hint" });
    this.list = new JobList("active", hello.reasons);
    this.reasons = h("p", { class: "reasons" });
    this.strip = h("a", { class: "strip", href: "/ledger", "aria-label": "Where device time went; opens the ledger" });
    this.search = h("input", { type: "search", placeholder: "filter  /", "aria-label": "Filter jobs by name", title: "part of a name, user:NAME, queue:NAME", oninput: () => this.list.filter(this.search.value) });
    put(root,
      this.figures, this.strip,
      h("section", { class: "card", "aria-label": "Devices" }, h("div", { class: "title" }, h("h2", null, "Devices"), legend()), this.map.element, this.notes),
      h("section", { class: "card", "aria-label": "Queue" }, h("div", { class: "title" }, h("h2", null, "Queue ", this.list.count), this.reasons, h("span", { class: "room" }), this.search), this.list.element));
    this.reportAt = 0;
  }

  async refresh() {
    const [status, nodes, reasons] = await Promise.all([get("/v1/status"), get("/v1/nodes"), get("/v1/why"), this.list.refresh()]);
    const cells = nodes.nodes.flatMap((node) => node.devices);
    running(cells.map((cell) => cell.job).filter(Boolean));
    this.map.show(nodes.nodes);
    this.list.draw(true);
    await this.ledger();
    const busy = cells.filter((cell) => cell.job).length;
    const out = cells.filter((cell) => ["drained", "foreign", "broken"].includes(cell.state)).length;
    put(this.figures,
      figure(`${whole(busy)} / ${whole(cells.length)}`, "devices busy", out ? `${whole(out)} out of use` : ""),
      figure(whole(status.running), "running"),
      figure(whole(status.waiting), "waiting"),
      figure(whole(nodes.largest), "widest gang that fits now"),
      figure(this.goodput, "goodput", this.known));
    put(this.reasons, reasons.reasons.map((one) => [h("span", { class: "token", title: this.hello.reasons[one.reason] || "" }, `${one.jobs} ${one.reason}`), " "]));
    put(this.notes, nodes.notes.join(" · "));
    this.notes.hidden = !nodes.notes.length;
    this.trouble(status);
  }

  // The ledger moves slowly; it is not asked for at every change.
  async ledger() {
    if (performance.now() - this.reportAt < 3000 && this.report) return;
    this.report = await get("/v1/report");
    this.reportAt = performance.now();
    put(this.strip, ledgerBar(this.report.total, this.report.installed_s, this.hello.means));
  }

  get goodput() {
    const unknown = (this.report.total.unknown || 0) / (this.report.installed_s || 1);
    return unknown > 0.2 && !this.report.goodput_known ? "–" : percent(this.report.goodput);
  }

  get known() {
    const unknown = (this.report.total.unknown || 0) / (this.report.installed_s || 1);
    return unknown > 0.2 ? "few jobs report progress" : "";
  }

  trouble(status) {
    const box = document.getElementById("notice");
    box.hidden = !status.trouble.length;
    put(box, status.trouble.map((line) => h("p", null, `The daemon says: ${line}`)));
  }

  close() {
    this.list.close();
  }
}

function legend() {
  const kinds = [["free", "free"], ["busy gang-1", "a gang"], ["starting gang-1", "starting"], ["draining gang-1", "draining"], ["drained", "drained"], ["foreign", "used by others"]];
  return h("p", { class: "legend", "aria-hidden": "true" }, kinds.map(([kind, words]) => h("span", null, h("i", { class: `cell ${kind}` }), words)));
}
