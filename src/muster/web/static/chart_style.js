// The look that all charts share: the colours of the theme, the axes, the legend, and a new drawing in another theme.
"use strict";

const chartStyle = {
  colour: name => getComputedStyle(document.documentElement).getPropertyValue(name).trim(),

  // uPlot asks these functions again at every redraw, so an axis follows the theme.
  axis: options => ({
    stroke: () => chartStyle.colour("--quiet"),
    grid: {stroke: () => chartStyle.colour("--line"), width: 1},
    ticks: {show: false},
    font: "11px system-ui, sans-serif",
    size: 28,
    ...options,
  }),

  // The axis on the left, as wide as its words.
  values: (words, options) => chartStyle.axis({
    values: (_, ticks) => ticks.map(words),
    space: 20,
    size: (_, texts) => 16 + 7 * Math.max(1, ...(texts || []).map(text => text.length)),
    ...options,
  }),

  // The value under the pointer, or else the newest one.
  latest: words => (plot, value, series, index) => {
    const shown = index == null ? plot.data[series].findLast(row => row != null) : value;
    return shown == null ? "–" : words(plot, shown);
  },

  onThemeChange(redraw) {
    document.getElementById("theme").addEventListener("click", redraw);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  },
};
