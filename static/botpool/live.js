// Keeps open pages up to date. Without JavaScript, a page shows its state at the time it loaded.
(() => {
  "use strict";

  const EVERY = 1200;
  let inFlight = false;
  let lost = false;
  let failures = 0;
  let skip = 0;

  // --- Update the page without losing focus, scroll position, input or open details -------------

  const USERS_OWN = { INPUT: ["value", "checked"], DETAILS: ["open"], OPTION: ["selected"], TIME: ["title"], A: ["data-tip", "style"] };

  function isLike(a, b) {
    return a.nodeType === b.nodeType && a.nodeName === b.nodeName && (a.id || "") === (b.id || "");
  }

  function copyAttributes(old, fresh) {
    const keep = USERS_OWN[old.nodeName] || [];
    for (const { name } of [...old.attributes]) {
      if (!fresh.hasAttribute(name) && !keep.includes(name)) old.removeAttribute(name);
    }
    for (const { name, value } of [...fresh.attributes]) {
      if (old.getAttribute(name) !== value && !keep.includes(name)) old.setAttribute(name, value);
    }
  }

  function become(old, fresh) {
    if (old.isEqualNode(fresh)) return;
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
      return;
    }
    copyAttributes(old, fresh);
    becomeChildren(old, fresh);
  }

  function becomeChildren(old, fresh) {
    const named = new Map([...old.children].filter((c) => c.id).map((c) => [c.id, c]));
    let at = old.firstChild;
    for (const wanted of [...fresh.childNodes]) {
      const known = wanted.id ? named.get(wanted.id) : null;
      if (known && known !== at) {
        old.insertBefore(known, at);
        become(known, wanted);
      } else if (at && isLike(at, wanted)) {
        const next = at.nextSibling;
        become(at, wanted);
        at = next;
      } else {
        old.insertBefore(wanted, at);
      }
    }
    while (at) {
      const next = at.nextSibling;
      at.remove();
      at = next;
    }
  }

  htmx.defineExtension("become", {
    isInlineSwap: (style) => style === "become",
    handleSwap: (style, target, fragment) => {
      if (style !== "become") return false;
      const fresh = fragment.firstElementChild;
      if (fresh) become(target, fresh);
      target.dispatchEvent(new Event("botpool:shown", { bubbles: true }));
      return [target];
    },
  });

  // --- Polling ----------------------------------------------------------------------------------

  function show(state, words) {
    const sign = document.getElementById("connection");
    if (!sign || sign.dataset.state === state) return;
    sign.dataset.state = state;
    sign.querySelector("span").textContent = words;
  }

  function tick() {
    const live = document.getElementById("live");
    if (!live || lost) return;
    if ("settled" in live.dataset) return show("live", "Up to date");
    if (document.hidden) return show("paused", "Paused");
    if (inFlight || skip-- > 0) return;
    skip = 0;
    htmx.trigger(live, "tick");
  }

  document.addEventListener("htmx:configRequest", (event) => {
    const live = document.getElementById("live");
    if (event.detail.elt !== live) return;
    event.detail.parameters.live = live.dataset.version;
    inFlight = true;
  });

  document.addEventListener("htmx:afterRequest", (event) => {
    if (event.detail.elt.id !== "live") return;
    inFlight = false;
    const status = event.detail.xhr.status;
    if (status === 401 || status === 403) {
      lost = true;
      show("lost", "Logged out: reload the page");
    } else if (event.detail.successful) {
      failures = 0;
      show("live", "Live");
    } else {
      failures += 1;
      skip = Math.min(failures, 4);
      show("lost", "Connection lost, retrying");
    }
  });

  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) tick();
  });

  document.addEventListener("DOMContentLoaded", () => {
    const live = document.getElementById("live");
    if (live) show("live", "Live");
    setInterval(tick, EVERY);
  });
})();
