// The timeline page: the Gantt, its scale, and the same as a table.

import { get, jobLink } from "./api.js";
import { running } from "./colours.js";
import { h, put, table } from "./dom.js";
import { clock, span, whole } from "./format.js";
import { Gantt } from "./gantt.js";

const RANGES = [["5 min", 300], ["30 min", 1800], ["2 h", 7200], ["12 h", 43200], ["2 d", 172800], ["14 d", 1209600]];
const SECOND = 1e6;
const SHOWN = 200;
const MOST = 2000;

export class Timeline {
  constructor({ root, go }) {
    this.gantt = new Gantt(go, () => this.ask());
    this.note = h("p", { class: "hint", "aria-live": "polite" });
    this.rows = h("div");
    this.buttons = RANGES.map(([name, seconds]) => h("button", { type: "button", "aria-pressed": "false", onclick: () => this.choose(seconds) }, name));
    this.more = h("details", { ontoggle: () => this.list() }, h("summary", null, "The same as a table"), this.rows);
    put(root,
      h("div", { class: "title" }, h("h1", null, "Timeline"), h("span", { class: "room" }), h("div", { class: "choice", role: "group", "aria-label": "How much time" }, this.buttons)),
      h("section", { class: "card flush", "aria-label": "Timeline" }, this.gantt.element),
      h("p", { class: "hint" }, "Solid is the past, pale is expected, hatched is promised. Drag or arrow keys to move, Ctrl and wheel or + and – to zoom, 0 back to now."), this.note, this.more);
    this.answer = { bars: [], cut: false };
    this.first = true;
  }

  choose(seconds) {
    this.buttons.forEach((button, at) => button.setAttribute("aria-pressed", RANGES[at][1] === seconds));
    this.gantt.last(seconds, 0.25);
  }

  // Moving and zooming ask for the stretch in sight, once the hand rests.
  ask() {
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.refresh().catch(() => {}), 150);
  }

  async refresh() {
    if (this.first) await this.scale();
    const [from, to] = this.gantt.range;
    const spare = (to - from) / 4;
    const since = Math.max(1, Math.floor(from - spare));
    const [nodes, answer, jobs] = await Promise.all([get("/v1/nodes"), get(`/v1/timeline?since=${since}&until=${Math.ceil(to + spare)}&limit=${MOST}`), get("/v1/jobs?limit=1000")]);
    const ends = new Map(jobs.jobs.map((job) => [job.name, job.started_us ? job.eta_us : 0]));
    running(nodes.nodes.flatMap((node) => node.devices).map((device) => device.job).filter(Boolean));
    this.answer = answer;
    for (const bar of answer.bars) if (!bar.ended_us && !bar.promised) bar.expect_us = ends.get(bar.job) || 0;
    this.gantt.show(nodes.nodes, answer.bars);
    put(this.note, answer.cut ? `More happened in this time than is drawn; the latest ${whole(answer.bars.length)} stretches are shown.` : "");
    this.list();
  }

  // At first: as much time as there is something to see in.
  async scale() {
    this.first = false;
    const { bars, now_us: now } = await get("/v1/timeline?limit=400");
    const begun = Math.min(now - 60 * SECOND, ...bars.map((bar) => bar.begun_us));
    const end = Math.max(now + 60 * SECOND, ...bars.map((bar) => bar.ended_us || 0));
    const past = Math.min(now - begun, 43200 * SECOND) * 1.05;
    const future = Math.min(end - now, Math.max(4 * past, 1800 * SECOND)) * 1.1;
    this.gantt.last((past + future) / SECOND, future / (past + future));
    clearTimeout(this.waiting);
  }

  list() {
    if (!this.more.open) return;
    const heads = [{ name: "job" }, { name: "node" }, { name: "devices", number: true }, { name: "from", number: true }, { name: "to", number: true }, { name: "for", number: true }, { name: "" }];
    const bars = this.answer.bars.slice(0, SHOWN);
    const rows = bars.map((bar) => [h("a", { href: jobLink(bar.job) }, bar.job), bar.node, String(bar.count), clock(bar.begun_us, true), bar.ended_us ? clock(bar.ended_us, true) : "", bar.ended_us ? span((bar.ended_us - bar.begun_us) / SECOND) : "", bar.promised ? "promised" : bar.state]);
    put(this.rows, table(heads, rows, "Stretches of time"), this.answer.bars.length > SHOWN ? h("p", { class: "hint" }, `The first ${SHOWN} of ${whole(this.answer.bars.length)}.`) : null);
  }

  close() {
    this.gantt.close();
    clearTimeout(this.waiting);
  }
}
