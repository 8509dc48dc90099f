// The look that all charts share: the colours of the theme, the axes, and a new drawing in another theme.
"use strict";

const chartStyle = {
  colour: name => getComputedStyle(document.documentElement).getPropertyValue(name).trim(),

  // uPlot asks these functions again at every redraw, so an axis follows the theme.
  axis: options => ({
    stroke: () => chartStyle.colour("--quiet"),
    grid: {stroke: () => chartStyle.colour("--line"), width: 1},
    ticks: {show: false},
    font: "11px system-ui, sans-serif",
    ...options,
  }),

  onThemeChange(redraw) {
    document.getElementById("theme").addEventListener("click", redraw);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  },
};
