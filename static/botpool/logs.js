// Logs: copy one, and stay at its end while it grows, unless the reader has scrolled up.
(() => {
  "use strict";

  const NEAR = 24;
  const atEnd = new WeakMap();

  function isAtEnd(log) {
    return log.scrollHeight - log.scrollTop - log.clientHeight < NEAR;
  }

  function showEnds() {
    for (const log of document.querySelectorAll("[data-log]")) {
      if (atEnd.get(log) !== false) log.scrollTop = log.scrollHeight;
    }
  }

  function textOf(log) {
    return [...log.querySelectorAll(".line")].map((line) => {
      const time = line.querySelector("time");
      const words = line.textContent.replace(/\n$/, "");
      return time ? `${time.dateTime}${words.slice(time.textContent.length)}` : words;
    }).join("\n");
  }

  document.addEventListener("scroll", (event) => {
    if (event.target.matches?.("[data-log]")) atEnd.set(event.target, isAtEnd(event.target));
  }, true);

  document.addEventListener("click", async (event) => {
    const button = event.target.closest?.("[data-copy]");
    const log = button?.parentElement.parentElement.querySelector("[data-log]");
    if (!log) return;
    try {
      await navigator.clipboard.writeText(textOf(log));
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(log); // no clipboard without HTTPS: the reader copies it
      button.textContent = "Selected";
    }
    setTimeout(() => (button.textContent = "Copy"), 2000);
  });

  document.addEventListener("botpool:shown", showEnds);
  document.addEventListener("DOMContentLoaded", showEnds);
})();
