// What changed, as it happens: one stream per visible tab. Views are refreshed at most a few times a second, and never
// before the last refresh is done; the slower an answer, the longer the pause.

import { headers } from "./api.js";

const LEAST_MS = 250;
const PATIENCE_MS = 40000;

export class Live {
  constructor(onState) {
    this.onState = onState;
    this.view = null;
    this.dirty = null;
    this.busy = false;
    this.pause = LEAST_MS;
    this.ended = 0;
    this.timer = 0;
    this.tries = 0;
    this.stop = null;
    document.addEventListener("visibilitychange", () => (document.hidden ? this.rest() : this.listen()));
  }

  show(view) {
    this.view = view;
    this.dirty = { kinds: new Set(["all"]), jobs: new Set() };
    this.later(0);
  }

  touch(kinds, jobs) {
    this.dirty ||= { kinds: new Set(), jobs: new Set() };
    for (const kind of kinds) this.dirty.kinds.add(kind);
    for (const job of jobs) this.dirty.jobs.add(job);
    this.later();
  }

  later(wait) {
    if (this.busy || (this.timer && wait === undefined)) return;
    clearTimeout(this.timer);
    const rest = wait === undefined ? Math.max(0, this.ended + this.pause - performance.now()) : wait;
    this.timer = setTimeout(() => this.refresh(), rest);
  }

  async refresh() {
    this.timer = 0;
    if (!this.dirty || !this.view || this.busy) return;
    const dirty = this.dirty;
    this.dirty = null;
    this.busy = true;
    const begun = performance.now();
    try {
      await this.view.refresh(dirty);
    } catch (problem) {
      if (problem.name !== "AbortError") this.view.failed?.(problem);
    }
    this.busy = false;
    this.ended = performance.now();
    this.pause = Math.min(5000, Math.max(LEAST_MS, 4 * (this.ended - begun)));
    if (this.dirty) this.later();
  }

  rest() {
    this.stop?.abort();
    this.stop = null;
  }

  async listen() {
    if (this.stop || document.hidden) return;
    const stop = (this.stop = new AbortController());
    try {
      const response = await fetch("/page/changes", { headers: headers(), signal: stop.signal, cache: "no-store" });
      if (!response.ok) throw new Error(String(response.status));
      if (this.tries) this.touch(["all"], []);
      this.tries = 0;
      this.onState("live");
      await this.read(response.body.getReader(), stop);
    } catch {
      // Told below: a stream that ends and one that never began look alike to a reader.
    }
    if (this.stop !== stop) return;
    stop.abort();
    this.stop = null;
    this.tries += 1;
    this.onState("away");
    setTimeout(() => this.listen(), Math.min(5000, 250 * 2 ** Math.min(this.tries, 5)));
  }

  async read(reader, stop) {
    const decoder = new TextDecoder();
    let rest = "";
    let patience = 0;
    for (;;) {
      clearTimeout(patience);
      patience = setTimeout(() => stop.abort(), PATIENCE_MS);
      const { done, value } = await reader.read();
      if (done) break;
      rest += decoder.decode(value, { stream: true });
      const parts = rest.split("\n\n");
      rest = parts.pop();
      for (const part of parts) this.heard(part);
    }
    clearTimeout(patience);
  }

  heard(part) {
    const line = part.split("\n").find((one) => one.startsWith("data: "));
    if (!line) return;
    const told = JSON.parse(line.slice(6));
    this.touch(told.many ? [...told.kinds, "all"] : told.kinds, told.jobs);
  }
}
