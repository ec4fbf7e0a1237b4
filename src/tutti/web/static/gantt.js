// The timeline, drawn: a lane per device, the past solid, promises hatched. Only what is in sight is drawn.

import { jobLink } from "./api.js";
import { colourOf, inks } from "./colours.js";
import { h, hideTip, showTip } from "./dom.js";
import { clock, nowUs, span } from "./format.js";

const SECOND = 1e6;
const LABEL = 74;
const AXIS = 28;
const STEPS = [1, 5, 15, 30, 60, 300, 900, 1800, 3600, 10800, 21600, 43200, 86400, 172800, 604800];

export class Gantt {
  constructor(go, moved) {
    this.go = go;
    this.moved = moved;
    this.bars = [];
    this.lanes = [];
    this.canvas = h("canvas", { role: "img", tabindex: "0", "aria-label": "Timeline" });
    this.spacer = h("div", { class: "spacer" });
    this.element = h("div", { class: "gantt" }, this.canvas, this.spacer);
    this.element.addEventListener("scroll", () => this.later(), { passive: true });
    this.canvas.addEventListener("pointermove", (event) => this.pointed(event));
    this.canvas.addEventListener("pointerleave", () => this.hint(null));
    this.canvas.addEventListener("pointerdown", (event) => this.grab(event));
    this.canvas.addEventListener("pointerup", (event) => this.drop(event));
    this.canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.watch = new ResizeObserver(() => this.later());
    this.watch.observe(this.element);
    this.clock = setInterval(() => this.follow(), 1000);
    this.follows = true;
    this.range = [nowUs() - 1800 * SECOND, nowUs() + 600 * SECOND];
  }

  close() {
    this.watch.disconnect();
    clearInterval(this.clock);
  }

  // Nodes give the lanes, bars what is drawn in them.
  show(nodes, bars) {
    this.lanes = [];
    this.first = new Map();
    for (const node of nodes) {
      this.first.set(node.name, [this.lanes.length, node.devices.length]);
      node.devices.forEach((device, index) => this.lanes.push({ node: node.name, index, top: index === 0, rack: node.place.join("/") }));
    }
    this.bars = bars.map((bar) => ({ ...bar, rows: [], hot: false }));
    this.seat();
    this.canvas.setAttribute("aria-label", `Timeline: ${bars.filter((bar) => !bar.promised).length} stretches of the past and ${bars.filter((bar) => bar.promised).length} promises; arrows move, + and - change the scale. The same as a table follows.`);
    this.later();
  }

  // A bar knows its devices; a promise only counts them, and gets lanes that no other promise has at the time.
  seat() {
    const taken = new Map();
    for (const bar of this.bars) {
      const [first, count] = this.first.get(bar.node) || [0, 0];
      if (!bar.promised) {
        bar.rows = bar.devices.filter((index) => index < count).map((index) => first + index);
        continue;
      }
      const end = bar.ended_us || Infinity;
      for (let index = 0; index < count && bar.rows.length < bar.count; index += 1) {
        const lane = first + index;
        const others = taken.get(lane) || [];
        if (others.some(([a, b]) => bar.begun_us < b && a < end)) continue;
        taken.set(lane, [...others, [bar.begun_us, end]]);
        bar.rows.push(lane);
      }
    }
  }

  get lane() {
    const room = this.element.clientHeight - AXIS - 4;
    return Math.max(3, Math.min(18, Math.floor(room / Math.max(1, this.lanes.length))));
  }

  later() {
    if (!this.frame) this.frame = requestAnimationFrame(() => this.draw());
  }

  follow() {
    if (!this.follows || this.held) return;
    const length = this.range[1] - this.range[0];
    const ahead = this.ahead ?? 0.25;
    this.range = [nowUs() - length * (1 - ahead), nowUs() + length * ahead];
    this.later();
  }

  x(us) {
    return LABEL + ((us - this.range[0]) / (this.range[1] - this.range[0])) * (this.width - LABEL);
  }

  us(x) {
    return this.range[0] + ((x - LABEL) / (this.width - LABEL)) * (this.range[1] - this.range[0]);
  }

  draw() {
    this.frame = 0;
    const begun = performance.now();
    const scale = Math.min(devicePixelRatio || 1, 2);
    this.width = this.element.clientWidth;
    this.height = Math.min(this.element.clientHeight, AXIS + this.lanes.length * this.lane + 4);
    this.spacer.style.height = `${Math.max(0, AXIS + this.lanes.length * this.lane - this.height + 4)}px`;
    if (this.canvas.width !== Math.round(this.width * scale) || this.canvas.height !== Math.round(this.height * scale)) {
      this.canvas.width = Math.round(this.width * scale);
      this.canvas.height = Math.round(this.height * scale);
      this.canvas.style.width = `${this.width}px`;
      this.canvas.style.height = `${this.height}px`;
    }
    const paint = this.canvas.getContext("2d");
    paint.setTransform(scale, 0, 0, scale, 0, 0);
    paint.clearRect(0, 0, this.width, this.height);
    paint.font = "11px system-ui, sans-serif";
    this.top = this.element.scrollTop;
    this.grid(paint);
    this.paintBars(paint);
    this.paintLabels(paint);
    this.paintNow(paint);
    this.spent = performance.now() - begun;
  }

  grid(paint) {
    const ink = inks();
    const seconds = (this.range[1] - this.range[0]) / SECOND;
    const step = STEPS.find((one) => (one / seconds) * (this.width - LABEL) > 76) || STEPS.at(-1);
    const shift = new Date().getTimezoneOffset() * 60;
    paint.strokeStyle = ink.line;
    paint.fillStyle = ink.soft;
    paint.textAlign = "center";
    const from = Math.ceil((this.range[0] / SECOND - shift) / step) * step + shift;
    paint.beginPath();
    for (let at = from; at * SECOND < this.range[1]; at += step) {
      const x = Math.round(this.x(at * SECOND)) + 0.5;
      paint.moveTo(x, AXIS - 6);
      paint.lineTo(x, this.height);
      if (x > LABEL + 20 && Math.abs(x - this.x(nowUs())) > 38) paint.fillText(tick(at, step), x, 15);
    }
    paint.stroke();
  }

  paintBars(paint) {
    const ink = inks();
    const lane = this.lane;
    const gap = lane > 8 ? 2 : lane > 4 ? 1 : 0.5;
    paint.save();
    paint.beginPath();
    paint.rect(LABEL, AXIS, this.width - LABEL, this.height - AXIS);
    paint.clip();
    const last = nowUs();
    this.names = [];
    for (const bar of this.bars) {
      const from = Math.max(this.x(bar.begun_us), LABEL - 4);
      const to = Math.min(this.x(bar.ended_us || (bar.promised ? this.range[1] : last)), this.width + 4);
      if (to < LABEL || from > this.width) continue;
      this.paintBar(paint, ink, bar, from, Math.max(to, from + 1), lane, gap);
      if (bar.expect_us > last) this.paintRest(paint, ink, bar, to, Math.min(this.x(bar.expect_us), this.width + 4), lane, gap);
    }
    for (const [words, x, y, colour, alpha] of this.names) {
      paint.globalAlpha = alpha;
      paint.fillStyle = colour;
      paint.fillText(words, x, y);
    }
    paint.restore();
  }

  // Neighbouring lanes of one gang are one block.
  paintBar(paint, ink, bar, from, to, lane, gap) {
    const colour = colourOf(bar.job);
    const strong = !this.hot || this.hot === bar.job;
    let start = 0;
    while (start < bar.rows.length) {
      let end = start;
      while (end + 1 < bar.rows.length && bar.rows[end + 1] === bar.rows[end] + 1) end += 1;
      const y = AXIS + bar.rows[start] * lane - this.top;
      const high = (end - start + 1) * lane - gap;
      start = end + 1;
      if (y + high < AXIS || y > this.height) continue;
      paint.globalAlpha = strong ? 1 : 0.25;
      if (bar.promised) hatch(paint, ink.gangs[colour], from, y, to - from, high);
      else {
        paint.fillStyle = ink.gangs[colour];
        box(paint, from, y, to - from, high, Math.min(3, high / 3));
        if (bar.state === "failed" || bar.state === "lost") cross(paint, ink.on[colour], to, y, high);
      }
      if (high >= 11) this.paintName(paint, ink, bar, Math.max(from, LABEL), to, y + high / 2 + 4);
    }
    paint.globalAlpha = 1;
  }

  // Inside its block where there is room, else over what is expected of it.
  paintName(paint, ink, bar, from, to, y) {
    const end = bar.expect_us ? Math.min(this.x(bar.expect_us), this.width) : to;
    const outside = to - from < 60 && end - to > to - from;
    const room = outside ? end - to : to - from;
    if (room < 34) return;
    paint.fillStyle = bar.promised || outside ? ink.ink : ink.on[colourOf(bar.job)];
    paint.textAlign = "left";
    const words = fitted(paint, bar.job, room - 10);
    if (words) this.names.push([words, (outside ? to : from) + 5, y, paint.fillStyle, paint.globalAlpha]);
  }

  // What a gang that runs is expected to need still.
  paintRest(paint, ink, bar, from, to, lane, gap) {
    paint.globalAlpha = !this.hot || this.hot === bar.job ? 0.22 : 0.08;
    paint.fillStyle = ink.gangs[colourOf(bar.job)];
    for (const row of bar.rows) {
      const y = AXIS + row * lane - this.top;
      const last = !bar.rows.includes(row + 1);
      if (y + lane >= AXIS && y <= this.height) paint.fillRect(from, y, to - from, lane - (last ? gap : 0));
    }
    paint.globalAlpha = 1;
  }

  paintLabels(paint) {
    const ink = inks();
    const lane = this.lane;
    paint.fillStyle = ink.soft;
    paint.strokeStyle = ink.line;
    paint.textAlign = "right";
    let lastY = -100;
    paint.beginPath();
    this.lanes.forEach((one, at) => {
      if (!one.top) return;
      const y = AXIS + at * lane - this.top;
      if (y < AXIS - 1 || y > this.height) return;
      paint.moveTo(0, Math.round(y) - 0.5);
      paint.lineTo(this.width, Math.round(y) - 0.5);
      if (y - lastY < 13) return;
      lastY = y;
      paint.fillText(fitted(paint, one.node, LABEL - 14), LABEL - 8, y + Math.min(13, Math.max(10, lane - 2)));
    });
    paint.stroke();
  }

  paintNow(paint) {
    const x = Math.round(this.x(nowUs())) + 0.5;
    if (x < LABEL || x > this.width) return;
    const ink = inks();
    paint.strokeStyle = ink.accent;
    paint.lineWidth = 1.5;
    paint.beginPath();
    paint.moveTo(x, AXIS - 6);
    paint.lineTo(x, this.height);
    paint.stroke();
    paint.lineWidth = 1;
    paint.fillStyle = ink.card;
    paint.fillRect(x - 17, 2, 34, 17);
    paint.fillStyle = ink.accent;
    paint.textAlign = "center";
    paint.fillText("now", x, 15);
  }

  at(event) {
    const box = this.canvas.getBoundingClientRect();
    const x = event.clientX - box.left;
    const row = Math.floor((event.clientY - box.top - AXIS + this.top) / this.lane);
    const moment = this.us(x);
    if (x < LABEL) return null;
    return this.bars.findLast((bar) => bar.rows.includes(row) && bar.begun_us <= moment && (bar.ended_us || (bar.promised ? Infinity : nowUs())) >= moment) || null;
  }

  pointed(event) {
    if (this.held) return this.drag(event);
    const bar = this.at(event);
    this.hint(bar);
    if (bar) showTip(told(bar), event.clientX, event.clientY);
    this.canvas.style.cursor = bar ? "pointer" : "grab";
  }

  hint(bar) {
    if (!bar) hideTip();
    const job = bar?.job || "";
    if (this.hot !== job) {
      this.hot = job;
      this.later();
    }
  }

  grab(event) {
    this.held = { x: event.clientX, range: [...this.range], far: 0 };
    this.canvas.setPointerCapture(event.pointerId);
  }

  drag(event) {
    const length = this.held.range[1] - this.held.range[0];
    const by = ((event.clientX - this.held.x) / (this.width - LABEL)) * length;
    this.held.far = Math.max(this.held.far, Math.abs(event.clientX - this.held.x));
    if (this.held.far < 4) return;
    this.range = [this.held.range[0] - by, this.held.range[1] - by];
    this.follows = false;
    this.later();
  }

  drop(event) {
    const held = this.held;
    this.held = null;
    if (!held) return;
    if (held.far >= 4) return this.moved();
    const bar = this.at(event);
    if (bar) {
      hideTip();
      this.go(jobLink(bar.job));
    }
  }

  wheel(event) {
    if (!event.ctrlKey && !event.metaKey && !event.shiftKey) return;
    event.preventDefault();
    this.zoom(event.deltaY > 0 || event.deltaX > 0 ? 1.25 : 0.8, this.us(event.offsetX));
  }

  key(event) {
    const length = this.range[1] - this.range[0];
    const order = { ArrowLeft: () => this.shift(-length / 8), ArrowRight: () => this.shift(length / 8), "+": () => this.zoom(0.7), "=": () => this.zoom(0.7), "-": () => this.zoom(1.4), 0: () => this.back() }[event.key];
    if (!order) return;
    event.preventDefault();
    order();
  }

  shift(by) {
    this.range = [this.range[0] + by, this.range[1] + by];
    this.follows = false;
    this.later();
    this.moved();
  }

  zoom(by, around) {
    const middle = around ?? (this.follows ? nowUs() : (this.range[0] + this.range[1]) / 2);
    const length = this.range[1] - this.range[0];
    if ((length * by < 10 * SECOND && by < 1) || (length * by > 60 * 86400 * SECOND && by > 1)) return;
    this.range = [middle - (middle - this.range[0]) * by, middle + (this.range[1] - middle) * by];
    if (around !== undefined) this.follows = false;
    this.later();
    this.moved();
  }

  last(seconds, ahead) {
    this.ahead = ahead;
    this.follows = true;
    this.range = [nowUs() - seconds * SECOND * (1 - ahead), nowUs() + seconds * SECOND * ahead];
    this.later();
    this.moved();
  }

  back() {
    this.last((this.range[1] - this.range[0]) / SECOND, this.ahead ?? 0.25);
  }
}

function told(bar) {
  const from = clock(bar.begun_us, true);
  const end = bar.ended_us ? clock(bar.ended_us, true) : bar.promised ? "open" : "now";
  const length = span(((bar.ended_us || nowUs()) - bar.begun_us) / SECOND);
  const long = bar.ended_us || !bar.promised ? ` (${length})` : "";
  return `${bar.job}\n${bar.promised ? "promised " : ""}${from} – ${end}${long}\n${bar.node} · ${bar.count} ${bar.count === 1 ? "device" : "devices"} · ${bar.state}`;
}

function tick(at, step) {
  const date = new Date(at * 1000);
  const pair = (value) => String(value).padStart(2, "0");
  if (step >= 86400) return `${pair(date.getMonth() + 1)}-${pair(date.getDate())}`;
  const time = `${pair(date.getHours())}:${pair(date.getMinutes())}`;
  return step < 60 ? `${time}:${pair(date.getSeconds())}` : time;
}

function box(paint, x, y, width, high, round) {
  paint.beginPath();
  if (width > 4 && high > 4) paint.roundRect(x, y, width, high, round);
  else paint.rect(x, y, width, high);
  paint.fill();
}

function hatch(paint, colour, x, y, width, high) {
  paint.save();
  paint.beginPath();
  paint.rect(x, y, width, high);
  paint.clip();
  const before = paint.globalAlpha;
  paint.globalAlpha = before * 0.18;
  paint.fillStyle = colour;
  paint.fillRect(x, y, width, high);
  paint.globalAlpha = before * 0.9;
  paint.strokeStyle = colour;
  paint.lineWidth = 1;
  paint.beginPath();
  const from = Math.floor((x - high) / 7) * 7;
  for (let at = from; at < x + width; at += 7) {
    paint.moveTo(at, y + high);
    paint.lineTo(at + high, y);
  }
  paint.rect(x + 0.5, y + 0.5, width - 1, high - 1);
  paint.stroke();
  paint.restore();
}

// A gang that failed ends with a notch, so that colour need not tell it.
function cross(paint, colour, x, y, high) {
  paint.fillStyle = colour;
  const size = Math.min(8, high);
  paint.beginPath();
  paint.moveTo(x, y);
  paint.lineTo(x - size, y);
  paint.lineTo(x, y + size);
  paint.fill();
}

const widths = new Map();

function fitted(paint, words, room) {
  if (!widths.has(words)) {
    if (widths.size > 5000) widths.clear();
    widths.set(words, paint.measureText(words).width);
  }
  const full = widths.get(words);
  if (full <= room) return words;
  const keep = Math.floor((words.length * room) / full) - 1;
  return keep > 1 ? `${words.slice(0, keep)}…` : "";
}
