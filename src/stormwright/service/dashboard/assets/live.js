// Without this file every page works; with it, figures change where they stand.
"use strict";

const refresh = async () => {
  const answer = await fetch(location.href, { headers: { accept: "text/html" } });
  if (!answer.ok || answer.redirected) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
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
const tell = (text, kind) => {
  if (!state) return;
  state.textContent = text;
  state.className = `mark ${kind}`;
};

let seen = null;
let busy = false;
const listen = () => {
  const events = new EventSource("/live");
  events.addEventListener("version", async (event) => {
    tell("live", "good");
    if (seen !== null && event.data !== seen && !busy) {
      busy = true;
      try { await refresh(); } catch { tell("not reached", "bad"); } finally { busy = false; }
    }
    seen = event.data;
  });
  events.onerror = () => {
    tell("not reached", "bad");
    if (events.readyState === EventSource.CLOSED) setTimeout(listen, 30000);
  };
};
listen();

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
