// The curves of /history. The numbers are in #curves, which is replaced when a job changes.
"use strict";

const seconds = value => value < 120 ? `${Math.round(value)}s` : value < 7200 ? `${Math.round(value / 60)}m` : `${(value / 3600).toFixed(1)}h`;
const charts = new Map();

function plot(id, times, curves, range, words) {
  const host = document.getElementById(id);
  const clock = times.at(-1) - times[0] < 900 ? "{HH}:{mm}:{ss}" : "{HH}:{mm}";
  const options = {
    width: host.clientWidth, height: 160,
    scales: {y: {range}},
    axes: [chartStyle.axis({space: 64, values: clock}), chartStyle.axis({size: 48, values: (u, rows) => rows.map(words)})],
    series: [{value: "{YYYY}-{MM}-{DD} {HH}:{mm}"}, ...curves.map(({label, tone, bars}) => ({
      label, stroke: chartStyle.colour(tone), width: 2, fill: bars ? undefined : chartStyle.colour(tone) + "22",
      points: {show: Boolean(bars), size: 6}, value: (u, row) => row === null ? "–" : words(row),
    }))],
  };
  charts.get(id)?.destroy();
  charts.set(id, new uPlot(options, [times, ...curves.map(({rows}) => rows)], host));
}

function draw() {
  const {gpus, curves} = document.getElementById("curves").dataset;
  const rows = JSON.parse(curves);
  const above = least => (u, low, high) => [0, Math.max(least, high * 1.1 || 0)];
  const whole = value => Number.isInteger(value) ? String(value) : value.toFixed(1);
  for (const text of document.querySelectorAll("[data-moment]"))  // in the reader's time zone
    text.textContent = new Date(text.dataset.moment).toTimeString().slice(0, text.textContent.length);
  document.getElementById("charts").hidden = false;
  plot("chart-gpus", rows.times, [{label: `of ${gpus}`, tone: "--job-0", rows: rows.gpus}], above(Number(gpus) || 1), whole);
  plot("chart-jobs", rows.times, [
    {label: "running", tone: "--job-2", rows: rows.running},
    {label: "waiting", tone: "--job-1", rows: rows.waiting},
  ], above(1), whole);
  plot("chart-waits", rows.times, [{label: "mean wait", tone: "--job-5", rows: rows.waits, bars: true}], above(10), seconds);
}

draw();
document.body.addEventListener("htmx:afterSettle", draw);
addEventListener("resize", draw);
chartStyle.onThemeChange(draw);
