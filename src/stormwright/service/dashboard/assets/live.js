// Without this file every page works; with it, figures change where they stand.
"use strict";

const namesOfParts = (page) => [...page.querySelectorAll("[data-live]")].map((part) => part.id).join();

const refresh = async () => {
  const answer = await fetch(location.href, { headers: { accept: "text/html" } });
  if (!answer.ok || answer.redirected) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  const content = document.getElementById("content");
  const isInUse = content !== document.activeElement && content.contains(document.activeElement);
  // Parts have come or gone, as when the first data arrive: the whole page is another one.
  if (namesOfParts(fresh) !== namesOfParts(document) && !isInUse) {
    content.replaceChildren(...fresh.getElementById("content").childNodes);
  }
  for (const part of document.querySelectorAll("[data-live]")) {
    const next = fresh.getElementById(part.id);
    if (!next || next.innerHTML === part.innerHTML) continue;
    // Nobody is interrupted: what has the focus, or a selection in it, stays as it is until the next change.
    const chosen = getSelection();
    if (part.contains(document.activeElement) || (!chosen.isCollapsed && part.contains(chosen.anchorNode))) continue;
    const opened = [...part.querySelectorAll("details[open]")].map((each) => each.id);
    part.replaceChildren(...next.childNodes);
    for (const name of opened) if (name) document.getElementById(name)?.setAttribute("open", "");
  }
  remember();
};

const state = document.getElementById("live");
const gone = document.getElementById("gone");
let reachedAt = new Date();
// An answer has come: the page shows the present. Without one it looks like the past that it is.
const reached = () => {
  reachedAt = new Date();
  document.body.classList.remove("stale");
  gone.hidden = true;
  state.textContent = "live";
  state.className = "mark good";
};
const lost = () => {
  document.body.classList.add("stale");
  gone.hidden = false;
  gone.textContent = `Not reached since ${reachedAt.toLocaleTimeString()}: the service does not answer. This page shows what was known then.`;
  state.textContent = "not reached";
  state.className = "mark bad";
};

let version = null;
let busy = false;
// A line comes at least each 20 s; after twice that the connection is dead, whatever the browser thinks of it.
let beat = null;
let broken = null;
const heard = () => {
  clearTimeout(beat);
  clearTimeout(broken);
  beat = setTimeout(lost, 45000);
  broken = null;
  reached();
};
const listen = () => {
  const events = new EventSource("/live");
  events.addEventListener("version", async (event) => {
    heard();
    if (version !== null && event.data !== version && !busy) {
      busy = true;
      try { await refresh(); } catch { lost(); } finally { busy = false; }
    }
    version = event.data;
  });
  events.addEventListener("beat", heard);
  // The service ends a stream now and then, and the browser begins the next one after some seconds.
  events.onerror = () => {
    broken ??= setTimeout(lost, 8000);
    if (events.readyState === EventSource.CLOSED) setTimeout(listen, 5000);
  };
};
if (state) listen();

// A name that was given once need not be given again.
const remember = () => {
  for (const field of document.querySelectorAll("input[name=by]")) {
    try { field.value ||= localStorage.getItem("by") ?? ""; } catch { /* the browser keeps nothing */ }
  }
};
remember();
document.addEventListener("change", (event) => {
  if (event.target.name !== "by") return;
  try { localStorage.setItem("by", event.target.value); } catch { /* as above */ }
});
document.addEventListener("click", (event) => {
  const button = event.target.closest?.("button[data-sure]");
  if (button?.form.checkValidity() && !confirm(button.dataset.sure)) event.preventDefault();
});
