// One job: what it is, why it waits, what happened to it, its ranks, its output, its speed.

import { get, jobLink, jobPath, post } from "./api.js";
import { colourOf, running } from "./colours.js";
import { ask, card, h, put, s, say, table, text } from "./dom.js";
import { ENDED, WAITS, away, bytes, clock, hours, mark, sizes, span, spent, whole } from "./format.js";
import { ledgerBar, ledgerTable } from "./ledger.js";
import { Output } from "./output.js";

const SHOWN = 32;
// Futures are simulated for this answer: it is not asked for at every change elsewhere.
const WHY_MS = 4000;

export class JobPage {
  constructor({ root, hello, name, again }) {
    this.name = name;
    this.hello = hello;
    this.again = again;
    this.head = h("div", { class: "jobhead" });
    this.heard = h("p", { class: "unseen", role: "status" });
    this.facts = h("dl", { class: "facts" });
    this.why = h("div");
    this.story = h("ol", { class: "story" });
    this.ranks = h("div");
    this.speed = h("div");
    this.extra = h("div", { class: "pile" });
    this.output = new Output(name);
    this.outputCard = card("Output", this.output.element);
    this.ranksCard = card("Ranks", this.ranks);
    put(root, this.heard, this.head, this.facts, this.why,
      (this.columns = h("div", { class: "columns" }, h("div", null, this.outputCard), h("div", null, card("Story", this.story), this.ranksCard, this.speed))),
      this.extra);
    this.clock = setInterval(() => this.job && this.tick(), 1000);
    this.whyKey = "";
    this.whyAt = 0;
  }

  async refresh(dirty) {
    const mine = !dirty || dirty.kinds.has("all") || dirty.jobs.has(this.name) || !this.job || WAITS.has(this.job.state);
    if (!mine) return;
    const [page, story, nodes] = await Promise.all([get(jobPath(this.name)), get(jobPath(this.name, "story")), this.job ? null : get("/v1/nodes")]);
    // Its colour is that of the map, whichever page was opened first.
    if (nodes) running(nodes.nodes.flatMap((node) => node.devices).map((device) => device.job).filter(Boolean));
    this.page = page;
    this.job = page.job;
    document.title = `${this.job.name} · ${this.job.state} · Tutti`;
    this.showHead();
    this.tick();
    this.showStory(story.events);
    this.showRanks(page.ranks);
    this.showSpeed(page.speed);
    this.showExtra(page);
    this.ranksCard.hidden = page.runs === 0;
    this.columns.classList.toggle("alone", page.runs === 0);
    this.output.job(page);
    this.stale = true;
    const mineNow = !dirty || dirty.kinds.has("all") || dirty.jobs.has(this.name);
    if (mineNow || performance.now() - this.whyAt > WHY_MS) await this.showWhy();
  }

  showHead() {
    const job = this.job;
    const key = `${job.state}${this.hello.may_change}`;
    if (this.headKey === key) return;
    this.headKey = key;
    text(this.heard, `${job.name} is ${job.state}`);
    const live = !WAITS.has(job.state) && !ENDED.has(job.state);
    put(this.head,
      h("i", { class: live ? `swatch big gang-${colourOf(job.name)}` : "swatch big hollow", "aria-hidden": "true" }),
      h("h1", null, job.name), h("span", { class: `state ${job.state}` }, `${mark(job.state)} ${job.state}`),
      h("span", { class: "room" }), h("div", { class: "buttons" }, this.orders()));
  }

  orders() {
    if (!this.hello.may_change) return null;
    const { state } = this.job;
    const button = (verb, label, how) => h("button", { type: "button", class: verb === "cancel" ? "danger" : "", onclick: () => this.order(verb, how) }, label);
    if (ENDED.has(state)) return [button("retry", "Run again")];
    return [
      state === "held" ? button("release", "Release") : WAITS.has(state) ? button("hold", "Hold") : null,
      button("cancel", "Cancel", { danger: true }),
    ];
  }

  async order(verb, how) {
    const name = this.name;
    if (how?.danger) {
      const yes = await ask(`Cancel ${name}?`, WAITS.has(this.job.state) ? "It has not started; it will not." : `Its ${this.job.members} members are told to end, and are ended after their grace.`, { verb: "Cancel the job", cancel: "Let it be", danger: true });
      if (!yes) return;
    }
    try {
      const answer = await post(jobPath(name, verb), {});
      say(answer.said || `${verb}: done`);
      if (verb === "retry" && answer.names?.[0] && answer.names[0] !== name) return this.again(jobLink(answer.names[0]));
      await this.refresh();
    } catch (problem) {
      say(problem.words || String(problem), true);
    }
  }

  tick() {
    const job = this.job;
    if (this.stale && WAITS.has(job.state) && performance.now() - this.whyAt > WHY_MS) this.showWhy().catch(() => {});
    const facts = [
      ["size", sizes(job) + resizes(job.elastic)],
      ["devices", String(job.devices)],
      [WAITS.has(job.state) ? "waits for" : ENDED.has(job.state) ? "ran" : "runs for", spent(job)],
      ["queue", job.queue + (job.priority ? ` · priority ${job.priority}` : "")],
      ["by", job.user],
      ["submitted", clock(job.submitted_us)],
    ];
    if (job.eta_us) facts.push([WAITS.has(job.state) ? "starts" : "ends", `${clock(job.eta_us)}, ${away(job.eta_us)}`]);
    if (job.limit_s) facts.push(["may run", span(job.limit_s)]);
    if (job.placed) facts.push(["on", job.placed]);
    if (job.steps || job.step) facts.push(["step", `${whole(job.step)}${job.steps ? ` of ${whole(job.steps)}` : ""}${job.rate ? ` · ${job.rate.toFixed(2)}/s` : ""}`]);
    if (job.restarts) facts.push(["restarts", String(job.restarts)]);
    if (ENDED.has(job.state)) facts.push(["ended", `${clock(job.ended_us)}${job.code ? ` · exit code ${job.code}` : ""}`]);
    const key = facts.flat().join("|");
    if (key === this.factKey) return;
    this.factKey = key;
    put(this.facts, facts.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))));
  }

  async showWhy() {
    const job = this.job;
    if (!WAITS.has(job.state)) {
      const words = ENDED.has(job.state) ? job.why : "";
      put(this.why, words ? card("How it ended", h("p", { class: "lead" }, words)) : null);
      this.whyKey = "";
      return;
    }
    this.stale = false;
    this.whyAt = performance.now();
    const answer = await get(jobPath(this.name, "why"));
    const key = answer.lines.slice(1).join("\n");
    if (key === this.whyKey) return;
    this.whyKey = key;
    put(this.why, this.explained(answer));
  }

  explained(answer) {
    const [, ...lines] = answer.lines;
    const rows = lines.map((line) => /^ {2}(\S.*?) {2,}(.*)$/.exec(line) || [null, "", line.trim()]);
    const told = rows.filter(([, label]) => !label).map(([, , words]) => words);
    // What would start it is told below, with a button where it can be done.
    const numbers = rows.filter(([, label]) => label && label !== "to start now" && label !== "ask for");
    const remedies = answer.explanation.remedies || [];
    return card("Why it waits",
      h("p", { class: "lead" }, answer.token ? [h("span", { class: "token", title: this.hello.reasons[answer.token] || "" }, answer.token), " "] : null, told[0] || "", inLine(answer.explanation) ? h("span", { class: "hint" }, ` ${inLine(answer.explanation)}`) : null),
      h("dl", { class: "numbers" }, numbers.map(([, label, words]) => [h("dt", null, label), h("dd", null, words)])),
      remedies.length ? [h("h3", null, "What would start it"), h("ul", { class: "remedies" }, remedies.map((one) => this.remedy(one)))] : null,
      told.slice(1).map((words) => h("p", { class: "hint" }, words)));
  }

  remedy(one) {
    const whose = { owner: "you can", admin: "ask an administrator", nobody: "by itself" }[one.who] || one.who;
    const when = one.expected_in_s !== undefined ? ` (expected in ${span(one.expected_in_s)})` : "";
    const change = one.who === "owner" && this.hello.may_change ? /^(workers|time|priority|within|queue|expect) = (\S+)$/.exec(one.short) : null;
    const apply = change ? h("button", { type: "button", onclick: () => this.apply(change[1], change[2]) }, "Do it") : null;
    return h("li", null, h("span", { class: "who" }, whose), h("span", null, one.who === "nobody" ? null : [h("code", null, one.short), " "], `${one.says}${when}`), apply);
  }

  async apply(key, value) {
    const bare = value.replace(/^"(.*)"$/, "$1");
    const sent = /^\d+$/.test(bare) ? Number(bare) : bare;
    try {
      say((await post(jobPath(this.name, "update"), { set: { [key]: sent } })).said || "changed");
      await this.refresh();
    } catch (problem) {
      say(problem.words || String(problem), true);
    }
  }

  showStory(events) {
    if (this.told === events.length) return;
    this.told = events.length;
    const first = events[0]?.at_us || 0;
    const shown = events.slice(-200);
    put(this.story,
      events.length > shown.length ? h("li", { class: "hint" }, `${events.length - shown.length} earlier entries are left out`) : null,
      shown.map((one) => h("li", { class: one.kind }, h("time", { datetime: one.at, title: one.at }, clock(one.at_us, true)), h("span", { class: "after" }, one.at_us > first ? `+${span((one.at_us - first) / 1e6)}` : ""), h("span", null, one.text))));
  }

  showRanks(ranks) {
    const key = JSON.stringify(ranks.map((one) => [one.rank, one.node, one.devices, one.pid, one.code])) + this.all;
    if (this.rankKey === key) return;
    this.rankKey = key;
    if (!ranks.length) return put(this.ranks, h("p", { class: "hint" }, "It has no members now."));
    const heads = [{ name: "rank", number: true }, { name: "role" }, { name: "where" }, { name: "pid", number: true }, { name: "output", number: true }, { name: "" }];
    const rows = (this.all ? ranks : ranks.slice(0, SHOWN)).map((one) => [
      h("button", { type: "button", class: "link", onclick: () => this.output.choose(one.rank) }, String(one.rank)),
      one.role, one.node ? `${one.node}:${one.devices.join(",")}` : "", one.pid ? String(one.pid) : "", bytes(one.log_bytes), one.code === null || one.code === undefined ? "" : `exit ${one.code}`]);
    const rest = ranks.length - SHOWN;
    put(this.ranks, table(heads, rows, "Ranks"), rest > 0 && !this.all ? h("button", { type: "button", onclick: () => ((this.all = true), this.showRanks(ranks)) }, `${rest} more`) : null);
  }

  showSpeed(speed) {
    const known = speed.filter((one) => one.rate > 0);
    put(this.speed, known.length ? card("Speed by size", chart(known)) : null);
  }

  showExtra(page) {
    const key = JSON.stringify([page.written, page.sheet && Math.round(Object.values(page.sheet).reduce((a, b) => a + b, 0) / 5)]);
    if (key === this.extraKey) return;
    this.extraKey = key;
    const sheet = page.sheet || {};
    const sum = Object.values(sheet).reduce((total, one) => total + one, 0);
    const written = Object.entries(page.written).map(([name, value]) => `${name} = ${JSON.stringify(value)}`).join("\n");
    const variables = Object.entries(page.variables || {}).sort().map(([name, value]) => `${name}=${value}`).join("\n");
    put(this.extra,
      sum ? card(`Its device time: ${hours(sum)} h`, ledgerBar(sheet, sum, this.hello.means, true), ledgerTable(sheet, sum, this.hello.means)) : null,
      card("As it was written", h("pre", { tabindex: "0" }, written), h("p", { class: "hint" }, `in ${page.cwd}${started(page.runs)}; output in ${page.log_folder}`),
        variables ? h("details", null, h("summary", null, "Environment of rank 0"), h("pre", { tabindex: "0" }, variables)) : null));
  }

  failed(problem) {
    if (problem.status === 404) put(document.getElementById("main"), h("div", { class: "lost" }, h("p", { class: "figure" }, "404"), h("h1", null, problem.message), h("p", null, h("a", { class: "button", href: "/" }, "To the start page"))));
    else text(document.querySelector("#live span"), problem.message);
  }

  close() {
    clearInterval(this.clock);
    this.output.close();
  }
}

function resizes(elastic) {
  if (elastic === "loose") return " · members come one by one";
  return elastic ? ` · elastic, ${elastic}` : "";
}

function inLine({ position, in_line: all, queue }) {
  return position ? `Number ${position} of ${all} in line in queue ${queue}.` : "";
}

function chart(known) {
  const most = Math.max(...known.map((one) => one.rate));
  const wide = 44;
  const bars = known.map((one, at) => {
    const high = Math.max(2, (one.rate / most) * 90);
    return [s("rect", { x: at * wide + 8, y: 110 - high, width: wide - 14, height: high, rx: 3, class: "speedbar" }),
      s("text", { x: at * wide + wide / 2 + 1, y: 104 - high, class: "axis" }, one.rate.toPrecision(3)),
      s("text", { x: at * wide + wide / 2 + 1, y: 126, class: "axis" }, String(one.members))];
  });
  const label = known.map((one) => `${one.members} members: ${one.rate.toPrecision(3)} steps per second`).join(", ");
  return h("div", { class: "scroll" }, s("svg", { class: "speed", viewBox: `0 0 ${Math.max(220, known.length * wide + 8)} 134`, width: Math.max(220, known.length * wide + 8), height: 134, role: "img", "aria-label": label }, ...bars.flat()),
    h("p", { class: "hint" }, "steps per second, by members"));
}

const started = (runs) => (runs > 1 ? `, started ${runs} times` : runs ? ", started once" : ", not started yet");
