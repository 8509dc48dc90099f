// Runs before the page is drawn, so that it does not flash in the other theme.
"use strict";
{
  const chosen = localStorage.getItem("theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
}
