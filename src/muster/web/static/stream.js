// A shared worker: the one stream of all tabs of this browser. A browser opens at most six
// connections to a host, so ten tabs cannot have one each.
//
// A tab sends {topics: {TOPIC: VERSION}, csrf} whenever what it shows changes, and {bye: true} at
// its end. It gets {topics, version} when topics changed, {topic, message} with data of a feed, and
// {connected, refused}: whether there is a stream, and whether the server answers but gives none.
"use strict";

const RETRY = 3000;
const tabs = new Map();
let source = null, id = "", csrf = "", connected = false, sent = "";

function union() {
  const all = {};
  for (const topics of tabs.values())
    for (const [topic, version] of Object.entries(topics))
      // Two tabs may have a topic in two versions: an old one makes the server tell both.
      all[topic] = topic in all && all[topic] !== version ? "" : version;
  return all;
}

function tell(message) {
  for (const port of tabs.keys()) port.postMessage(message);
}

// One request after the other: an older list of topics must not arrive after a newer one.
let sending = Promise.resolve();
function subscribe() {
  sending = sending.then(send);
}

async function send() {
  if (!id) return;
  const body = JSON.stringify(union());
  if (body === sent) return;
  sent = body;
  const answer = await fetch(`/stream/${id}/topics`, {
    method: "POST",
    headers: {"Content-Type": "application/json", "X-CSRF-Token": csrf},
    body,
  }).catch(() => null);
  if (!answer || !answer.ok) sent = "";
}

function state(now, refused = false) {
  connected = now;
  tell({connected, refused});
}

function open() {
  source = new EventSource("/stream");
  source.addEventListener("hello", event => {
    id = JSON.parse(event.data).id;
    sent = "";
    state(true);
    subscribe();
  });
  source.addEventListener("changed", event => {
    const {topics, version} = JSON.parse(event.data);
    for (const shown of tabs.values())
      for (const topic of topics) if (topic in shown) shown[topic] = version;
    sent = JSON.stringify(union());
    tell({topics, version});
  });
  source.addEventListener("data", event => tell(JSON.parse(event.data)));
  source.onerror = () => {
    // The browser connects again by itself after a lost connection, but not after an error.
    state(false, source.readyState === EventSource.CLOSED);
    id = "";
    if (source.readyState === EventSource.CLOSED) setTimeout(() => tabs.size ? open() : source = null, RETRY);
  };
}

function listen(port) {
  port.onmessage = ({data}) => {
    if (data.bye) {
      tabs.delete(port);
      if (!tabs.size && source) { source.close(); source = null; id = ""; }
    } else {
      csrf = data.csrf;
      tabs.set(port, data.topics);
      if (!source) open();
      else port.postMessage({connected});
    }
    subscribe();
  };
}

if (typeof SharedWorkerGlobalScope !== "undefined" && self instanceof SharedWorkerGlobalScope)
  self.onconnect = event => listen(event.ports[0]);
else
  // A browser without shared workers runs this in an ordinary worker: a stream per tab.
  listen(self);
