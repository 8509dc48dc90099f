// Curves of a job: resources from the feed `usage:…`, scalars of its TensorBoard every few seconds.
const plots = new Map();

function short(value) {
  const size = Math.abs(value);
  return size && (size < 1e-3 || size >= 1e6) ? value.toExponential(2) : String(Number(value.toPrecision(4)));
}

function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; Math.abs(value) >= 1024 && unit < 4; unit++) value /= 1024;
  return Number(value.toPrecision(4)) + " " + units[unit];
}

const clock = seconds => new Date(seconds * 1000).toTimeString().slice(0, 8);

// Resources are amounts, so their axes begin at zero; a few samples do not fill the whole width.
const POWERS_OF_TWO = Array.from({length: 60}, (_, power) => 2 ** power);
const fromZero = (_, low, high) => [0, high * 1.1 || 1];
const lastMinute = ({data: [times]}) => [Math.min(times[0], times.at(-1) - 60), times.at(-1)];

// One chart in `host`, drawn anew only when its curves are others than before.
function draw(host, title, labels, data, {time = false, format = short} = {}) {
  const id = host.id + "/" + title, names = JSON.stringify(labels);
  let plot = plots.get(id);
  if (plot && plot.names === names) { plot.setData(data); return; }
  plot?.figure.remove();
  const figure = document.createElement("figure"), caption = document.createElement("figcaption");
  caption.textContent = title;
  figure.className = "panel";
  figure.append(caption);
  host.append(figure);
  plot = new uPlot({
    width: Math.max(200, figure.clientWidth - 32), height: 180, cursor: {points: {size: 6}}, scales: time ? {x: {time, range: lastMinute}, y: {range: fromZero}} : {x: {time}, y: {range: (_, low, high) => low === high ? [Math.min(0, low), Math.max(0, high) || 1] : uPlot.rangeNum(low, high, 0.1, true)}},
    axes: [chartStyle.axis(time ? {space: 70, values: (_, ticks) => ticks.map(clock)} : {}),
      chartStyle.values(format, format === bytes ? {incrs: POWERS_OF_TWO} : {})],
    series: [{label: time ? "time" : "step", value: chartStyle.latest((_, v) => time ? clock(v) : v)}, ...labels.map((label, i) => ({
      label, stroke: () => chartStyle.colour(`--job-${i % 8}`), width: 1.5, spanGaps: true, value: chartStyle.latest((_, v) => format(v)),
      points: {show: (u, row) => u.data[row].filter(v => v != null).length < 2}, dash: i >= 8 ? [4, 4] : undefined}))],
  }, data, figure);
  Object.assign(plot, {names, figure});
  plots.set(id, plot);
}

function resize() {
  for (const plot of plots.values())
    plot.setSize({width: Math.max(200, plot.figure.clientWidth - 32), height: 180});
}

const usage = document.getElementById("usage"), samples = [];
const {prefix} = document.getElementById("logs").dataset;
const withoutJob = pod => pod.startsWith(prefix) ? pod.slice(prefix.length) : pod;
const RESOURCES = [["cpu", "CPU cores"], ["memory", "Memory", bytes], ["gpu", "Busy GPUs"], ["gpu_memory", "GPU memory", bytes]];
usage.addEventListener("feed", ({detail: {message: data, error}}) => {
  const note = usage.querySelector("p");
  if (error) { note.textContent = error; return; }
  samples.push(...data.filter(sample => !samples.length || sample.at > samples.at(-1).at));
  samples.splice(0, samples.length - 720);
  let drawn = false;
  for (const [name, title, format] of RESOURCES) {
    const labels = [...new Set(samples.flatMap(sample => Object.keys(sample.values[name] || {})))].sort();
    if (!labels.length) continue;
    drawn = true;
    draw(usage, title, labels.map(withoutJob), [samples.map(s => s.at), ...labels.map(l => samples.map(s => s.values[name]?.[l] ?? null))], {time: true, format});
  }
  note.textContent = drawn ? "" : "No pod runs, so there is nothing to measure.";
});
usage.dataset.topic = `usage:${usage.dataset.job}/${crypto.randomUUID()}`;
live.announce();

const scalars = document.getElementById("scalars");
async function refresh() {
  const has = "tensorboard" in document.getElementById("job").dataset;
  document.getElementById("scalars-section").hidden = !has;
  if (!has || document.hidden) return;
  const answer = await fetch(scalars.dataset.source).catch(() => null);
  if (!answer || !answer.ok) return;
  const {charts, problem} = await answer.json();
  scalars.querySelector("p").textContent = problem || (charts.length ? "" : "It has no scalars yet.");
  for (const {tag, runs, steps, values} of charts) draw(scalars, tag, runs, [steps, ...values]);
}
(async function loop() {
  await refresh();
  setTimeout(loop, 5000);
})();
addEventListener("resize", resize);
chartStyle.onThemeChange(() => plots.forEach(plot => plot.redraw()));
