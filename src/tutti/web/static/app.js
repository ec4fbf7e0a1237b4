// The page: which view is shown, the keys, the theme, and whether we are live.

import { get, keepToken, takeToken } from "./api.js";
import { Cluster } from "./cluster.js";
import { forget } from "./colours.js";
import { h, hideTip, put } from "./dom.js";
import { History } from "./history.js";
import { JobPage } from "./job.js";
import { Ledger } from "./ledger.js";
import { Live } from "./live.js";
import { Now } from "./now.js";
import { Submit } from "./submit.js";
import { Timeline } from "./timeline.js";

const VIEWS = { "": Now, timeline: Timeline, ledger: Ledger, cluster: Cluster, history: History, submit: Submit };
const TITLES = { "": "Now", timeline: "Timeline", ledger: "Ledger", cluster: "Cluster", history: "History", submit: "Submit" };
const root = document.getElementById("main");
const live = new Live(shown);
let view = null;
let deep = 0;
let hello = null;

function shown(state) {
  const box = document.getElementById("live");
  box.className = `live ${state}`;
  box.querySelector("span").textContent = state === "live" ? (hello?.may_change ? "live" : "live, read-only") : "reconnecting";
}

function route() {
  // Who goes somewhere before the greeting is there is shown the place when it comes.
  if (!hello) return;
  const parts = location.pathname.split("/").filter(Boolean);
  const page = parts[0] || "";
  view?.close();
  hideTip();
  for (const link of document.querySelectorAll("[data-page]")) {
    if (link.dataset.page === page) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const own = document.createElement("div");
  put(root, own);
  const parts_ = { root: own, go, hello, again: go };
  view = page === "jobs" ? new JobPage({ ...parts_, name: decodeURIComponent(parts[1] || "") }) : new (VIEWS[page] || Now)(parts_);
  document.title = page === "jobs" ? `${decodeURIComponent(parts[1] || "")} · Tutti` : `${TITLES[page] || "Now"} · Tutti`;
  live.show(view);
}

function go(path) {
  history.pushState(null, "", path);
  deep += 1;
  route();
  scrollTo(0, 0);
  root.focus({ preventScroll: true });
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href]");
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
  const target = new URL(link.href);
  if (target.origin !== location.origin || link.getAttribute("href").startsWith("#")) return;
  event.preventDefault();
  go(target.pathname);
});
addEventListener("popstate", () => {
  deep = Math.max(0, deep - 1);
  route();
});
addEventListener("hashchange", () => {
  if (!location.hash.startsWith("#token=")) return;
  takeToken();
  start();
});

// -- theme

function turn() {
  const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("tutti.theme", dark ? "light" : "dark");
  forget();
  view?.gantt?.later();
}
document.getElementById("theme").addEventListener("click", turn);

// -- keys

const KEYS = [
  ["j k", "next and previous job in a list"], ["Enter", "open it"], ["/", "filter by part of a name, user:NAME, queue:NAME"], ["Esc", "leave a field, close, go back"],
  ["n", "now"], ["i", "timeline"], ["l", "ledger"], ["c", "cluster"], ["h", "history"], ["s", "submit"], ["t", "light or dark"], ["?", "this list"],
];
const GOTO = { n: "/", i: "/timeline", l: "/ledger", c: "/cluster", h: "/history", s: "/submit" };

function help() {
  const words = [
    ["gang", "a job as the scheduler sees it: its members start together or not at all"], ["rank", "one member of a gang"],
    ["goodput", "useful work kept, over what the devices could have done"], ["promise", "a start that was given to a gang, and is kept"],
    ["drain", "give a device nothing new; what runs may finish"],
  ];
  const box = h("dialog", { class: "question wide", "aria-label": "Keys and words" },
    h("h2", null, "Keys"), h("dl", { class: "numbers" }, KEYS.map(([key, what]) => [h("dt", null, key.split(" ").map((one) => [h("kbd", null, one), " "])), h("dd", null, what)])),
    h("h2", null, "Words"), h("dl", { class: "numbers" }, words.map(([word, what]) => [h("dt", null, word), h("dd", null, what)])),
    h("div", { class: "buttons" }, h("button", { type: "button", class: "strong", onclick: () => box.close() }, "Close")));
  box.addEventListener("close", () => box.remove());
  document.body.append(box);
  box.showModal();
}
document.getElementById("help").addEventListener("click", help);

document.addEventListener("keydown", (event) => {
  if (event.metaKey || event.ctrlKey || event.altKey || document.querySelector("dialog[open]")) return;
  const typing = event.target.closest("input, textarea, select");
  if (event.key === "Escape") return escape(typing);
  if (typing) return;
  const order = { j: () => view?.list?.move(1), k: () => view?.list?.move(-1), "/": search, "?": help, t: turn }[event.key];
  if (order) order();
  else if (event.key === "Enter" && view?.list?.chosen && !event.target.closest("a, button, canvas")) go(`/jobs/${encodeURIComponent(view.list.chosen.name)}`);
  else if (GOTO[event.key] && !event.target.closest("canvas")) go(GOTO[event.key]);
  else return;
  event.preventDefault();
});

function search() {
  if (!view?.search) go("/");
  view?.search?.focus();
  view?.search?.select();
}

function escape(typing) {
  hideTip();
  if (typing) {
    if (typing.type === "search" && typing.value) {
      typing.value = "";
      typing.dispatchEvent(new Event("input"));
    }
    typing.blur();
  } else if (location.pathname.startsWith("/jobs/")) deep ? history.back() : go("/");
}

// -- the start

async function start() {
  try {
    hello = await get("/page/hello");
  } catch (problem) {
    if (problem.status === 401) return signIn();
    shown("away");
    return setTimeout(start, 1000);
  }
  live.rest();
  route();
  live.listen();
}

function signIn() {
  const field = h("input", { type: "password", autocomplete: "off", "aria-label": "Token", placeholder: "token" });
  const form = h("form", { class: "fields" }, field, h("button", { class: "strong", type: "submit" }, "Go on"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    keepToken(field.value);
    start();
  });
  put(root, h("section", { class: "card signin" }, h("h1", null, "Whose page is this?"), h("p", null, "Open the address that ", h("code", null, "tutti serve"), " prints: it carries the token. Or paste the token here; it is in the file ", h("code", null, "token"), " of the scheduler’s home."), form));
}

takeToken();
start();
