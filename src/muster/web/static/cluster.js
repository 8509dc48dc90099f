// The map: a tooltip for the cell under the pointer or with the focus, and the other cells of the
// same job stay bright while the rest of the map fades. Names are text: textContent, CSS.escape.
"use strict";
{
  const tip = document.createElement("div");
  tip.className = "tooltip";
  tip.hidden = true;
  tip.setAttribute("aria-hidden", "true");  // a screen reader has the same text as a label
  document.body.append(tip);
  const fading = new CSSStyleSheet();
  document.adoptedStyleSheets.push(fading);

  const cell = element => element.closest?.("#cluster :is(a.run, [data-tip], .cpus a, .tile)");

  function show(target) {
    const text = target.dataset.tip || target.getAttribute("aria-label");
    if (tip.textContent !== text) tip.textContent = text;
    tip.hidden = false;
    const box = target.getBoundingClientRect(), own = tip.getBoundingClientRect();
    const left = Math.min(Math.max(8, box.left), innerWidth - own.width - 8);
    const below = box.bottom + 6 + own.height < innerHeight;
    tip.style.left = left + "px";
    tip.style.top = (below ? box.bottom + 6 : box.top - own.height - 6) + "px";
    const address = target.getAttribute("href");
    const own_job = address && `:not([href="${CSS.escape(address)}"])`;
    fading.replaceSync(address ? `#cluster :is(.nodes, .tiles) :is(a.run, span.run.job-7, .cpus a, .cpus > rect)${own_job} { opacity: .25; }` : "");
  }

  function hide() {
    tip.hidden = true;
    fading.replaceSync("");
  }

  for (const name of ["pointerover", "focusin"])
    document.addEventListener(name, event => {
      const target = cell(event.target);
      if (target) show(target); else hide();
    });
  document.addEventListener("focusout", hide);
  document.addEventListener("scroll", hide, {passive: true});
  document.addEventListener("keydown", event => { if (event.key === "Escape") hide(); });
}
