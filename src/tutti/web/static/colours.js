// A colour for each gang: nine that people with any kind of colour vision can tell apart, and never the only sign.

export const COUNT = 9;
const given = new Map();
const used = new Array(COUNT).fill(0);

function hash(name) {
  let value = 2166136261;
  for (let at = 0; at < name.length; at += 1) value = Math.imul(value ^ name.charCodeAt(at), 16777619);
  return value >>> 0;
}

// Gangs that run now get different colours as far as there are enough; those of the past get that of their name.
export function running(names) {
  const now = new Set(names);
  for (const [name, colour] of given) {
    if (!now.has(name)) {
      given.delete(name);
      used[colour] -= 1;
    }
  }
  for (const name of [...now].filter((one) => !given.has(one)).sort()) {
    const first = hash(name) % COUNT;
    const least = Math.min(...used);
    let colour = first;
    while (used[colour] > least) colour = (colour + 1) % COUNT;
    given.set(name, colour);
    used[colour] += 1;
  }
}

export const colourOf = (name) => given.get(name) ?? hash(name) % COUNT;

let read = null;

// The colours of the theme in force, for canvases.
export function inks() {
  if (read) return read;
  const probe = document.createElement("i");
  document.body.append(probe);
  const of = (variable) => {
    probe.style.color = `var(${variable})`;
    return getComputedStyle(probe).color;
  };
  read = { gangs: [], on: [] };
  for (let at = 0; at < COUNT; at += 1) {
    read.gangs.push(of(`--gang-${at}`));
    read.on.push(of(`--on-${at}`));
  }
  for (const name of ["ink", "soft", "faint", "line", "paper", "card", "accent"]) read[name] = of(`--${name}`);
  probe.remove();
  return read;
}

export function forget() {
  read = null;
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", forget);
