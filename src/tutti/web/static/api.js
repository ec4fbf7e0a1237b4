// Requests. The token comes after the # of the printed address, stays in this tab, and goes into a header of each
// request: no cookie, so that nobody else's page can send it for us.

const KEY = "tutti.token";

export function takeToken() {
  const found = /^#token=([\w.~-]+)$/.exec(location.hash);
  if (found) {
    sessionStorage.setItem(KEY, found[1]);
    history.replaceState(null, "", location.pathname + location.search);
  }
}

export const keepToken = (token) => sessionStorage.setItem(KEY, token.trim());

export class Problem extends Error {
  constructor(status, said) {
    super(said.error || `the daemon answered ${status}`);
    this.status = status;
    this.hint = said.hint || "";
    this.where = said.where || "";
  }

  get words() {
    return [this.message, this.where, this.hint && `Try: ${this.hint}`].filter(Boolean).join(" · ");
  }
}

export function headers() {
  const token = sessionStorage.getItem(KEY);
  return token ? { Authorization: `Bearer ${token}` } : {};
}

export async function get(path, signal) {
  return answer(await reach(path, { headers: headers(), signal, cache: "no-store" }));
}

export async function post(path, body) {
  const head = { ...headers(), "Content-Type": "application/json" };
  return answer(await reach(path, { method: "POST", headers: head, body: JSON.stringify(body || {}) }));
}

async function reach(path, options) {
  try {
    return await fetch(path, options);
  } catch (problem) {
    if (problem.name === "AbortError") throw problem;
    throw new Problem(0, { error: "the daemon cannot be reached", hint: "tutti serve" });
  }
}

async function answer(response) {
  const said = await response.json().catch(() => ({}));
  if (!response.ok) throw new Problem(response.status, said);
  return said;
}

export const jobPath = (name, ...rest) => ["/v1/jobs", encodeURIComponent(name), ...rest].join("/");
export const jobLink = (name) => `/jobs/${encodeURIComponent(name)}`;
