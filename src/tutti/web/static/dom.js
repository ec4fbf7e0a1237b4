// Elements. Text only ever becomes text: there is no way from data to markup in these files.

export function h(tag, props, ...children) {
  const element = document.createElement(tag);
  return fill(element, props, children);
}

const SVG = "http://www.w3.org/2000/svg";

export function s(tag, props, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name === "vars") for (const [key, one] of Object.entries(value)) element.style.setProperty(key, one);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// Put new children in the place of the old ones; where somebody is typing or has marked text, wait for the next time.
export function put(parent, ...children) {
  parent.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return parent;
}

export function text(element, words) {
  if (element.textContent !== words) element.textContent = words;
}

export function card(title, ...children) {
  return h("section", { class: "card", "aria-label": title }, h("h2", null, title), ...children);
}

export function table(heads, rows, caption) {
  const head = h("tr", null, heads.map((one) => h("th", { scope: "col", class: one.number ? "number" : "" }, one.name)));
  const body = rows.map((row) => h("tr", null, row.map((cell, at) => h("td", { class: heads[at].number ? "number" : "" }, cell))));
  return h("div", { class: "scroll" }, h("table", null, h("caption", { class: "unseen" }, caption || ""), h("thead", null, head), h("tbody", null, body)));
}

export function figure(value, name, more) {
  return h("div", { class: "tile" }, h("b", null, value), h("span", null, name), more ? h("small", null, more) : null);
}

// A part of a whole, with a mark where it should be; none below 0.
export function scale(part, mark, label) {
  const vars = { "--part": Math.min(1, part), "--mark": Math.min(1, Math.max(0, mark)) };
  return h("div", { class: "scale", vars, role: "img", "aria-label": label, title: label }, h("i"), mark >= 0 ? h("b") : null);
}

const tip = () => document.getElementById("tip");

export function showTip(words, x, y) {
  const box = tip();
  put(box, words.split("\n").map((line, at) => h("div", { class: at ? "" : "first" }, line)));
  box.hidden = false;
  const width = box.offsetWidth;
  const height = box.offsetHeight;
  const left = Math.min(Math.max(8, x + 12), window.innerWidth - width - 8);
  const top = y + 18 + height > window.innerHeight ? y - height - 10 : y + 18;
  box.style.transform = `translate(${left}px, ${Math.max(4, top)}px)`;
}

export function hideTip() {
  tip().hidden = true;
}

export function say(words, bad) {
  const box = document.getElementById("said");
  const one = h("div", { class: bad ? "toast bad" : "toast" }, words);
  box.append(one);
  setTimeout(() => one.remove(), bad ? 12000 : 5000);
}

// A question before something is changed. Answers the text that was given, or null.
export function ask(title, words, { verb = "Yes", cancel = "Not now", reason = "", danger = false } = {}) {
  return new Promise((done) => {
    const field = reason ? h("input", { type: "text", "aria-label": reason, placeholder: reason, maxlength: 200 }) : null;
    const box = h("dialog", { class: "question", "aria-label": title },
      h("form", { method: "dialog" },
        h("h2", null, title), h("p", null, words), field,
        h("div", { class: "buttons" },
          h("button", { type: "button", onclick: () => box.close("") }, cancel),
          h("button", { class: danger ? "strong danger" : "strong", value: "yes", type: "submit" }, verb))));
    box.addEventListener("close", () => {
      box.remove();
      done(box.returnValue === "yes" ? (field ? field.value : "yes") : null);
    });
    document.body.append(box);
    box.showModal();
    (field || box.querySelector("button.strong")).focus();
  });
}
