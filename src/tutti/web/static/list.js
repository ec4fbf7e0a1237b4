// A list of jobs of any length: only the rows in sight exist, and only their pages are asked for.

import { get, jobLink } from "./api.js";
import { colourOf } from "./colours.js";
import { h, put, text } from "./dom.js";
import { ENDED, WAITS, mark, matters, sizes, spent, whole } from "./format.js";

const PAGE = 100;
const AROUND = 8;

export class JobList {
  constructor(which, reasons) {
    this.which = which;
    this.reasons = reasons;
    this.match = "";
    this.total = 0;
    this.pages = new Map();
    this.rows = new Map();
    this.spare = [];
    this.asked = new Set();
    this.at = 0;
    this.body = h("div", { class: "rows", role: "rowgroup" });
    this.count = h("span", { class: "count" });
    this.empty = h("p", { class: "empty", hidden: true });
    const heads = ["", "job", "state", "size", "whose", which === "ended" ? "ran" : "for", which === "ended" ? "how it ended" : "reason, start or nodes"];
    const head = h("div", { class: "row head", role: "row" }, heads.map((name, at) => h("span", { role: "columnheader", class: `c${at}` }, name)));
    this.grid = h("div", { class: "jobs", role: "grid", "aria-label": "Jobs", "aria-readonly": "true" }, h("div", { role: "rowgroup" }, head), this.body);
    this.element = h("div", null, this.grid, this.empty);
    this.onScroll = () => {
      if (this.frame) return;
      this.frame = requestAnimationFrame(() => {
        this.frame = 0;
        this.draw();
      });
    };
    this.onSize = () => {
      this.measured = 0;
      for (const [at, row] of this.rows) row.place(at, this.height);
      this.onScroll();
    };
    addEventListener("scroll", this.onScroll, { passive: true });
    addEventListener("resize", this.onSize, { passive: true });
    this.clock = setInterval(() => this.draw(true), 1000);
  }

  close() {
    removeEventListener("scroll", this.onScroll);
    removeEventListener("resize", this.onSize);
    clearInterval(this.clock);
  }

  async filter(words) {
    this.match = words.trim();
    this.pages.clear();
    this.at = 0;
    await this.refresh();
  }

  // Ask again for what is in sight; the rest is asked for when it comes into sight.
  async refresh() {
    const [first, last] = this.sight();
    const wanted = new Set([Math.floor(first / PAGE), Math.floor(Math.max(first, last - 1) / PAGE)]);
    for (const page of this.pages.keys()) if (!wanted.has(page)) this.pages.delete(page);
    await Promise.all([...wanted].map((page) => this.load(page)));
    this.draw();
  }

  async load(page) {
    const match = this.match;
    const query = new URLSearchParams({ which: this.which, offset: page * PAGE, limit: PAGE, ...wanted(match) });
    const answer = await get(`/v1/jobs?${query}`);
    if (match !== this.match) return;
    this.pages.set(page, answer.jobs);
    this.total = answer.total;
  }

  want(page) {
    if (this.asked.has(page)) return;
    this.asked.add(page);
    this.load(page).then(() => this.draw(), () => {}).finally(() => this.asked.delete(page));
  }

  job(at) {
    return this.pages.get(Math.floor(at / PAGE))?.[at % PAGE];
  }

  get height() {
    this.measured ||= parseFloat(getComputedStyle(this.grid).getPropertyValue("--row")) || 44;
    return this.measured;
  }

  sight() {
    const top = this.body.getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(-top / this.height) - AROUND);
    const last = Math.min(this.total || PAGE, Math.ceil((innerHeight - top) / this.height) + AROUND);
    return [Math.min(first, Math.max(0, this.total - 1)), Math.max(first, last)];
  }

  draw(quiet) {
    // Read before writing: the other way round, the browser lays the page out twice.
    const [first, last] = this.sight();
    this.body.style.height = `${this.total * this.height}px`;
    this.grid.setAttribute("aria-rowcount", this.total);
    this.grid.classList.toggle("none", this.total === 0);
    text(this.count, whole(this.total));
    this.empty.hidden = this.total > 0;
    if (!this.total) text(this.empty, this.match ? `No job is called anything like “${this.match}”.` : this.which === "ended" ? "Nothing has ended yet." : "Nothing runs and nothing waits.");
    for (const [at, row] of this.rows) {
      if (at < first || at >= last) {
        this.rows.delete(at);
        this.spare.push(row);
      }
    }
    for (let at = first; at < last; at += 1) {
      const job = this.job(at);
      if (!job && !quiet) this.want(Math.floor(at / PAGE));
      this.row(at).show(job, at === this.at, quiet);
    }
    for (const row of this.spare) row.element.hidden = true;
  }

  row(at) {
    let row = this.rows.get(at);
    if (!row) {
      row = this.spare.pop() || new Row(this);
      if (!row.element.parentNode) this.body.append(row.element);
      row.element.hidden = false;
      row.job = null;
      row.place(at, this.height);
      this.rows.set(at, row);
    }
    return row;
  }

  move(by) {
    if (!this.total) return;
    this.at = Math.min(this.total - 1, Math.max(0, this.at + by));
    const top = this.body.getBoundingClientRect().top + this.at * this.height;
    if (top < 90) scrollBy(0, top - 90);
    else if (top + this.height > innerHeight - 10) scrollBy(0, top + this.height - innerHeight + 10);
    this.draw();
    this.rows.get(this.at)?.link.focus({ preventScroll: true });
  }

  get chosen() {
    return this.job(this.at);
  }
}

// What was typed: part of a name, and user:NAME or queue:NAME.
function wanted(words) {
  const found = {};
  const rest = words.split(/\s+/).filter((word) => {
    const [, key, value] = /^(user|queue):(.+)$/.exec(word) || [];
    if (key) found[key] = value;
    return !key;
  });
  return rest.join(" ") ? { ...found, match: rest.join(" ") } : found;
}

class Row {
  constructor(list) {
    this.list = list;
    this.job = null;
    this.swatch = h("i", { class: "swatch", "aria-hidden": "true" });
    this.link = h("a", { class: "name", tabindex: "-1" });
    this.state = h("span", { class: "state" });
    this.cells = [0, 1, 2, 3, 4, 5, 6].map((at) => h("span", { role: "gridcell", class: `c${at}` }));
    this.cells[0].append(this.swatch);
    this.cells[1].append(this.link);
    this.cells[2].append(this.state);
    this.element = h("div", { class: "row", role: "row" }, this.cells);
    this.element.addEventListener("click", (event) => {
      if (!event.target.closest("a") && !getSelection().toString()) this.link.click();
    });
  }

  place(at, height) {
    this.element.style.transform = `translateY(${at * height}px)`;
    this.element.setAttribute("aria-rowindex", at + 2);
  }

  // Most rows are as they were: a frame of scrolling touches only those that come into sight.
  show(job, chosen, tick) {
    if (this.chosen !== chosen) {
      this.chosen = chosen;
      this.element.classList.toggle("chosen", chosen);
      this.element.setAttribute("aria-selected", chosen);
      this.link.tabIndex = chosen ? 0 : -1;
    }
    if (this.job === job && !tick) return;
    this.job = job;
    this.element.classList.toggle("coming", !job);
    if (!job) return;
    this.sign(job);
    if (this.name !== job.name) {
      this.name = job.name;
      this.link.textContent = job.name;
      this.link.setAttribute("href", jobLink(job.name));
    }
    text(this.cells[3], sizes(job));
    text(this.cells[4], job.queue === "default" ? job.user : `${job.queue} · ${job.user}`);
    text(this.cells[5], spent(job));
    this.last(job);
  }

  sign(job) {
    const live = !WAITS.has(job.state) && !ENDED.has(job.state);
    const key = `${job.state} ${live ? colourOf(job.name) : ""}`;
    if (this.signed === key) return;
    this.signed = key;
    this.swatch.className = live ? `swatch gang-${colourOf(job.name)}` : "swatch hollow";
    this.state.className = `state ${job.state}`;
    this.state.textContent = `${mark(job.state)} ${job.state}`;
  }

  last(job) {
    const { token, words } = matters(job);
    const key = `${token} ${words}`;
    if (this.key === key) return;
    this.key = key;
    const progress = job.steps ? `step ${whole(job.step)} of ${whole(job.steps)}` : "";
    put(this.cells[6], token ? h("span", { class: "token", title: this.list.reasons[token] || "" }, token) : null, token ? " " : null, [words, progress].filter(Boolean).join(" · "));
  }
}
