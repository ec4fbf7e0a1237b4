// Output of a rank as it is written. What is shown is bounded, whatever a job writes.

import { get, jobPath } from "./api.js";
import { h, put, text } from "./dom.js";
import { bytes, plain } from "./format.js";

const MOST = 400000;
const TAIL = 65536;
const EVERY_MS = 1000;

export class Output {
  constructor(name) {
    this.name = name;
    this.rank = -1;
    this.next = -1;
    this.over = false;
    this.shown = "";
    this.select = h("select", { "aria-label": "Rank", onchange: () => this.choose(Number(this.select.value)) });
    this.follow = h("input", { type: "checkbox", checked: true, id: "follow" });
    this.size = h("span", { class: "hint" });
    this.pre = h("pre", { class: "output", tabindex: "0", "aria-label": "Output" });
    this.element = h("div", null,
      h("div", { class: "tools" }, h("label", null, "rank ", this.select), h("label", { for: "follow" }, this.follow, " follow"), h("span", { class: "room" }), this.size), this.pre);
    this.timer = setInterval(() => this.load(), EVERY_MS);
  }

  close() {
    clearInterval(this.timer);
  }

  job(page) {
    const ranks = page.ranks.map((one) => one.rank);
    const key = ranks.join(",");
    if (key !== this.ranks) {
      this.ranks = key;
      put(this.select, ranks.map((rank) => h("option", { value: String(rank) }, String(rank))));
      if (this.rank >= 0) this.select.value = String(this.rank);
    }
    if (page.runs !== this.runs) this.over = false;
    this.runs = page.runs;
    this.load();
  }

  choose(rank) {
    this.rank = rank;
    this.select.value = String(rank);
    this.next = -1;
    this.over = false;
    this.shown = "";
    this.load();
  }

  async load() {
    if (this.busy || this.over || document.hidden) return;
    this.busy = true;
    const asked = this.rank;
    try {
      const from = this.next < 0 ? `tail=${TAIL}` : `begin=${this.next}&tail=${TAIL}`;
      const answer = await get(`${jobPath(this.name, "logs")}?rank=${asked}&${from}`);
      if (asked === this.rank) this.show(answer);
    } catch (problem) {
      // A job that has not started has no output; the next try comes soon. Somebody else's is theirs.
      if (problem.status === 409) this.refuse(problem);
    }
    this.busy = false;
  }

  refuse(problem) {
    this.over = true;
    text(this.pre, problem.words);
    this.pre.classList.add("none");
  }

  show(answer) {
    if (this.rank < 0) this.rank = answer.rank;
    if (answer.size < this.next) this.shown = "";
    const first = this.next < 0;
    this.next = answer.next;
    this.over = answer.ended && answer.next >= answer.size;
    this.select.value = String(answer.rank);
    text(this.size, answer.begin > 0 && first ? `the last ${bytes(answer.size - answer.begin)} of ${bytes(answer.size)}` : bytes(answer.size));
    if (answer.text || first) this.write(answer.text);
    if (answer.next < answer.size) setTimeout(() => this.load(), 50);
  }

  write(more) {
    this.shown = plain(this.shown + more).slice(-MOST);
    const close = this.pre.scrollHeight - this.pre.scrollTop - this.pre.clientHeight < 60;
    text(this.pre, this.shown || "Nothing has been written.");
    this.pre.classList.toggle("none", !this.shown);
    if (this.follow.checked && (close || !this.once)) this.pre.scrollTop = this.pre.scrollHeight;
    this.once = true;
  }
}
