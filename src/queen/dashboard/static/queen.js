// Live figures, charts, keys and dialogs. Without it every page still reads; forms need it, since they send our header.
"use strict";

const page = () => document.getElementById("page");
const dialog = document.getElementById("dialog");
const told = document.getElementById("told");

// ---- requests carry a header that no page of another site can send
document.body.addEventListener("htmx:configRequest", (event) => { event.detail.headers["X-Queen-Dashboard"] = "1"; });
// Once its form is wired: a quick Enter must not send it without our header.
document.body.addEventListener("htmx:afterSettle", (event) => {
  if (event.detail.target === dialog && dialog.childElementCount && !dialog.open) dialog.showModal();
});
document.body.addEventListener("queen:done", () => { dialog.close(); refresh(true); });
document.body.addEventListener("queen:refresh", () => refresh(true));
document.body.addEventListener("htmx:sendError", () => say("The broker did not answer; nothing was changed."));
dialog.addEventListener("close", () => { dialog.replaceChildren(); });
let silence;
new MutationObserver(() => {
  clearTimeout(silence);
  if (told.childElementCount) silence = setTimeout(() => told.replaceChildren(), 12000);
}).observe(told, { childList: true });

function say(text) {
  const box = document.createElement("div");
  box.className = "bad";
  box.textContent = text;
  told.replaceChildren(box);
}

// ---- refresh in place
let refreshing = false;
let again = false;
let paused = false;
const busy = () => dialog.open || paused || document.hidden || page().querySelector("form[data-edited]") !== null
  || (document.activeElement?.matches("#page input, #page select, #page textarea") ?? false);

async function refresh(now = false) {
  if (!now && busy()) return;
  if (refreshing) { again ||= now; return; }
  refreshing = true;
  try {
    const headers = now ? {} : { "X-Queen-Live": "1" };
    const answer = await fetch(location.href, { headers, credentials: "same-origin", signal: AbortSignal.timeout(15000) });
    if (answer.status === 401) { location.reload(); return; }
    if (!answer.headers.get("content-type")?.startsWith("text/html")) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (!now && busy()) return;
    const focused = document.activeElement;
    for (const id of ["nav", "page"]) {
      const part = fresh.getElementById(id);
      if (part) Idiomorph.morph(document.getElementById(id), part.outerHTML, { morphStyle: "outerHTML", callbacks });
    }
    if (focused !== document.activeElement && document.activeElement === document.body) {
      (focused.isConnected ? focused : page().querySelector("[data-row].at a, [data-row].at button"))?.focus({ preventScroll: true });
    }
    document.title = fresh.title;
    show(state);
    htmx.process(page());
    draw();
  } catch { /* the live connection tells of the loss */ } finally {
    refreshing = false;
    if (again) { again = false; refresh(true); }
  }
}

const callbacks = {
  beforeNodeMorphed(old, fresh) {
    if (!(old instanceof Element)) return true;
    if (old.classList.contains("plot")) {
      for (const { name, value } of fresh.attributes) if (name.startsWith("data-")) old.setAttribute(name, value);
      return false;
    }
    if (old.id === "live" || old.matches("form[data-edited]")) return false;
    if (old.matches("[data-keep]") && old.innerHTML !== "") return false;
    if (old.matches("details") && fresh.matches?.("details")) fresh.toggleAttribute("open", old.open);
    if (old.matches("[data-row]") && old.classList.contains("at")) fresh.classList.add("at");
    if (old.matches("input[type=checkbox]") && fresh.matches?.("input[type=checkbox]")) fresh.checked = old.checked;
    if (old.matches("[data-figure]") && old.textContent.trim() !== fresh.textContent.trim()) {
      requestAnimationFrame(() => {
        old.classList.remove("changed");
        void old.offsetWidth;
        old.classList.add("changed");
      });
    }
    return true;
  },
  beforeAttributeUpdated(name, node) { return !(name === "class" && node.matches?.("[data-figure]")); },
};

// ---- live: the broker says when there is something new
let socket;
let pause = 500;
let state = "off";

function show(next) {
  state = next;
  const sign = document.getElementById("live");
  if (!sign) return;
  sign.dataset.state = paused ? "off" : next;
  sign.textContent = paused ? "stopped" : { on: "live", lost: "no connection", off: "connecting" }[next];
}

function connect() {
  const address = new URL("ws/pages", location.href);
  address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
  address.search = address.hash = "";
  socket = new WebSocket(address);
  socket.onopen = () => {
    if (state === "lost") refresh(true);
    pause = 500;
    show("on");
  };
  socket.onmessage = () => { refresh(); };
  socket.onclose = () => {
    show("lost");
    setTimeout(connect, pause + Math.random() * 250);
    pause = Math.min(pause * 2, 15000);
  };
}
document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });

// ---- charts
const plots = new Map();
const resolved = (name) => {
  const probe = document.createElement("i");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
};
const values = (text) => text.split(",").map((each) => (each === "" ? null : Number(each)));

function said(value, unit) {
  if (value === null || value === undefined) return "–";
  if (unit === "s") return span(value);
  if (unit === "B") return value >= 1e9 ? `${(value / 1e9).toFixed(1)} GB` : value >= 1e6 ? `${(value / 1e6).toFixed(1)} MB` : `${(value / 1e3).toFixed(0)} kB`;
  const digits = value !== 0 && Math.abs(value) < 10 && !Number.isInteger(value) ? 1 : 0;
  return value.toLocaleString("en", { maximumFractionDigits: digits }).replaceAll(",", "\u202f") + unit;
}

function span(seconds) {
  if (seconds < 1 && seconds > 0) return `${Math.round(seconds * 1000)} ms`;
  for (const [unit, length, part, small] of [["d", 86400, "h", 3600], ["h", 3600, "min", 60], ["min", 60, "s", 1]]) {
    if (seconds >= length) {
      const rest = Math.floor((seconds % length) / small);
      return `${Math.floor(seconds / length)} ${unit}${rest ? ` ${rest} ${part}` : ""}`;
    }
  }
  return `${Math.round(seconds)} s`;
}

function options(box, lines, data) {
  const unit = box.dataset.unit;
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  const steps = unit === "s" ? [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 43200, 86400, 172800, 604800, 2592000] : undefined;
  const axis = { stroke: resolved("soft"), font: "11px system-ui, DejaVu Sans, sans-serif", ticks: { show: false } };
  return {
    width: Math.max(box.clientWidth, 120),
    height: 160,
    ms: 1e-3,
    cursor: { sync: { key: "queen" }, y: false, points: { size: 6 }, drag: { x: false, y: false } },
    legend: { show: false },
    scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
    axes: [
      { ...axis, grid: { show: false }, size: 22, space: 60, values: (u, marks) => marks.map((mark) => label(mark, u.scales.x.max - u.scales.x.min)) },
      { ...axis, grid: { stroke: resolved("line"), width: 1 }, size: 58, space: 34, incrs: steps, values: (_, marks) => marks.map((mark) => said(mark, unit)) },
    ],
    series: [{}, ...lines.map(([, kind], place) => ({
      stroke: resolved(kind),
      width: 1.75,
      dash: kind === "out" ? [6, 3] : undefined,
      fill: place === 0 ? resolved(kind).replace("rgb(", "rgba(").replace(")", ", 0.10)") : undefined,
      spanGaps: false,
      points: { show: data[place + 1].filter((each) => each !== null).length < 4, size: 5 },
    }))],
    hooks: {
      ready: [(u) => u.over.append(tip)],
      draw: [(u) => {
        u.ctx.save();
        u.ctx.strokeStyle = resolved("soft");
        u.ctx.lineWidth = devicePixelRatio;
        u.ctx.setLineDash([2 * devicePixelRatio, 3 * devicePixelRatio]);
        for (const [at] of marks(box)) {
          if (at < u.scales.x.min || at > u.scales.x.max) continue;
          const x = Math.round(u.valToPos(at, "x", true)) + 0.5;
          u.ctx.beginPath();
          u.ctx.moveTo(x, u.bbox.top);
          u.ctx.lineTo(x, u.bbox.top + u.bbox.height);
          u.ctx.stroke();
        }
        u.ctx.restore();
      }],
      setCursor: [(u) => {
        const at = u.cursor.idx;
        tip.hidden = at === null || at === undefined || u.cursor.left < 0;
        if (tip.hidden) return;
        const moment = new Date(u.data[0][at] * 1000).toLocaleString("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit" });
        tip.textContent = `${moment}  ${lines.map(([, , words], place) => `${words} ${said(u.data[place + 1][at], unit)}`).join("  ")}`;
        const near = (u.scales.x.max - u.scales.x.min) / 100;
        const here = u.posToVal(u.cursor.left, "x");
        const done = marks(box).filter(([moment]) => Math.abs(moment - here) < near).map(([, words]) => words);
        if (done.length) tip.textContent += `  · ${done.slice(0, 3).join(", ")}`;
        tip.style.top = "2px";
        tip.style.left = u.cursor.left > u.over.clientWidth / 2 ? "0" : "auto";
        tip.style.right = u.cursor.left > u.over.clientWidth / 2 ? "auto" : "0";
      }],
    },
  };
}

const marks = (box) => JSON.parse(box.dataset.marks ?? "[]");

function label(seconds, length) {
  const at = new Date(seconds * 1000);
  if (length > 2 * 86400) return at.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
  return at.toLocaleTimeString("en-GB", length < 600 ? { hour: "2-digit", minute: "2-digit", second: "2-digit" } : { hour: "2-digit", minute: "2-digit" });
}

function draw() {
  for (const [box, plot] of plots) if (!box.isConnected) { plot.destroy(); plots.delete(box); }
  for (const box of document.querySelectorAll(".plot[data-lines]")) {
    const lines = box.dataset.lines.split("|").map((each) => each.split(":"));
    const data = [values(box.dataset.at), ...lines.map(([key]) => values(box.dataset[key]))];
    const drawn = plots.get(box);
    if (data.slice(1).every((each) => each.every((value) => value === null))) {
      drawn?.destroy();
      plots.delete(box);
      if (!box.querySelector(".nothing")) {
        const nothing = document.createElement("p");
        nothing.className = "nothing";
        nothing.textContent = "nothing was collected in this time yet";
        box.replaceChildren(nothing);
      }
    } else if (drawn) {
      drawn.setData(data);
      if (drawn.width !== box.clientWidth && box.clientWidth) drawn.setSize({ width: box.clientWidth, height: 160 });
    } else {
      box.replaceChildren();
      plots.set(box, new uPlot(options(box, lines, data), data, box));
    }
  }
}
function redraw() {
  for (const plot of plots.values()) plot.destroy();
  plots.clear();
  draw();
}
let resizing;
addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(redraw, 150); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

// ---- countdowns of leases
setInterval(() => {
  for (const each of document.querySelectorAll("[data-until]")) {
    const left = (Date.parse(each.dataset.until) - Date.now()) / 1000;
    each.textContent = left > 0 ? span(Math.ceil(left)) : "ran out";
  }
}, 1000);

// ---- clicks: copy, scheme, keys, choosing rows
document.addEventListener("click", async (event) => {
  const at = event.target.closest("button, a, input");
  if (!at) return;
  if (at.dataset.copy !== undefined) {
    try {
      await navigator.clipboard.writeText(at.dataset.copy);
      at.classList.add("done");
      if (!at.classList.contains("copy")) at.textContent = "Copied";
    } catch { say("The browser does not let pages copy here."); }
  } else if (at.dataset.themeSwitch !== undefined) {
    const dark = document.documentElement.dataset.scheme
      ? document.documentElement.dataset.scheme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    document.documentElement.dataset.scheme = dark ? "light" : "dark";
    try { localStorage.setItem("queen-scheme", document.documentElement.dataset.scheme); } catch { /* not kept */ }
    redraw();
  } else if (at.dataset.help !== undefined) {
    document.getElementById("help").showModal();
  } else if (at.dataset.close !== undefined) {
    dialog.close();
    if (at.dataset.refresh !== undefined) refresh(true);
  } else if (at.dataset.all !== undefined) {
    for (const box of at.closest("form").querySelectorAll("input[name=id]")) box.checked = at.checked;
  }
});
document.addEventListener("input", (event) => { event.target.closest("form[data-edits]")?.setAttribute("data-edited", ""); });

// ---- keys
let going = false;
const PLACES = { o: "./", q: "queues", m: "messages", g: "groups", d: "dead-letters", t: "traces", w: "workflows", p: "pipelines", s: "system" };
function move(step) {
  const rows = [...page().querySelectorAll("[data-row]")];
  if (!rows.length) return;
  const old = rows.findIndex((row) => row.classList.contains("at"));
  const next = Math.min(Math.max(old + step, 0), rows.length - 1);
  rows[old]?.classList.remove("at");
  rows[next].classList.add("at");
  rows[next].scrollIntoView({ block: "nearest" });
  rows[next].querySelector("a, button")?.focus({ preventScroll: true });
}
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || dialog.open || document.getElementById("help").open) return;
  if (event.target.matches("input, select, textarea")) { if (event.key === "Escape") event.target.blur(); return; }
  if (going && PLACES[event.key]) { location.href = PLACES[event.key]; return; }
  going = event.key === "g";
  if (going) { setTimeout(() => { going = false; }, 1500); return; }
  if (event.key === "j") move(1);
  else if (event.key === "k") move(-1);
  else if (event.key === "?") document.getElementById("help").showModal();
  else if (event.key === "l") { paused = !paused; show(state); if (!paused) refresh(true); }
  else if (event.key === "/") {
    event.preventDefault();
    const search = page().querySelector("input[type=search]");
    if (search) search.focus(); else location.href = "queues#search";
  }
});

document.querySelector("nav .on")?.scrollIntoView({ block: "nearest", inline: "center" });
draw();
show("off");
connect();
if (location.hash === "#search") page().querySelector("input[type=search]")?.focus();
