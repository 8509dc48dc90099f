// Live parts of a page: <section id=PART data-topic=TOPIC data-version=… hx-get=… hx-trigger=changed>.
// There may be several topics, with spaces between. When one changes, the part gets the event
// `changed`, and htmx fetches and morphs it. Parts of a hidden tab wait until the tab is shown. Data
// of a feed arrives at its element as the event `feed`, with the message as `detail`; it is text of
// the cluster, so use `textContent`.
"use strict";

const settings = document.currentScript.dataset;

// A text that the reader is typing stays when the part around it is replaced.
Idiomorph.defaults.ignoreActiveValue = true;
// Most of a page is unchanged, and the browser compares faster than a script morphs.
// A list that the reader has opened stays open.
Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name, element) => !(name === "open" && element.matches("details"));
Idiomorph.defaults.callbacks.beforeNodeMorphed = (old, fresh) => !old.isEqualNode(fresh);

const live = {
  outdated: new Set(),

  start() {
    const shared = typeof SharedWorker !== "undefined";
    const worker = shared ? new SharedWorker(settings.worker) : new Worker(settings.worker);
    this.port = shared ? worker.port : worker;
    this.port.onmessage = ({data}) => this.receive(data);
    this.announce();
  },

  elements(topic) {
    return [...document.querySelectorAll("[data-topic]")].filter(e => e.dataset.topic.split(" ").includes(topic));
  },

  announce() {
    const topics = {};
    for (const element of document.querySelectorAll("[data-topic]"))
      for (const topic of element.dataset.topic.split(" ")) topics[topic] = element.dataset.version || "";
    this.port.postMessage({topics, csrf: settings.csrf});
  },

  receive(data) {
    if ("connected" in data) {
      const note = document.getElementById("connection");
      note.textContent = data.connected ? "live" : data.refused ? "not connected: load the page again" : "not connected";
      note.dataset.connected = data.connected;
      if (data.connected && document.getElementById("messages").textContent === NO_ANSWER) message("", failed);
    } else if (data.topic) {
      for (const element of this.elements(data.topic))
        element.dispatchEvent(new CustomEvent("feed", {detail: data}));
    } else {
      for (const topic of data.topics) this.outdated.add(topic);
      this.refresh();
    }
  },

  refresh() {
    if (document.hidden) return;
    for (const topic of this.outdated)
      for (const element of this.elements(topic)) htmx.trigger(element, "changed");
    this.outdated.clear();
  },
};

// An error stays until a request of the same element succeeds, or until Escape: a live part that is
// up to date says nothing about a change that was refused.
const NO_ANSWER = "The dashboard does not answer.";
let failed = null;
function message(text, element = document.body) {
  if (!text && element !== failed) return;
  failed = text ? element : null;
  document.getElementById("messages").textContent = text;
}

// Theme: the system's, until the reader chooses.
function theme() {
  const button = document.getElementById("theme");
  const dark = () => (document.documentElement.dataset.theme ||
    (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const label = () => {
    button.textContent = dark() ? "Light" : "Dark";
    button.setAttribute("aria-label", dark() ? "Light theme" : "Dark theme");
  };
  button.hidden = false;
  label();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", label);
  button.addEventListener("click", () => {
    const chosen = dark() ? "light" : "dark";
    document.documentElement.dataset.theme = chosen;
    localStorage.setItem("theme", chosen);
    label();
  });
}

// Times since a moment: <time class=since datetime=…>, in the units of `arena list`.
function ages() {
  const units = [[60, 1, "s"], [3600, 60, "m"], [86400, 3600, "h"], [31536000, 86400, "d"], [Infinity, 31536000, "y"]];
  for (const element of document.querySelectorAll("time.since")) {
    const seconds = Math.max(0, Math.floor((Date.now() - Date.parse(element.dateTime)) / 1000));
    const [, size, unit] = units.find(([limit]) => seconds < limit);
    element.textContent = Math.floor(seconds / size) + unit;
  }
}

// Moments in the time zone of the reader: [data-moment] stays in the form that the server wrote.
function moments() {
  for (const element of document.querySelectorAll("[data-moment]")) {
    const at = new Date(element.dataset.moment), text = element.textContent;
    const stamp = new Date(at - at.getTimezoneOffset() * 60000).toISOString().replace("T", " ");
    element.textContent = text.length > 8 ? stamp.slice(0, text.length) : stamp.slice(11, 11 + text.length);
  }
}

theme();
moments();
document.body.addEventListener("htmx:afterSwap", moments);
setInterval(ages, 1000);
// Some parts are about the last minutes, so they change even when nothing happens.
setInterval(() => {
  if (!document.hidden) for (const element of document.querySelectorAll("[data-clock]")) htmx.trigger(element, "changed");
}, 30000);
if (settings.csrf) {  // else nobody is logged in
  live.start();
  document.addEventListener("visibilitychange", () => live.refresh());
  document.body.addEventListener("htmx:afterSettle", () => live.announce());
  addEventListener("pagehide", () => live.port.postMessage({bye: true}));
  addEventListener("pageshow", event => { if (event.persisted) live.announce(); });
}
document.body.addEventListener("htmx:afterOnLoad", ({target, detail: {xhr}}) => {
  const deleted = "topic" in target.dataset && xhr.status === 404;
  target.classList.toggle("gone", deleted);
  if (deleted) message("This was deleted. The page shows its last state.", target);
  else message(xhr.status < 400 ? "" : xhr.responseText, target);
});
document.body.addEventListener("htmx:sendError", ({target}) => message(NO_ANSWER, target));
document.addEventListener("keydown", event => { if (event.key === "Escape") message("", failed); });
