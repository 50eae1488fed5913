// Draws the charts of the history page with uPlot, in the page's colours and the reader's zone.
(() => {
  "use strict";

  const HEIGHT = 220;

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  }

  const seconds = (plot, value) => (value == null ? "–" : `${Math.round(value * 10) / 10} s`);
  const number = (plot, value) => (value == null ? "–" : `${Math.round(value * 10) / 10}`);

  function line(label, values, tone, more = {}) {
    const stroke = colour(tone);
    return { values, series: { label, stroke, width: 2, spanGaps: false, value: number, ...more } };
  }

  const TONES = ["error", "deploying", "waiting", "busy", "stopping", "idle"];
  const bars = (tone) => ({
    paths: uPlot.paths.bars({ size: [0.8, 40] }), points: { show: false }, fill: colour(tone), width: 0,
  });

  const LINES = {
    load: (data) => [
      line("In use", data.in_use, "busy", { fill: `${colour("busy")}22` }),
      line("Waiting", data.waiting, "waiting"),
      line("Capacity", data.capacity, "stopping", { dash: [6, 4] }),
    ],
    waits: (data) => [
      line("p50", data.wait_p50, "busy", { value: seconds }),
      line("p95", data.wait_p95, "error", { value: seconds }),
    ],
    starts: (data) => [
      line("Warm", data.warm_starts, "idle", bars("idle")),
      line("Cold", data.cold_starts, "deploying"),
    ],
    durations: (data) => [
      line("Warm", data.start_warm, "idle", { value: seconds }),
      line("Cold", data.start_cold, "deploying", { value: seconds }),
    ],
    failures: (data) => data.causes.map((cause, index) =>
      line(cause.name, cause.values, TONES[index % TONES.length], index ? {} : bars(TONES[0]))),
  };
  // There is no half a bot.
  const COUNTS = [1, 10, 100, 1000, 10000].flatMap((power) => [power, 2 * power, 5 * power]);
  const UNITS = { waits: " s", durations: " s" };

  // 24 hours, as everywhere else on these pages.
  const hours = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
  const days = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
  const both = (at) => `${days.format(at)} ${hours.format(at)}`;

  function whenOf(data) {
    const length = data.at[data.at.length - 1] - data.at[0];
    const format = length > 2 * 86400 ? days : hours;
    return (plot, ticks) => ticks.map((at) => format.format(new Date(at * 1000)));
  }

  function axis(more) {
    const faint = { stroke: colour("line"), width: 1 };
    return { stroke: colour("soft"), grid: faint, ticks: faint, ...more };
  }

  function draw(box, data) {
    const kind = box.dataset.plot;
    const lines = LINES[kind](data);
    const unit = UNITS[kind] || "";
    const options = {
      width: box.clientWidth,
      height: HEIGHT,
      cursor: { sync: { key: "history" }, drag: { x: true, y: false } },
      scales: { y: { range: (plot, low, high) => [0, Math.max(high * 1.1, 1)] } },
      series: [{ label: "Time", value: (plot, at) => (at ? both(new Date(at * 1000)) : "–") }, ...lines.map((each) => each.series)],
      axes: [axis({ values: whenOf(data) }), axis({ size: 64, incrs: unit ? undefined : COUNTS, values: (plot, ticks) => ticks.map((t) => `${t}${unit}`) })],
    };
    box.replaceChildren();
    return new uPlot(options, [data.at, ...lines.map((each) => each.values)], box);
  }

  function drawAll() {
    const found = document.getElementById("history-data");
    if (!found) return;
    const data = JSON.parse(found.textContent);
    for (const box of document.querySelectorAll("[data-plot]")) {
      const words = box.closest("section").querySelector("h2").textContent;
      draw(box, data);
      box.setAttribute("role", "img");
      box.setAttribute("aria-label", `${words}: a chart. The table below has the same numbers.`);
    }
  }

  let timer = 0;
  addEventListener("resize", () => {
    clearTimeout(timer);
    timer = setTimeout(drawAll, 150);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  document.addEventListener("DOMContentLoaded", drawAll);
})();
