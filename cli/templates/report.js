
"use strict";
(() => {
  const root = document.documentElement;
  const theme = document.getElementById("theme");
  const isDark = () => root.dataset.theme === "dark" || (!root.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  const setTheme = (name) => {
    root.dataset.theme = name;
    theme.setAttribute("aria-pressed", String(name === "dark"));
  };
  theme.hidden = false;
  theme.setAttribute("aria-pressed", String(isDark()));
  theme.addEventListener("click", () => setTheme(isDark() ? "light" : "dark"));

  const tools = document.getElementById("tools");
  const search = document.getElementById("search");
  const shown = document.getElementById("shown");
  const filters = [...document.querySelectorAll("button.filter")];
  const lists = [["finding", document.querySelectorAll("details.finding")], ["test", document.querySelectorAll("details.test")]]
    .map(([noun, all]) => ({ noun, all: [...all], heading: document.getElementById(`${noun}s`), texts: null }));
  const isOn = (button) => button.getAttribute("aria-pressed") === "true";

  const update = () => {
    const wanted = search.value.trim().toLowerCase();
    const verdicts = new Set(filters.filter(isOn).map((it) => it.dataset.verdict));
    const told = [];
    for (const list of lists) {
      if (!list.all.length) continue;
      // Read once, and only if anybody searches.
      if (wanted && !list.texts) list.texts = list.all.map((it) => it.textContent.toLowerCase());
      let count = 0;
      list.all.forEach((entry, at) => {
        const fits = verdicts.has(entry.dataset.verdict) && (!wanted || list.texts[at].includes(wanted));
        if (entry.hidden === fits) entry.hidden = !fits;
        if (fits) count += 1;
      });
      list.heading.hidden = count === 0;
      told.push(`${count} of ${list.all.length} ${list.noun}${list.all.length === 1 ? "" : "s"}`);
    }
    shown.textContent = `${told.join(", ")} shown`;
  };
  const fold = (open) => lists.forEach((list) => list.all.forEach((it) => { if (!open || !it.hidden) it.open = open; }));

  // A link to a view, `#search=adam&verdict=leaked&unfold`, or to one place, `#finding-3`.
  const go = () => {
    const hash = location.hash.slice(1);
    const place = /^[a-z]+(-\d+)?$/.test(hash) && document.getElementById(hash);
    if (place) {
      if (place.tagName === "DETAILS") {
        place.hidden = false;
        place.open = true;
      }
      place.scrollIntoView();
      return;
    }
    const view = new URLSearchParams(hash);
    if (view.has("theme")) setTheme(view.get("theme") === "dark" ? "dark" : "light");
    if (!tools) return;
    if (view.has("search")) search.value = view.get("search");
    if (view.has("verdict")) {
      const verdicts = view.getAll("verdict");
      filters.forEach((it) => it.setAttribute("aria-pressed", String(verdicts.includes(it.dataset.verdict))));
    }
    update();
    if (view.has("unfold")) fold(true);
  };

  if (tools) {
    tools.hidden = false;
    filters.forEach((button) => button.addEventListener("click", () => {
      button.setAttribute("aria-pressed", String(!isOn(button)));
      update();
    }));
    search.addEventListener("input", update);
    document.getElementById("unfold-shown").addEventListener("click", () => fold(true));
    document.getElementById("fold-all").addEventListener("click", () => fold(false));
    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "/" && document.activeElement !== search) {
        event.preventDefault();
        search.focus();
      } else if (event.key === "Escape" && document.activeElement === search) {
        search.value = "";
        update();
      }
    });
    update();
  }
  addEventListener("hashchange", go);
  go();
})();
