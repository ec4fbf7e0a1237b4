// The ledger: where every device-second went, and how true forecasts were.

import { get } from "./api.js";
import { card, figure, h, hideTip, put, scale, showTip, table } from "./dom.js";
import { clock, hours, percent, span, whole } from "./format.js";

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

const RANGES = [["10 min", 600], ["2 h", 7200], ["1 d", 86400], ["7 d", 604800], ["30 d", 2592000]];
const POINTS = 90;

// One column for each stretch of time, as wide as it was long; its parts from the floor up, useful work lowest.
export function ledgerColumns(stretches, means) {
  const begun = stretches[0].begun_us;
  const whole_ = stretches[stretches.length - 1].ended_us - begun || 1;
  const columns = stretches.map((one) => {
    const sheet = Object.fromEntries(Object.entries(one.spent).filter(([, amount]) => amount > 0));
    const total = Object.values(sheet).reduce((sum, amount) => sum + amount, 0) || 1;
    const when = `${clock(one.begun_us, true)} – ${clock(one.ended_us, true)}`;
    const words = [when, `goodput ${percent(one.goodput)}`, ...parts(sheet).map((name) => `${name} ${percent(sheet[name] / total)}${means[name] ? `: ${means[name]}` : ""}`)].join("\n");
    return h("div", {
      class: "stretch", vars: { "--wide": (one.ended_us - one.begun_us) / whole_ },
      onpointermove: (event) => showTip(words, event.clientX, event.clientY), onpointerleave: hideTip,
    }, parts(sheet).map((name) => h("i", { class: `part ${name}`, vars: { "--part": sheet[name] / total } })));
  });
  const middle = stretches.map((one) => percent(one.goodput));
  return h("div", null,
    h("div", { class: "stretches", role: "img", "aria-label": `Goodput over time: first ${middle[0]}, last ${middle[middle.length - 1]}` }, columns),
    h("div", { class: "ends hint" }, h("span", null, clock(begun)), h("span", null, clock(stretches[stretches.length - 1].ended_us))));
}

export class Ledger {
  constructor({ root, hello }) {
    this.means = hello.means;
    this.range = 7200;
    this.buttons = RANGES.map(([name, seconds]) => h("button", { type: "button", "aria-pressed": String(seconds === this.range), onclick: () => this.choose(seconds) }, name));
    this.choice = h("div", { class: "choice", role: "group", "aria-label": "How much time" }, this.buttons);
    this.root = put(root, h("h1", null, "Ledger"));
    this.body = h("div", { class: "pile" });
    root.append(this.body);
    this.timer = setInterval(() => this.refresh().catch(() => {}), 5000);
  }

  choose(seconds) {
    this.range = seconds;
    this.buttons.forEach((button, at) => button.setAttribute("aria-pressed", String(RANGES[at][1] === seconds)));
    this.refresh().catch(() => {});
  }

  over({ stretches }) {
    const shown = stretches.length ? ledgerColumns(stretches, this.means) : h("p", { class: "hint" }, "Nothing has been written down yet; look again in a minute.");
    return h("section", { class: "card", "aria-label": "Goodput over time" }, h("div", { class: "title" }, h("h2", null, "Goodput over time"), h("span", { class: "room" }), this.choice), shown);
  }

  async refresh() {
    const since = Math.floor(Date.now() - this.range * 1000) * 1000;
    const [report, told, past] = await Promise.all([get("/v1/report"), get("/v1/report/forecasts"), get(`/v1/report/history?since=${since}&points=${POINTS}`)]);
    put(this.body,
      h("div", { class: "figures" },
        figure(percent(report.goodput), "goodput", "useful work kept, of all that was installed"),
        figure(percent(report.goodput_known), "of what is known", "without jobs that report no progress"),
        figure(hours(report.installed_s), "device-hours installed"),
        figure(report.closes ? "yes" : "no", "it adds up", report.closes ? "to the second" : "please report this")),
      card("Where device time went", ledgerBar(report.total, report.installed_s, this.means, true), ledgerTable(report.total, report.installed_s, this.means)),
      this.over(past), this.queues(report), this.users(report), forecasts(told));
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

