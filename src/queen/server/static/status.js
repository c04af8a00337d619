// Keeps the numbers of the status page current over a WebSocket; without one the page stays as it was drawn.
"use strict";

const rows = new Map();
for (const row of document.querySelectorAll("tr[data-queue]")) rows.set(row.dataset.queue, row);
const known = new Map();
const live = document.getElementById("live");
const health = document.getElementById("health");
const count = (number) => number.toLocaleString("en").replaceAll(",", "\u202f");
let pause = 1000;

function show(cell, text) {
  if (!cell || cell.textContent === text) return;
  cell.textContent = text;
  cell.classList.remove("changed");
  void cell.offsetWidth;
  cell.classList.add("changed");
}

function showQueue(queue) {
  known.set(queue.name, queue);
  const row = rows.get(queue.name);
  if (!row) return;
  const values = {
    pending: count(queue.pending),
    processing: count(queue.processing),
    pushed: String(queue.pushedPerSecond),
    acked: String(queue.ackedPerSecond),
    deadLetters: count(queue.deadLetters),
  };
  for (const [field, text] of Object.entries(values)) show(row.querySelector(`[data-field=${field}]`), text);
  row.querySelector("[data-field=deadLetters]").classList.toggle("bad", queue.deadLetters > 0);
}

function showTotals(event) {
  const sum = (field) => [...known.values()].reduce((total, queue) => total + queue[field], 0);
  const values = {
    pending: count(sum("pending")),
    processing: count(sum("processing")),
    pushed: String(event.throughput.pushedPerSecond),
    acked: String(event.throughput.ackedPerSecond),
    deadLetters: count(sum("deadLetters")),
  };
  for (const [field, text] of Object.entries(values)) show(document.querySelector(`[data-total=${field}]`), text);
  health.textContent = event.database ? "healthy" : "database away";
  health.className = event.database ? "pill good" : "pill bad";
}

function receive(event) {
  const unknown = event.queues.some((queue) => !rows.has(queue.name)) && rows.size < 200;
  if (event.removedQueues.length > 0 || unknown) {
    location.reload();
    return;
  }
  event.queues.forEach(showQueue);
  showTotals(event);
}

function connect() {
  const address = new URL("ws/dashboard", location.href);
  address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
  address.search = "";
  const socket = new WebSocket(address);
  socket.onopen = () => { live.hidden = false; pause = 1000; };
  socket.onmessage = (message) => receive(JSON.parse(message.data));
  socket.onclose = () => {
    live.hidden = true;
    setTimeout(connect, pause);
    pause = Math.min(pause * 2, 30000);
  };
}

if (document.querySelector("main[data-live]")) connect();
