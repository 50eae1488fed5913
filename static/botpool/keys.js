// Keyboard shortcuts, and the dialog that lists them. Every one of them has a link or button, too.
(() => {
  "use strict";

  const TOGETHER = 1500; // ms in which the second key of a pair has to follow
  let before = "";
  let timer = 0;

  function isTyping(element) {
    return element.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(element.tagName);
  }

  function showHelp() {
    const help = document.getElementById("shortcuts");
    if (help && !help.open) help.showModal();
  }

  function search() {
    const box = document.getElementById("search");
    box.focus();
    box.select();
  }

  function go(key) {
    const link = document.querySelector(`nav a[data-key="${key}"]`);
    if (link) link.click();
    return Boolean(link);
  }

  function remember(key) {
    before = key;
    clearTimeout(timer);
    timer = setTimeout(() => { before = ""; }, TOGETHER);
  }

  function act(key) {
    if (before === "g") {
      remember("");
      return go(key);
    }
    if (key === "g") remember("g");
    else if (key === "/") search();
    else if (key === "?") showHelp();
    else if (key === "c") document.querySelector("[data-density]")?.click();
    else return false;
    return true;
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (document.querySelector("dialog[open]")) return;
    if (act(event.key)) event.preventDefault();
  });

  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-help]")) showHelp();
    if (event.target.closest("[data-close]")) event.target.closest("dialog").close();
  });

  // --- Rows: compact or not, remembered in this browser -------------------------------------------

  const DENSITY = "botpool-density";

  function showDensity(isCompact) {
    document.documentElement.classList.toggle("compact", isCompact);
    const button = document.querySelector("[data-density]");
    if (button) button.setAttribute("aria-pressed", String(isCompact));
  }

  function remembered() {
    try {
      return localStorage.getItem(DENSITY) === "compact";
    } catch {
      return false; // storage is switched off
    }
  }

  document.addEventListener("click", (event) => {
    if (!event.target.closest("[data-density]")) return;
    const isCompact = !document.documentElement.classList.contains("compact");
    showDensity(isCompact);
    try {
      localStorage.setItem(DENSITY, isCompact ? "compact" : "");
    } catch {
      // It lasts until the next page.
    }
  });

  // --- Selected rows ------------------------------------------------------------------------------

  function boxes() {
    return [...document.querySelectorAll('form.selection input[name="item"]')];
  }

  function showSelected() {
    const chosen = boxes().filter((box) => box.checked).length;
    const all = Boolean(document.querySelector('form.selection input[name="all"]:checked'));
    for (const note of document.querySelectorAll("[data-selected]")) {
      note.textContent = all ? "All selected" : chosen ? `${chosen} selected` : "None selected";
      note.closest(".actions").classList.toggle("chosen", all || chosen > 0);
      note.closest(".actions").classList.toggle("none", !all && chosen === 0);
    }
  }

  // With Shift, a click also selects the rows between this one and the one clicked before.
  let lastClicked = null;

  document.addEventListener("click", (event) => {
    const box = event.target;
    if (!box.matches('form.selection input[name="item"]')) return;
    const rows = boxes();
    const from = rows.indexOf(lastClicked);
    const to = rows.indexOf(box);
    if (event.shiftKey && from >= 0) {
      for (const each of rows.slice(Math.min(from, to), Math.max(from, to) + 1)) each.checked = box.checked;
    }
    lastClicked = box;
  });

  document.addEventListener("change", (event) => {
    const all = event.target.closest("[data-select-all]");
    if (all) for (const box of boxes()) box.checked = all.checked;
    if (event.target.closest("form.selection")) showSelected();
  });

  document.addEventListener("botpool:shown", showSelected);
  document.addEventListener("DOMContentLoaded", () => {
    showDensity(remembered());
    showSelected();
  });
})();
