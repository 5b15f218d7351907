"use strict";
// Ages by the browser's clock against the server's, sorting, filtering, copying, and the stream of changes.
const skew = Date.parse(document.body.dataset.now) - Date.now();
const SILENT_MS = 25000;

function age(ms) {
  const s = Math.floor(ms / 1000);
  if (s < 1) return "just now";
  if (s < 60) return `${s} s ago`;
  if (s < 3600) return `${Math.floor(s / 60)} min ago`;
  if (s < 172800) return `${Math.floor(s / 3600)} h ago`;
  return `${Math.floor(s / 86400)} days ago`;
}

function showAges() {
  for (const time of document.querySelectorAll("time[datetime]")) {
    if (!time.title) time.title = time.textContent;
    time.textContent = age(Date.now() + skew - Date.parse(time.dateTime));
  }
}

const sorted = {};
function sortTable(table, column, direction) {
  const body = table.tBodies[0];
  const value = (row) => row.cells[column].dataset.sort;
  const compare = (a, b) => {
    const [x, y] = [value(a), value(b)];
    return x !== "" && y !== "" && !isNaN(x) && !isNaN(y) ? x - y : x.localeCompare(y);
  };
  body.append(...[...body.rows].sort((a, b) => direction * compare(a, b)));
  [...table.tHead.rows[0].cells].forEach((head, n) => {
    if (n === column) head.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
    else head.removeAttribute("aria-sort");
  });
}

function filterJobs() {
  const wanted = (document.getElementById("filter")?.value || "").toLowerCase();
  for (const row of document.querySelectorAll("tr[data-job]")) {
    row.hidden = !row.textContent.toLowerCase().includes(wanted);
  }
}

document.addEventListener("click", (event) => {
  const head = event.target.closest("table.sortable thead button");
  if (head) {
    const table = head.closest("table");
    const column = head.parentElement.cellIndex;
    const up = head.parentElement.getAttribute("aria-sort") !== "ascending";
    sorted[table.id] = [column, up ? 1 : -1];
    sortTable(table, ...sorted[table.id]);
  }
  const copy = event.target.closest("button.copy");
  if (copy) {
    navigator.clipboard.writeText(copy.parentElement.querySelector("pre").textContent);
    copy.textContent = "Copied";
  }
  if (event.target.id === "theme") {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    localStorage.setItem("theme", root.dataset.theme);
  }
});
// What belongs to one checkpoint is marked in every chart.
document.addEventListener("mouseover", (event) => {
  const id = event.target.closest("svg g[data-id]")?.dataset.id;
  document.querySelectorAll("svg g.near").forEach((each) => each.classList.remove("near"));
  if (id) document.querySelectorAll(`svg g[data-id="${CSS.escape(id)}"]`).forEach((each) => each.classList.add("near"));
});
// Dragging over the timeline selects a span of time; it is in the address.
let drag = null;
function partOf(x) {
  const at = drag.svg.getBoundingClientRect();
  return Math.min(1, Math.max(0, (x - at.left) / at.width));
}
document.addEventListener("pointerdown", (event) => {
  const svg = event.target.closest(".lane svg[role]");
  if (!svg || event.button !== 0 || event.pointerType === "touch") return;
  event.preventDefault();
  drag = {svg};
  drag.from = partOf(event.clientX);
});
document.addEventListener("pointermove", (event) => {
  if (!drag) return;
  const [a, b] = [drag.from, partOf(event.clientX)].sort((x, y) => x - y);
  if (!drag.shade || !drag.shade.isConnected) {
    drag.shade = drag.svg.appendChild(document.createElementNS("http://www.w3.org/2000/svg", "rect"));
    drag.shade.setAttribute("class", "shade");
    drag.shade.setAttribute("height", "100%");
  }
  drag.shade.setAttribute("x", `${a * 100}%`);
  drag.shade.setAttribute("width", `${(b - a) * 100}%`);
});
document.addEventListener("pointerup", (event) => {
  if (!drag) return;
  const [a, b] = [drag.from, partOf(event.clientX)].sort((x, y) => x - y);
  drag.shade?.remove();
  drag = null;
  if (b - a < 0.005) return;
  const {begin, end} = document.getElementById("timeline").dataset;
  const [first, last] = [Date.parse(begin), Date.parse(end)];
  const at = (part) => new Date(first + part * (last - first)).toISOString();
  location.search = `?from=${at(a)}&to=${at(b)}`;
});
document.addEventListener("input", (event) => event.target.id === "filter" && filterJobs());
document.addEventListener("keydown", (event) => {
  const typing = /^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName);
  if (event.key === "/" && !typing && document.getElementById("filter")) {
    event.preventDefault();
    document.getElementById("filter").focus();
  }
});
document.addEventListener("submit", (event) => {
  if (event.target.closest(".actions")) event.target.querySelector("button").textContent = "Waiting for the job…";
});
async function take(file) {
  const text = document.getElementById("text");
  if (file && text) text.value = await file.text();
}
document.addEventListener("change", (event) => event.target.id === "file" && take(event.target.files[0]));
document.addEventListener("dragover", (event) => document.getElementById("text") && event.preventDefault());
document.addEventListener("drop", (event) => {
  if (!document.getElementById("text") || !event.dataTransfer.files[0]) return;
  event.preventDefault();
  take(event.dataTransfer.files[0]);
});

async function renew() {
  const answer = await fetch(location.href);
  if (!answer.ok || drag) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const filter = document.getElementById("filter")?.value;
  const focused = document.activeElement?.id;
  const typed = [...document.querySelectorAll("#main input[name]")]
    .filter((each) => each.type !== "hidden" && each.value !== each.defaultValue)
    .map((each) => [each.form?.getAttribute("action"), each.name, each.value]);
  const open = [...document.querySelectorAll("details")].map((each) => each.open);
  document.getElementById("main").replaceChildren(...page.getElementById("main").childNodes);
  for (const [action, name, value] of typed) {
    const field = [...document.querySelectorAll("#main input[name]")]
      .find((each) => each.name === name && each.form?.getAttribute("action") === action);
    if (field) field.value = value;
  }
  if (filter) document.getElementById("filter").value = filter;
  document.querySelectorAll("details").forEach((each, n) => (each.open = open[n] || false));
  if (focused && focused !== "main") document.getElementById(focused)?.focus();
  for (const [id, how] of Object.entries(sorted)) {
    const table = document.getElementById(id);
    if (table) sortTable(table, ...how);
  }
  filterJobs();
  showAges();
}

const light = document.getElementById("live");
let heard = Date.now();
function hear(silentSince) {
  heard = Date.now();
  light.textContent = silentSince ? `home silent since ${new Date(silentSince).toLocaleTimeString()}` : "live";
  light.className = silentSince ? "cut" : "on";
}
function lookAtStream() {
  if (Date.now() - heard > SILENT_MS) {
    light.textContent = `stale since ${new Date(heard).toLocaleTimeString()}`;
    light.className = "cut";
  }
}

const theme = localStorage.getItem("theme");
if (theme) document.documentElement.dataset.theme = theme;
showAges();
setInterval(() => { showAges(); lookAtStream(); }, 1000);
if (!document.querySelector("form[action='/doctor']")) {
  const stream = new EventSource(document.body.dataset.stream);
  let cut = false;
  stream.addEventListener("hello", () => { hear(); if (cut) renew(); cut = false; });
  stream.addEventListener("alive", (event) => hear(event.data));
  stream.addEventListener("changed", () => { hear(); renew(); });
  stream.addEventListener("error", () => { cut = true; });
}
