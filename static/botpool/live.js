// Keeps open pages up to date. Without JavaScript, a page shows its state at the time it loaded.
(() => {
  "use strict";

  const EVERY = 1200;
  let inFlight = false;
  let lost = false;
  let failures = 0;
  let skip = 0;

  // --- Update the page without losing focus, scroll position, input or open details -------------

  const USERS_OWN = { INPUT: ["value", "checked"], DETAILS: ["open"], OPTION: ["selected"] };

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
      tellTimes(target);
      return [target];
    },
  });

  // --- Ages and countdowns ----------------------------------------------------------------------

  function inWords(seconds) {
    const s = Math.max(0, Math.round(seconds));
    if (s < 60) return `${s} s`;
    if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
    if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
    return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
  }

  const WORDS = {
    ago: (seconds) => `${inWords(seconds)} ago`,
    age: (seconds) => inWords(seconds),
    for: (seconds) => `for ${inWords(seconds)}`,
    until: (seconds) => (seconds < 0 ? `in ${inWords(-seconds)}` : "now"),
  };

  function tellTimes(root) {
    for (const time of root.querySelectorAll("time[datetime]")) {
      const kind = Object.keys(WORDS).find((name) => name in time.dataset);
      if (!time.title) time.title = time.dateTime.replace("T", " ").replace("Z", " UTC");
      if (!kind) continue;
      const words = WORDS[kind]((Date.now() - Date.parse(time.dateTime)) / 1000);
      if (time.textContent !== words) time.textContent = words;
    }
  }

  // --- Polling ----------------------------------------------------------------------------------

  function show(state, words) {
    const sign = document.getElementById("connection");
    if (!sign || sign.dataset.state === state) return;
    sign.dataset.state = state;
    sign.querySelector("span").textContent = words;
  }

  function tick() {
    tellTimes(document);
    const live = document.getElementById("live");
    if (!live || lost) return;
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

  // --- Select all -------------------------------------------------------------------------------

  document.addEventListener("change", (event) => {
    const all = event.target.closest("[data-select-all]");
    if (!all) return;
    const boxes = document.querySelectorAll(`input[name="${all.dataset.selectAll}"]`);
    for (const box of boxes) box.checked = all.checked;
  });

  document.addEventListener("DOMContentLoaded", () => {
    tellTimes(document);
    const live = document.getElementById("live");
    if (live) show("live", "Live");
    setInterval(tick, EVERY);
  });
})();
