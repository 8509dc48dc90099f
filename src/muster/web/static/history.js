// The curves of /history. The numbers are in #curves, which is replaced when a job changes.
"use strict";

const seconds = value => value < 120 ? `${Math.round(value)}s` : value < 7200 ? `${Math.round(value / 60)}m` : `${(value / 3600).toFixed(1)}h`;
const whole = value => Number.isInteger(value) ? value.toLocaleString("en") : value.toFixed(1);
const WHOLE_NUMBERS = [1, 10, 100, 1000, 1e4, 1e5].flatMap(power => [power, 2 * power, 5 * power]);
const charts = new Map();

// `least` is the lowest top of the chart.
function plot(id, data, least, curves, words, increments) {
  const made = charts.get(id);
  if (made) {
    made.least = least;
    made.plot.setData(data);
    return;
  }
  const host = document.getElementById(id), chart = {least};
  const time = (u, form) => new Date(form * 1000).toTimeString().slice(0, u.data[0].at(-1) - u.data[0][0] < 900 ? 8 : 5);
  charts.set(id, chart);
  chart.plot = new uPlot({
    width: host.clientWidth, height: 160,
    scales: {y: {range: (u, low, high) => [0, Math.max(chart.least, high * 1.1 || 0)]}},
    axes: [chartStyle.axis({space: 64, values: (u, rows) => rows.map(row => time(u, row))}), chartStyle.values(words, {incrs: increments})],
    series: [{value: chartStyle.latest((u, row) => time(u, row))}, ...curves.map(({label, tone, bars}) => ({
      label, stroke: () => chartStyle.colour(tone), width: 2, fill: bars ? undefined : () => chartStyle.colour(tone) + "22",
      points: {show: Boolean(bars), size: 6}, value: chartStyle.latest((u, row) => words(row)),
    }))],
  }, data, host);
}

function draw() {
  const {jobs, gpus, curves} = document.getElementById("curves").dataset;
  const {times, ...rows} = JSON.parse(curves);
  document.getElementById("charts").hidden = jobs === "0";
  if (jobs === "0") return;
  document.getElementById("gpus").hidden = !gpus;
  if (gpus) plot("chart-gpus", [times, rows.gpus], Number(gpus) || 1, [{label: "in use", tone: "--job-0"}], whole, WHOLE_NUMBERS);
  plot("chart-jobs", [times, rows.running, rows.waiting], 1,
    [{label: "running", tone: "--job-2"}, {label: "waiting", tone: "--job-1"}], whole, WHOLE_NUMBERS);
  plot("chart-waits", [times, rows.waits], 10, [{label: "mean", tone: "--job-5", bars: true}], seconds);
}

draw();
document.body.addEventListener("htmx:afterSettle", draw);
addEventListener("resize", () => charts.forEach(({plot}, id) => plot.setSize({width: document.getElementById(id).clientWidth, height: 160})));
chartStyle.onThemeChange(() => charts.forEach(({plot}) => plot.redraw()));
