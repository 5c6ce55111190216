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
  const isOn = (button) => button.getAttribute("aria-pressed") === "true";

  // The first entries of a list are elements of the page; the others are lists of lines: see
  // `long_list.rs`.
  const block = document.getElementById("rest");
  const rest = block ? JSON.parse(block.textContent) : { lines: [], findings: [], tests: [] };
  const STEP = 100;
  const listOf = (noun) => {
    const section = document.querySelector(`section[aria-labelledby=${noun}s]`);
    if (!section) return null;
    const all = [...section.children].map((element) => ({ element, status: element.dataset.status, text: null }));
    for (const [status, ...lines] of rest[`${noun}s`]) all.push({ lines, status: rest.lines[status] });
    const more = document.createElement("button");
    more.type = "button";
    const note = document.getElementById(`${noun}s-rest`);
    const list = { noun, section, all, note, more, heading: document.getElementById(`${noun}s`), fitting: all, listed: [], most: STEP };
    more.addEventListener("click", () => {
      const before = list.listed.length;
      list.most += STEP;
      show(list);
      list.listed[before]?.element.querySelector("summary").focus();
    });
    return list;
  };
  const elementOf = (entry) => {
    if (!entry.element) {
      const holder = document.createElement("template");
      holder.innerHTML = entry.lines.map((line) => rest.lines[line]).join("\n");
      entry.element = holder.content.firstElementChild;
    }
    return entry.element;
  };
  const put = (list) => {
    const elements = list.listed.map(elementOf);
    const there = list.section.children;
    if (there.length !== elements.length || elements.some((it, at) => it !== there[at])) list.section.replaceChildren(...elements);
  };
  // Shows the first of the entries that match.
  const show = (list) => {
    list.listed = list.fitting.slice(0, list.most);
    put(list);
    if (!list.note) return;
    const left = list.fitting.length - list.listed.length;
    list.note.hidden = left === 0;
    list.more.textContent = `List ${Math.min(left, STEP)} more`;
    list.note.replaceChildren(`${list.listed.length} of ${list.fitting.length} are listed.`, list.more);
  };
  const lists = ["finding", "test"].map(listOf).filter(Boolean);

  // The text of the lines without markup, made at the first search.
  let texts = null;
  const characters = { 34: '"', 38: "&", 39: "'", 60: "<", 62: ">" };
  const plain = (line) => line.replace(/<[^>]*>/g, " ").replace(/&#(\d+);/g, (all, code) => characters[code] ?? all).toLowerCase();
  const finder = (wanted) => {
    texts ??= rest.lines.map(plain);
    const lines = texts.map((text) => text.includes(wanted));
    return (entry) => {
      if (entry.lines) return entry.lines.some((line) => lines[line]);
      entry.text ??= entry.element.textContent.toLowerCase();
      return entry.text.includes(wanted);
    };
  };

  const update = () => {
    const wanted = search.value.trim().toLowerCase();
    const statuses = new Set(filters.filter(isOn).map((it) => it.dataset.status));
    const isFound = wanted ? finder(wanted) : () => true;
    const counts = [];
    for (const list of lists) {
      list.fitting = list.all.filter((it) => statuses.has(it.status) && isFound(it));
      list.most = STEP;
      show(list);
      list.heading.hidden = list.fitting.length === 0;
      counts.push(`${list.fitting.length} of ${list.all.length} ${list.noun}${list.all.length === 1 ? "" : "s"}`);
    }
    shown.textContent = `${counts.join(", ")} shown`;
  };
  const fold = (open) => lists.forEach((list) => list.listed.forEach(({ element }) => { element.open = open; }));

  // Expands the entry of `finding-3`, wherever it is.
  const unfold = (noun, number) => {
    const list = lists.find((it) => it.noun === noun);
    const entry = list?.all[number - 1];
    if (!entry) return false;
    if (!list.listed.includes(entry)) {
      const at = list.listed.findIndex((it) => list.all.indexOf(it) >= number);
      list.listed.splice(at < 0 ? list.listed.length : at, 0, entry);
      put(list);
    }
    document.querySelectorAll("details.named").forEach((it) => it.classList.remove("named"));
    entry.element.classList.add("named");
    entry.element.open = true;
    entry.element.scrollIntoView();
    return true;
  };

  // A link to a filtered view, `#search=adam&status=leaked&unfold`, or to one place, `#finding-3`.
  const go = () => {
    const hash = location.hash.slice(1);
    const place = /^(finding|test)-(\d+)$/.exec(hash);
    if (place && unfold(place[1], Number(place[2]))) return;
    if (/^[a-z]+$/.test(hash) && document.getElementById(hash)) {
      document.getElementById(hash).scrollIntoView();
      return;
    }
    const view = new URLSearchParams(hash);
    if (view.has("theme")) setTheme(view.get("theme") === "dark" ? "dark" : "light");
    if (!tools) return;
    if (view.has("search")) search.value = view.get("search");
    if (view.has("status")) {
      const statuses = view.getAll("status");
      filters.forEach((it) => it.setAttribute("aria-pressed", String(statuses.includes(it.dataset.status))));
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
    // There is no button on paper.
    addEventListener("beforeprint", () => lists.forEach((list) => {
      list.most = list.fitting.length;
      show(list);
    }));
  }
  // What was live at a call of a timeline, by its log: an allocation is [line, bytes, allocated, freed].
  root.classList.add("script");
  const grouped = (number) => number.toLocaleString("en-US");
  const cellOf = (tag, text, name) => {
    const cell = document.createElement(tag);
    cell.textContent = text;
    if (name) cell.className = name;
    if (tag === "th") cell.scope = "col";
    return cell;
  };
  const rowOf = (tag, cells) => {
    const names = ["number", "number", tag === "td" ? "name mono" : "", ""];
    const row = document.createElement("tr");
    row.append(...cells.map((text, at) => cellOf(tag, text, names[at])));
    return row;
  };
  const callsOf = ({ first, last, earlier, count }) => {
    const calls = first === last ? `call ${grouped(first)}` : `calls ${grouped(first)} to ${grouped(last)}`;
    if (earlier === count) return "before the check";
    return earlier ? `${calls}; ${grouped(earlier)} before the check` : calls;
  };
  // The lines of one layer at a call, and the allocations that its log has dropped.
  const liveIn = (course, call, names) => {
    const lines = new Map();
    let sum = 0;
    for (const [line, bytes, allocated, freed] of course.allocations) {
      if (allocated > call || (freed !== 0 && freed <= call)) continue;
      const it = lines.get(line) ?? { name: names[line], bytes: 0, count: 0, earlier: 0, first: Infinity, last: 0 };
      lines.set(line, it);
      it.bytes += bytes;
      it.count += 1;
      sum += bytes;
      if (allocated === 0) it.earlier += 1;
      else [it.first, it.last] = [Math.min(it.first, allocated), Math.max(it.last, allocated)];
    }
    const [, least, most] = course.points.findLast(([at]) => at <= call) ?? [0, course.start, course.start];
    const rest = course.lost ? Math.max(0, most - sum) : 0;
    const rows = [...lines.values()].sort((one, other) => other.bytes - one.bytes)
      .map((it) => [grouped(it.bytes), grouped(it.count), it.name, callsOf(it)]);
    if (rest) rows.push([`${least === most ? "" : "up to "}${grouped(rest)}`, "", `not in the log, which dropped ${grouped(course.lost)} allocations`, ""]);
    const total = rest && least !== most ? `${grouped(Math.max(least, sum))} to ${grouped(most)}` : grouped(sum + rest);
    return { rows, total };
  };
  const momentsOf = (box) => (box.moments ??= JSON.parse(box.dataset.moments));
  const listMoment = (box, run, call) => {
    const { runs, courses, lines } = momentsOf(box);
    const span = runs[run];
    const x = (span.left + span.width * call / (span.calls + 1)).toFixed(1);
    box.closest("figure").querySelector(".cursor").setAttribute("d", `M${x} 18V156`);
    const tables = courses.filter((course) => course.run === run).flatMap((course) => {
      const { rows, total } = liveIn(course, call, lines);
      const when = call === 0 ? "before the first call" : `after call ${grouped(call)} of ${grouped(span.calls)}`;
      const title = `${total} bytes of ${course.layer} were live ${when}, ${span.name}`;
      const table = document.createElement("table");
      table.createTHead().append(rowOf("th", ["bytes", "allocations", "line", "allocated by"]));
      table.createTBody().append(...rows.map((cells) => rowOf("td", cells)));
      const scroll = cellOf("div", "", "scroll");
      scroll.tabIndex = 0;
      scroll.role = "group";
      scroll.ariaLabel = title;
      scroll.append(table);
      return [cellOf("h3", title), ...(rows.length ? [scroll] : [])];
    });
    box.querySelector(".live").replaceChildren(...tables);
  };
  document.addEventListener("click", (event) => {
    const svg = event.target.closest(".plot svg");
    const box = svg?.closest("figure").querySelector(".moments");
    if (!box) return;
    const { runs } = momentsOf(box);
    const { x } = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    const run = Math.max(0, runs.findLastIndex((span) => span.left <= x));
    const { left, width, calls } = runs[run];
    const call = Math.min(calls, Math.max(0, Math.floor((x - left) / width * (calls + 1))));
    const before = runs.slice(0, run).reduce((sum, span) => sum + span.calls + 1, 0);
    box.querySelector("input").value = before + call;
    listMoment(box, run, call);
  });
  document.addEventListener("input", (event) => {
    const box = event.target.closest(".moments");
    if (!box) return;
    const { runs } = momentsOf(box);
    let [call, run] = [Number(event.target.value), 0];
    while (call > runs[run].calls) call -= runs[run++].calls + 1;
    listMoment(box, run, call);
  });
  addEventListener("hashchange", go);
  go();
})();
