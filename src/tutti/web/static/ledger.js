// The ledger: where every device-second went, and how true forecasts were.

import { get } from "./api.js";
import { card, figure, h, hideTip, put, scale, showTip, table } from "./dom.js";
import { hours, percent, span, whole } from "./format.js";

export const ORDER = [
  "useful-kept", "useful-later-lost", "start-up", "snapshot-stall", "resize", "degraded", "held-starting", "unknown",
  "reserved-idle", "fragmented-idle", "quota-idle", "foreign", "broken", "no-demand",
];

export function parts(sheet) {
  const known = ORDER.filter((name) => sheet[name] > 0);
  return [...known, ...Object.keys(sheet).filter((name) => sheet[name] > 0 && !ORDER.includes(name))];
}

export function ledgerBar(sheet, whole_, means, labelled) {
  const total = whole_ || Object.values(sheet).reduce((sum, one) => sum + one, 0) || 1;
  const words = (name) => `${name}\n${percent(sheet[name] / total)} · ${hours(sheet[name])} device-hours\n${means[name] || ""}`;
  const label = parts(sheet).map((name) => `${name} ${percent(sheet[name] / total)}`).join(", ");
  return h("div", { class: labelled ? "stack tall" : "stack", role: "img", "aria-label": label || "nothing yet" },
    parts(sheet).map((name) => h("i", {
      class: `part ${name}`, vars: { "--part": sheet[name] / total },
      onpointermove: (event) => showTip(words(name), event.clientX, event.clientY), onpointerleave: hideTip,
    }, labelled && sheet[name] / total > 0.09 ? h("span", null, percent(sheet[name] / total)) : null)));
}

export function ledgerTable(sheet, installed, means) {
  const heads = [{ name: "spent on" }, { name: "device-hours", number: true }, { name: "share", number: true }, { name: "" }];
  const rows = parts(sheet).map((name) => [h("span", { class: "key" }, h("i", { class: `part ${name}`, "aria-hidden": "true" }), name), hours(sheet[name]), percent(sheet[name] / (installed || 1)), means[name] || ""]);
  return table(heads, rows, "Device time by what it was spent on");
}

export class Ledger {
  constructor({ root, hello }) {
    this.means = hello.means;
    this.root = put(root, h("h1", null, "Ledger"));
    this.body = h("div", { class: "pile" });
    root.append(this.body);
    this.timer = setInterval(() => this.refresh().catch(() => {}), 5000);
  }

  async refresh() {
    const [report, told] = await Promise.all([get("/v1/report"), get("/v1/report/forecasts")]);
    put(this.body,
      h("div", { class: "figures" },
        figure(percent(report.goodput), "goodput", "useful work kept, of all that was installed"),
        figure(percent(report.goodput_known), "of what is known", "without jobs that report no progress"),
        figure(hours(report.installed_s), "device-hours installed"),
        figure(report.closes ? "yes" : "no", "it adds up", report.closes ? "to the second" : "please report this")),
      card("Where device time went", ledgerBar(report.total, report.installed_s, this.means, true), ledgerTable(report.total, report.installed_s, this.means)),
      this.queues(report), this.users(report), forecasts(told));
  }

  queues(report) {
    const names = Object.keys(report.queues);
    if (!names.length) return null;
    return card("By queue", names.map((name) => {
      const sheet = report.queues[name];
      const sum = Object.values(sheet).reduce((total, one) => total + one, 0);
      return h("div", { class: "line" }, h("span", { class: "label" }, name), ledgerBar(sheet, sum, this.means), h("span", { class: "number" }, `${hours(sum)} h`));
    }));
  }

  users(report) {
    const users = Object.entries(report.users).sort((a, b) => b[1] - a[1]);
    if (!users.length) return null;
    const most = users[0][1] || 1;
    return card("By user", users.slice(0, 50).map(([name, used]) => h("div", { class: "line" }, h("span", { class: "label" }, name), h("div", { class: "stack" }, h("i", { class: "part plain", vars: { "--part": used / most } })), h("span", { class: "number" }, `${hours(used * 3600)} h`))));
  }

  close() {
    clearInterval(this.timer);
  }
}

// How often the real start lay in the range that was given: nine in ten would be right.
function forecasts(told) {
  const open = told.open ? `${whole(told.open)} forecasts are still open.` : "";
  if (!told.forecasts.length) return card("How true forecasts were", h("p", { class: "hint" }, `No forecast has come due yet. ${open}`));
  const heads = [{ name: "starts within" }, { name: "forecasts", number: true }, { name: "in the range", number: true }, { name: "" }, { name: "off by (median)", number: true }];
  const rows = told.forecasts.map((one) => [one.horizon, whole(one.forecasts), percent(one.covered), scale(one.covered, 0.9, percent(one.covered)), span(one.median_error_s)]);
  return card("How true forecasts were", table(heads, rows, "Calibration of forecasts"), h("p", { class: "hint" }, `A range is given for nine futures in ten; the mark is where that would be. ${open}`));
}

