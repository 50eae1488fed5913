// Shows times in the reader's zone, with UTC on hover, and keeps ages and countdowns up to date.
// Without JavaScript, each time is shown in UTC and says so.
(() => {
  "use strict";

  const EVERY = 1000;
  const CLOCK = { hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short" };
  const today = new Intl.DateTimeFormat("en-GB", CLOCK);
  const thisYear = new Intl.DateTimeFormat("en-GB", { ...CLOCK, day: "numeric", month: "short" });
  const second = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
  const anyDay = new Intl.DateTimeFormat("en-GB", {
    ...CLOCK, day: "numeric", month: "short", year: "numeric",
  });

  function inWords(seconds) {
    const s = Math.max(0, Math.round(seconds));
    if (s < 60) return `${s} s`;
    if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
    if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
    return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
  }

  function clock(moment) {
    const now = new Date();
    if (moment.toDateString() === now.toDateString()) return today.format(moment);
    const format = moment.getFullYear() === now.getFullYear() ? thisYear : anyDay;
    return format.format(moment).replace(",", "");
  }

  // From the moment and the seconds since then to what is shown.
  const WORDS = {
    ago: (moment, seconds) => `${inWords(seconds)} ago`,
    age: (moment, seconds) => inWords(seconds),
    for: (moment, seconds) => `for ${inWords(seconds)}`,
    until: (moment, seconds) => (seconds < 0 ? `in ${inWords(-seconds)}` : "now"),
    at: (moment, seconds) => (seconds < 0 ? `in ${inWords(-seconds)}` : `at ${clock(moment)}`),
    clock: (moment) => clock(moment),
    second: (moment) => second.format(moment),
  };

  function onHover(time, moment) {
    const utc = time.dateTime.replace("T", " ").replace("Z", " UTC");
    return `${anyDay.format(moment).replace(",", "")} · ${utc}`;
  }

  function tellTimes(root) {
    for (const time of root.querySelectorAll("time[datetime]")) {
      const kind = Object.keys(WORDS).find((name) => name in time.dataset);
      if (!kind) continue;
      const moment = new Date(time.dateTime);
      const words = WORDS[kind](moment, (Date.now() - moment) / 1000);
      if (time.textContent !== words) time.textContent = words;
      if (!time.title) time.title = onHover(time, moment);
    }
  }

  // --- The admin writes times as text (botpool/formats) -------------------------------------------

  const WRITTEN = /^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d) UTC$/;

  function markTimes() {
    for (const box of document.querySelectorAll("#content td, #content .readonly")) {
      const found = WRITTEN.exec(box.textContent.trim());
      if (!found) continue;
      const time = document.createElement("time");
      time.dateTime = `${found[1]}T${found[2]}Z`;
      time.dataset.clock = "";
      time.textContent = box.textContent;
      box.replaceChildren(time);
    }
  }

  // --- Cells of the slot grid: how long it has been so, and how far a start is -------------------

  function tellAge(event) {
    const cell = event.target.closest?.("[data-since]");
    if (!cell) return;
    const age = inWords(Date.now() / 1000 - cell.dataset.since);
    cell.dataset.tip = `${cell.getAttribute("aria-label")}, for ${age}`;
  }

  function showProgress() {
    for (const cell of document.querySelectorAll("[data-expected]")) {
      const share = (Date.now() / 1000 - cell.dataset.since) / cell.dataset.expected;
      cell.style.setProperty("--done", `${Math.round(100 * Math.min(Math.max(share, 0), 1))}%`);
    }
  }

  document.addEventListener("pointerover", tellAge);
  document.addEventListener("focusin", tellAge);
  document.addEventListener("botpool:shown", showProgress);
  document.addEventListener("DOMContentLoaded", () => {
    showProgress();
    setInterval(() => document.hidden || showProgress(), EVERY);
  });

  document.addEventListener("botpool:shown", (event) => tellTimes(event.target));
  document.addEventListener("DOMContentLoaded", () => {
    markTimes();
    tellTimes(document);
    setInterval(() => document.hidden || tellTimes(document), EVERY);
  });
})();
