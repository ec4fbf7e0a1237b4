// A job, written on the page: the keys of a job file. It runs in the daemon's environment.

import { jobLink, post } from "./api.js";
import { card, h, put } from "./dom.js";

const KEEP = "tutti.folder";

export class Submit {
  constructor({ root, hello, go }) {
    this.go = go;
    this.hello = hello;
    this.result = h("div", { "aria-live": "polite" });
    this.command = h("textarea", { name: "command", rows: 3, required: true, spellcheck: "false", placeholder: "python train.py --epochs 3", "aria-label": "Command" });
    const field = (name, words, placeholder, more) => h("label", { class: "field" }, h("span", null, words), h("input", { name, placeholder, autocomplete: "off", spellcheck: "false", ...more }));
    const queues = h("label", { class: "field" }, h("span", null, "queue"), h("select", { name: "queue" }, hello.queues.map((queue) => h("option", { value: queue, selected: queue === "default" }, queue))));
    this.form = h("form", { class: "submit" },
      h("label", { class: "field wide" }, h("span", null, "command (given to the shell)"), this.command),
      field("workers", "workers (4, or 2:8)", "1", { inputmode: "numeric" }), field("gpus", "devices each", "1", { inputmode: "numeric" }),
      field("time", "may run", "2h30m"), field("name", "name", "made up"), queues, field("priority", "priority", "0", { inputmode: "numeric" }),
      field("cwd", "folder", hello.cwd, { value: localStorage.getItem(KEEP) || "" }),
      h("div", { class: "buttons wide" }, h("button", { type: "button", onclick: () => this.send(true) }, "What would happen"), h("button", { class: "strong", type: "submit" }, "Submit")));
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.send(false);
    });
    put(root, h("h1", null, "Submit a job"), card("What it is", hello.may_change ? this.form : h("p", { class: "lead" }, "This tab may only look. Open the address that ", h("code", null, "tutti serve"), " prints to submit from here.")), this.result);
    if (hello.may_change) this.command.focus();
  }

  read() {
    const job = { command: this.command.value.trim() };
    for (const name of ["workers", "gpus", "time", "name", "queue", "priority"]) {
      const value = this.form.elements[name].value.trim();
      if (value) job[name] = /^-?\d+$/.test(value) && name !== "name" ? Number(value) : value;
    }
    return { job, cwd: this.form.elements.cwd.value.trim() };
  }

  async send(plan) {
    const sent = this.read();
    if (!sent.job.command) return this.command.focus();
    localStorage.setItem(KEEP, sent.cwd);
    try {
      const answer = await post("/page/jobs", { ...sent, plan });
      if (!plan) return this.go(jobLink(answer.jobs[0].name));
      put(this.result, card(answer.fits ? "It would start now" : "It would wait", h("pre", { tabindex: "0" }, answer.lines.join("\n"))));
    } catch (problem) {
      put(this.result, h("section", { class: "card wrong", role: "alert" }, h("p", { class: "lead" }, problem.message), problem.hint ? h("p", null, "Try: ", h("code", null, problem.hint)) : null));
    }
  }

  async refresh() {}

  close() {}
}
