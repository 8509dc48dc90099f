// A job's page: dialogs, copy, and the logs. Lines are text of programs: only ever text nodes.
const MAX_LINES = 5000, MAX_CHARACTERS = 4e6;
const $ = id => document.getElementById(id);

document.addEventListener("click", async event => {
  const opener = event.target.closest("[data-dialog]"), copy = event.target.closest("[data-copy]");
  const logs = event.target.closest("[data-logs]");
  if (opener) $(opener.dataset.dialog).showModal();
  if (copy && navigator.clipboard) {
    event.preventDefault();
    const answer = await fetch(copy.href);
    if (!answer.ok) return message(await answer.text());
    await navigator.clipboard.writeText(await answer.text()).then(
      () => { copy.textContent = "Copied"; setTimeout(() => copy.textContent = "Copy as YAML", 2000); },
      () => location.assign(copy.href));  // not allowed: save it
  }
  if (logs) {
    event.preventDefault();
    replica.value = logs.dataset.logs;
    choose();
    $("logs").scrollIntoView();
    box.focus({preventScroll: true});
  }
});
document.body.addEventListener("htmx:afterRequest", event => event.target.closest("dialog")?.close());

const section = $("logs"), box = $("log"), replica = $("log-replica"), attempt = $("log-attempt");
const state = $("log-state"), LOADING = "Loading …";
const search = $("log-search"), only = $("log-only"), follow = $("log-follow"), wrap = $("log-wrap");
let rows = [], unfinished = {}, characters = 0, matches = 0, pattern = null, current = null;

function option(value, text) {
  return Object.assign(document.createElement("option"), {value, textContent: text});
}

// The table of replicas is live; the choice follows it.
function replicas() {
  const known = new Set([...replica.options].map(o => o.value));
  for (const row of document.querySelectorAll("#job tr[data-replica]"))
    if (!known.has(row.dataset.replica)) replica.append(option(row.dataset.replica, row.dataset.replica));
}

function attempts() {
  const row = [...document.querySelectorAll("#job tr[data-replica]")].find(r => r.dataset.replica === replica.value);
  const count = row ? Number(row.dataset.attempts) : 0, chosen = attempt.value;
  const options = [option("", "latest")];
  for (let number = count - 1; number > 0; number--) options.push(option(number, `${number} of ${count}`));
  if (row && !count && Number(row.dataset.restarts)) options.push(option("previous", "before the restart"));
  attempt.replaceChildren(...options);
  attempt.value = options.some(o => o.value === chosen) ? chosen : "";
  attempt.parentElement.hidden = options.length === 1;
}

function choose() {
  attempts();
  start();
}

function start() {
  const chosen = {replica: replica.value, attempt: attempt.value};
  $("log-download").href = `${section.dataset.download}?${new URLSearchParams(chosen)}`;
  clear();
  state.textContent = LOADING;
  box.dataset.topic = `log:${section.dataset.job}/${replica.value}/${attempt.value}/${crypto.randomUUID()}`;
  live.announce();
}

function clear() {
  box.replaceChildren();
  rows = [], unfinished = {}, characters = matches = 0, current = null;
  count();
}

function show(row) {
  const body = row.lastChild, text = row.text;
  const found = pattern ? [...text.matchAll(pattern)] : [];
  const hit = found.length > 0 ? 1 : 0;
  matches += hit - (row.hit || 0);  // not `matches`, which every element has as a method
  row.hit = hit;
  row.hidden = only.checked && pattern !== null && !found.length;
  if (!found.length) { body.textContent = text; return; }
  let end = 0;
  const parts = [];
  for (const match of found) {
    parts.push(text.slice(end, match.index));
    const mark = document.createElement("mark");
    mark.textContent = match[0];
    parts.push(mark);
    end = match.index + match[0].length;
  }
  body.replaceChildren(...parts, text.slice(end));
}

function newRow(pod) {
  const row = document.createElement("div"), body = document.createElement("span");
  if (pod && !replica.value) {
    const name = document.createElement("b"), {prefix} = section.dataset;
    name.textContent = (pod.startsWith(prefix) ? pod.slice(prefix.length) : pod) + " ";
    let hash = 0;
    for (const letter of pod) hash = (hash * 31 + letter.codePointAt(0)) % 8;
    name.className = `pod-${hash}`;
    row.append(name);
  }
  if (!pod) row.className = "note";
  row.append(body);
  rows.push(row);
  return row;
}

function add(lines) {
  const fragment = document.createDocumentFragment();
  for (const [pod, text, whole] of lines) {
    const row = unfinished[pod] || newRow(pod);
    if (!unfinished[pod]) fragment.append(row);
    characters += text.length - (row.text || "").length;
    row.text = text;
    show(row);
    if (whole) delete unfinished[pod]; else unfinished[pod] = row;
  }
  box.append(fragment);
  let surplus = 0;
  for (; rows.length - surplus > MAX_LINES || characters > MAX_CHARACTERS && surplus < rows.length; surplus++) {
    const row = rows[surplus];
    characters -= row.text.length;
    matches -= row.hit;
    row.remove();
  }
  if (surplus) {
    rows.splice(0, surplus);
    for (const [pod, row] of Object.entries(unfinished)) if (!row.isConnected) delete unfinished[pod];
  }
  count();
  if (follow.checked) box.scrollTop = box.scrollHeight;
}

function count() {
  $("log-count").textContent = pattern ? matches === 1 ? "1 line matches" : `${matches} lines match` : "";
}

function find() {
  const text = search.value;
  pattern = text ? new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "gi") : null;
  for (const row of rows) show(row);
  count();
  if (follow.checked) box.scrollTop = box.scrollHeight;
}

function step(forward) {
  const found = rows.filter(row => row.hit);
  if (!found.length) return;
  const place = found.indexOf(current) + (forward ? 1 : -1);
  current?.classList.remove("current");
  current = found[(place + found.length) % found.length];
  current.classList.add("current");
  follow.checked = false;
  current.scrollIntoView({block: "center"});
}

box.addEventListener("feed", ({detail: {message: data, error}}) => {
  if (error) { state.textContent = error; return; }
  if (data.first) {
    clear();
    setTimeout(() => { if (!rows.length && state.textContent === LOADING) state.textContent = "No lines yet."; }, 1000);
  }
  if (data.lines) add(data.lines);
  if (data.end) state.textContent = rows.length ? "This is the end of the log." : "The log is empty.";
  else if (rows.length) state.textContent = "New lines appear as they are written.";
});
box.addEventListener("scroll", () => {
  if (box.scrollHeight - box.scrollTop - box.clientHeight > 24) follow.checked = false;
});
let typing = 0;
search.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(find, 120); });
search.addEventListener("keydown", event => { if (event.key === "Enter") { find(); step(!event.shiftKey); } });
only.addEventListener("change", find);
follow.addEventListener("change", () => { if (follow.checked) box.scrollTop = box.scrollHeight; });
wrap.addEventListener("change", () => box.classList.toggle("wrapped", wrap.checked));
replica.addEventListener("change", choose);
attempt.addEventListener("change", start);
document.body.addEventListener("htmx:afterSettle", () => { replicas(); attempts(); });

replicas();
if (replica.options.length > 9) replica.value = (document.querySelector("#job tr[data-leads]") || document.querySelector("#job tr[data-replica]")).dataset.replica;
if (replica.options.length === 2) replica.selectedIndex = 1;
choose();
