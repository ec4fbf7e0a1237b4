// Numbers, times and states as people read them.

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export const whole = (value) => WHOLE.format(value);
export const percent = (part) => `${(100 * part).toFixed(1)} %`;

export function span(seconds) {
  const length = Math.abs(seconds);
  if (length < 1) return `${Math.round(length * 1000)} ms`;
  if (length < 90) return `${Math.round(length)} s`;
  if (length < 5400) return `${Math.round(length / 60)} min`;
  if (length < 172800) return `${(length / 3600).toFixed(1)} h`;
  return `${(length / 86400).toFixed(1)} d`;
}

export function hours(seconds) {
  const value = seconds / 3600;
  if (value >= 100) return whole(value);
  return value >= 0.1 ? value.toFixed(2) : value.toFixed(4);
}

const two = (value) => String(value).padStart(2, "0");

export function clock(us, withSeconds) {
  const at = new Date(us / 1000);
  const time = `${two(at.getHours())}:${two(at.getMinutes())}${withSeconds ? `:${two(at.getSeconds())}` : ""}`;
  if (at.toDateString() === new Date().toDateString()) return time;
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${time}`;
}

export const nowUs = () => Date.now() * 1000;

export function away(us) {
  const seconds = (us - nowUs()) / 1e6;
  return seconds >= 0 ? `in ${span(seconds)}` : `${span(seconds)} ago`;
}

export function bytes(count) {
  if (count < 1024) return `${count} B`;
  if (count < 1 << 20) return `${(count / 1024).toFixed(1)} KiB`;
  return `${(count / (1 << 20)).toFixed(1)} MiB`;
}

export const WAITS = new Set(["waiting", "held", "parked"]);
export const ENDED = new Set(["finished", "failed", "cancelled", "lost"]);
const MARKS = {
  waiting: "○", held: "‖", parked: "‖", starting: "◔", running: "●", degraded: "◐", repairing: "◑", draining: "◒",
  finished: "✓", failed: "✕", cancelled: "–", lost: "✕",
};

// A state is told by its word and a sign; its colour only repeats it.
export const mark = (state) => MARKS[state] || "·";

export function sizes(job) {
  if (job.tasks) return `${job.tasks_done}/${job.tasks}`;
  return job.max > job.min ? `${job.members} (${job.min}–${job.max})` : String(job.members);
}

export function spent(job) {
  if (WAITS.has(job.state)) return span(Math.max(0, (nowUs() - job.submitted_us) / 1e6));
  if (ENDED.has(job.state)) return span(job.ran_s);
  return span(Math.max(0, (nowUs() - (job.started_us || job.submitted_us)) / 1e6));
}

// The last column: reason, ETA or nodes, whichever matters.
export function matters(job) {
  if (WAITS.has(job.state)) {
    const start = job.eta_us ? `starts ${clock(job.eta_us)}, ${away(job.eta_us)}` : "";
    return { token: job.reason, words: [job.position ? `no. ${job.position} in line` : "", start].filter(Boolean).join(" · ") };
  }
  if (ENDED.has(job.state)) return { token: "", words: job.why || (job.code ? `exit code ${job.code}` : `ended ${clock(job.ended_us)}`) };
  const end = job.eta_us ? `ends ${away(job.eta_us)}` : "";
  return { token: "", words: [job.placed, end].filter(Boolean).join(" · ") };
}

// Log text without the orders meant for a terminal; of a line that was drawn over, the last state.
export function plain(output) {
  const bare = output.replace(/\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-_])/g, "");
  return bare.replace(/\r+\n/g, "\n").replace(/[^\n]*\r/g, "").replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/g, "");
}
