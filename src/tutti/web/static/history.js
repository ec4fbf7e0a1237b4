// Every job that has ended, however many there are.

import { h, put } from "./dom.js";
import { JobList } from "./list.js";

export class History {
  constructor({ root, hello }) {
    this.list = new JobList("ended", hello.reasons);
    this.search = h("input", { type: "search", placeholder: "filter  /", "aria-label": "Filter jobs by name", title: "part of a name, user:NAME, queue:NAME", oninput: () => this.filter() });
    put(root, h("div", { class: "title" }, h("h1", null, "History ", this.list.count), h("span", { class: "room" }), this.search), h("section", { class: "card", "aria-label": "Jobs that have ended" }, this.list.element));
  }

  filter() {
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.list.filter(this.search.value), 120);
  }

  refresh() {
    return this.list.refresh();
  }

  close() {
    this.list.close();
  }
}
