"use strict";
// The part of a page that changes is fetched again when the run's files have changed; what was opened stays open.
const live = document.querySelector("[data-live]");
let stream = null, busy = false, again = false;

async function refresh() {
  if (busy) { again = true; return; }
  busy = true;
  try {
    const answer = await fetch(live.dataset.live);
    if (answer.ok) {
      const open = new Set([...live.querySelectorAll("details[open]")].map((one) => one.id));
      live.innerHTML = await answer.text();
      for (const one of live.querySelectorAll("details")) one.open = open.has(one.id);
    }
  } finally {
    busy = false;
    if (again) { again = false; setTimeout(refresh, 500); }
  }
}

function listen() {
  stream = new EventSource(live.dataset.events);
  stream.addEventListener("open", refresh);  // what happened since the page was made, also after a connection that broke
  stream.addEventListener("changed", refresh);
}

if (live) {
  listen();
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { stream.close(); } else { listen(); }
  });
}
