"use strict";
// What all pages of this project share: data, tables, plots, and a browser of episodes.
// A page says what is its own in PAGE (see evaluation.js), and calls openReport() at its end.
// All text goes into the page as text nodes; nothing that a model wrote is ever read as markup.
const at = (id) => document.getElementById(id);
const PER_PAGE = 50;
const state = {};
let report, episodes, byKey, shown = [], page = 0, sought = null;

function make(tag, kind, ...children) {
  const element = document.createElement(tag);
  if (kind) element.className = kind;
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

function draw(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const words = (name) => name.replaceAll("_", " ");
const many = (count) => count.toLocaleString("en");
const counted = ([count, one, more]) => many(count) + " " + (count === 1 ? one : more);
const isNumber = (value) => typeof value === "number";
const isInterval = (value) => Boolean(value) && [value.mean, value.low, value.high].every(isNumber);
const three = (value) => value.toFixed(3);
const interval = (value) => "[" + three(value.low) + ", " + three(value.high) + "]";
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

async function load() {
  const block = at("data");
  const text = block.textContent;
  block.remove();
  if (block.dataset.packing !== "gzip") return JSON.parse(text);
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
}

function table(head, rows) {
  const cells = (row, inHead) => row.map((cell, place) => {
    const element = make(inHead || !place ? "th" : "td", "", cell);
    if (element.tagName === "TH") element.scope = inHead ? "col" : "row";
    return element;
  });
  return make("table", "", make("thead", "", make("tr", "", ...cells(head, true))),
    make("tbody", "", ...rows.map((row) => make("tr", "", ...cells(row, false)))));
}

/* Plots: each draws itself at the width that there is. */

function showPlots(plots) {
  const places = plots.map((plot) => {
    const place = make("div", "");
    at("plots").append(make("figure", "card", make("h3", "", plot.title), place, make("figcaption", "", plot.caption),
      make("details", "", make("summary", "", "Numbers"), make("div", "scroll", table(...plot.numbers)))));
    return place;
  });
  const redraw = () => plots.forEach((plot, number) => {
    const drawn = plot.draw(places[number].clientWidth);
    drawn.setAttribute("aria-label", plot.title + "; its numbers are in the table below");
    if (drawn.querySelector("a")) drawn.setAttribute("role", "group");
    places[number].replaceChildren(drawn);
  });
  new ResizeObserver(redraw).observe(at("plots"));
}

/* Which episodes are listed. The address holds the selection and the filters. */

function address(changes) {
  const fields = new URLSearchParams();
  for (const [name, value] of Object.entries({ ...state, ...changes })) if (value) fields.set(name, value);
  return "#" + fields.toString().replaceAll("%2F", "/");
}

function prepare(one, taken) {
  const plain = PAGE.key(one);
  // A question may be asked twice.
  for (let number = 1; !one.key || taken.has(one.key); number += 1) one.key = number === 1 ? plain : plain + "~" + number;
  one.verdict = one.failed ? "failed" : one.score ? "right" : "wrong";
  one.reward = one.steps.reduce((sum, step) => sum + step.reward, 0);
  taken.set(one.key, one);
}

function holds(one, text) {
  one.searched ??= [one.id, one.question, ...one.answers, one.prediction ?? "", ...one.steps.flatMap((step) => [step.text, step.content, step.observation])].join("\n").toLowerCase();
  return one.searched.includes(text.toLowerCase());
}

function passes(one, but) {
  return one.found && Object.entries(PAGE.fields).every(([name, field]) => name === but || !state[name] || field.of(one) === state[name]);
}

// Each choice says how many there would be, the other filters being as they are.
function showCounts() {
  for (const [name, field] of Object.entries(PAGE.fields)) {
    const counts = new Map([...at(name).options].map((option) => [option.value, 0]));
    for (const one of episodes) {
      if (!passes(one, name)) continue;
      counts.set("", counts.get("") + 1);
      if (field.of(one)) counts.set(field.of(one), counts.get(field.of(one)) + 1);
    }
    for (const option of at(name).options) option.textContent = ((field.show ?? words)(option.value) || "all") + " (" + many(counts.get(option.value)) + ")";
    at(name).value = state[name];
  }
}

function showList() {
  const last = Math.max(0, Math.ceil(shown.length / PER_PAGE) - 1);
  page = Math.min(page, last);
  const focused = at("list").contains(document.activeElement);
  const first = page * PER_PAGE;
  const some = shown.slice(first, first + PER_PAGE);
  at("list").replaceChildren(...some.map((one) => {
    const link = make("a", "", make("span", "dot " + one.outcome), make("span", "ask", stem(one)),
      make("small", "quiet", one.key, make("span", "hidden", ", " + words(one.outcome))));
    link.href = address({ q: one.key });
    if (one.key === state.q) link.setAttribute("aria-current", "true");
    return make("li", "", link);
  }));
  at("list").start = first + 1;
  at("range").textContent = some.length ? many(first + 1) + "–" + many(first + some.length) + " of " + many(shown.length) : "none";
  at("earlier").disabled = page === 0;
  at("later").disabled = page === last;
  const current = at("list").querySelector("[aria-current]");
  if (current) reveal(current);
  else at("list").scrollTop = 0;
  if (focused && current) current.focus({ preventScroll: true });
}

// Scrolls the list, and never the page around it.
function reveal(link) {
  const [box, spot] = [at("list"), link].map((element) => element.getBoundingClientRect());
  if (spot.top < box.top || spot.bottom > box.bottom) at("list").scrollTop += spot.top - box.top - box.height / 3;
}

function refresh() {
  if (sought !== state.text) for (const one of episodes) one.found = !state.text || holds(one, state.text);
  sought = state.text;
  shown = episodes.filter((one) => passes(one));
  const place = shown.indexOf(byKey.get(state.q));
  page = place < 0 ? 0 : Math.floor(place / PER_PAGE);
  at("number").textContent = many(shown.length) + " of " + many(episodes.length) + " " + PAGE.noun + "s";
  showCounts();
  showList();
  showEpisode();
}

function select(name, value) {
  state[name] = value;
  history.replaceState(null, "", address({}));
  refresh();
}

function readAddress() {
  const fields = new URLSearchParams(location.hash.slice(1));
  const before = state.q;
  for (const name of Object.keys(state)) state[name] = fields.get(name) || "";
  for (const name of Object.keys(PAGE.fields)) {
    if (![...at(name).options].some((option) => option.value === state[name])) state[name] = "";
  }
  at("text").value = state.text;
  refresh();
  if (state.q && state.q !== before) at("episode").scrollIntoView();
  else if (!state.q && before) at("episodes").scrollIntoView();
}

function move(by) {
  const place = shown.indexOf(byKey.get(state.q));
  const next = shown[place < 0 ? 0 : Math.min(Math.max(place + by, 0), shown.length - 1)];
  if (!next) return;
  select("q", next.key);
  at("episode").scrollIntoView();
}

/* One episode. */

function marked(text) {
  const out = document.createDocumentFragment();
  const wanted = state.text.toLowerCase(), low = text.toLowerCase();
  let done = 0;
  // Some letters are longer in lower case: places found in one text would be wrong in the other.
  for (let place; wanted && low.length === text.length && (place = low.indexOf(wanted, done)) >= 0; done = place + wanted.length) {
    out.append(text.slice(done, place), make("mark", "", text.slice(place, place + wanted.length)));
  }
  out.append(text.slice(done));
  return out;
}

const TAG = /<(\s*(?:\/\s*)?(?:think|search|answer|information)\s*)>/gi;

// The passages' texts, cut out of the observation at the heads that envs.actions.render wrote; null where it is of another form.
function passages(step) {
  const body = /^<information>([^]*)<\/information>([^]*)$/.exec(step.observation);
  if (!body || !step.hits.length) return null;
  const heads = step.hits.map((hit, place) => (place ? "\n" : "") + `Doc ${place + 1}(Title: ${hit.title.replace(TAG, "&lt;$1&gt;")})`);
  const starts = [];
  for (const head of heads) starts.push(body[1].indexOf(head, starts.length ? starts.at(-1) + 1 : 0));
  if (starts.includes(-1) || starts[0]) return null;
  const texts = starts.map((start, place) => body[1].slice(start + heads[place].length, starts[place + 1]).trim());
  return { texts, after: body[2].trim() };
}

function passage(hit, text) {
  return make("div", "passage" + (hit.gold ? " gold" : ""),
    make("div", "line", make("span", "title", marked(hit.title || "(no title)")), hit.gold ? make("span", "is-gold", "★ gold") : null,
      make("small", "", hit.id + (isNumber(hit.score) ? " · " + hit.score.toPrecision(4) : ""))),
    text === null ? null : make("div", "text", marked(text)));
}

// What the agent wrote before its action and after it.
function around(step) {
  const start = step.text.indexOf(`<${step.action}>`);
  const end = step.text.indexOf(`</${step.action}>`, start);
  if (start < 0 || end < 0) return [step.text, ""];
  return [step.text.slice(0, start).replace(/<\/?think>/g, " ").trim(), step.text.slice(end + step.action.length + 3).trim()];
}

function turn(step, number) {
  const item = make("li", "turn", make("h4", "", `Turn ${number}: ${step.action}`, step.reward ? make("small", "", "reward " + Number(step.reward.toFixed(3))) : null));
  const say = (label, kind, text) => { if (text) item.append(make("div", "label", label), make("div", "text " + kind, marked(text))); };
  if (step.action === "invalid") {
    say("Written", "thought", step.text);
    say("Invalid", "said", step.content);
  } else {
    const [before, after] = around(step);
    say("Thought", "thought", before);
    say(step.action === "search" ? "Query" : "Answer", "said", step.content || "(empty)");
    say("Afterwards", "thought", after);
  }
  const cut = passages(step);
  if (step.hits.length) {
    item.append(make("div", "label", "Passages"), make("div", "", ...step.hits.map((hit, place) => passage(hit, cut && cut.texts[place]))));
  }
  say("Environment", "", cut ? cut.after : step.observation);
  if (step.action !== "invalid") item.append(make("details", "", make("summary", "", "As written"), make("pre", "text", step.text)));
  return item;
}

function facts(one) {
  const shownGold = (name) => one.steps.some((step) => step.hits.some((hit) => hit.gold && (hit.title === name || hit.id === name)));
  const rows = [
    ...PAGE.facts(one),
    ["Accepted", one.answers.join(" · ")],
    ["Answer", one.prediction === null ? make("span", "quiet", "none") : marked(one.prediction || "(empty)")],
    ["Outcome", report.outcomes[one.outcome] ?? words(one.outcome)],
    ["Evidence", one.evidence.map((name) => name + (shownGold(name) ? " ★ shown" : " (not shown)")).join(" · ")],
    ["Metrics", Object.entries(one.metrics).map(([name, value]) => words(name) + " " + (isNumber(value) ? Number(value.toFixed(3)) : "–")).join(" · ")],
    ["Cost", [[one.turns, "turn", "turns"], [one.searches, "search", "searches"], [one.tokens, "token", "tokens"]].map(counted).join(" · ")],
    ["Also", [[one.invalid, "invalid turn", "invalid turns"], [one.truncated, "generation cut off", "generations cut off"]].filter(([count]) => count).map(counted).join(" · ")],
    ["Ended", words(one.stop_reason)],
    ["Reward", String(Number(one.reward.toFixed(3)))],
  ];
  return make("dl", "facts", ...rows.filter(([, value]) => value).flatMap(([label, value]) => [make("dt", "", label), make("dd", "", value)]));
}

// The question's own text: its options are listed below it.
function stem(one) {
  const lines = Object.entries(one.options || {}).map(([letter, text]) => `\n${letter}) ${text}`).join("");
  return lines ? one.question.split(lines).join("") : one.question;
}

function options(one) {
  const lines = Object.entries(one.options || {});
  return lines.length ? [make("ul", "options", ...lines.map(([letter, text]) =>
    make("li", letter === one.answers[0] ? "accepted" : "", letter + ") ", marked(String(text)), letter === one.answers[0] ? " ✓" : "")))] : [];
}

function button(label, name, by) {
  const element = make("button", "", label);
  element.type = "button";
  element.setAttribute("aria-label", name);
  element.addEventListener("click", () => move(by));
  return element;
}

function showEpisode() {
  const one = byKey.get(state.q);
  if (!one) {
    at("episode").replaceChildren(make("p", "quiet", state.q ? `This report has no ${PAGE.noun} ${state.q}.` : `Choose one of the ${PAGE.noun}s, or press j for the first.`));
    return;
  }
  const link = make("a", "", "link to it alone");
  link.href = "#" + new URLSearchParams({ q: one.key }).toString().replaceAll("%2F", "/");
  at("episode").replaceChildren(
    make("div", "top", make("span", "badge " + one.outcome, make("span", "dot"), words(one.outcome)),
      make("span", "key", one.key + " · ", link), make("span", "", button("‹", "Previous " + PAGE.noun, -1), " ", button("›", "Next " + PAGE.noun, 1))),
    make("h3", "text question", marked(stem(one))), ...options(one), facts(one),
    ...PAGE.body(one));
}

const turns = (one) => make("ol", "turns", ...one.steps.map((step, place) => turn(step, place + 1)));

/* What a reader does. */

function listen() {
  let waiting = 0;
  at("text").addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => select("text", at("text").value), 150);
  });
  for (const name of Object.keys(PAGE.fields)) at(name).addEventListener("change", () => select(name, at(name).value));
  at("filters").addEventListener("submit", (event) => event.preventDefault());
  at("filters").addEventListener("reset", (event) => {
    event.preventDefault();
    clearTimeout(waiting);
    for (const name of Object.keys(PAGE.fields)) state[name] = "";
    at("text").value = "";
    select("text", "");
  });
  at("earlier").addEventListener("click", () => { page -= 1; turnPage(); });
  at("later").addEventListener("click", () => { page += 1; turnPage(); });
  addEventListener("hashchange", readAddress);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT)$/.test(event.target.tagName)) return;
    if (event.key === "j") move(1);
    else if (event.key === "k") move(-1);
    else if (event.key === "/") { at("text").focus(); at("text").select(); }
    else return;
    event.preventDefault();
  });
}

function turnPage() {
  showList();
  at("list").scrollTop = 0;
}

async function start() {
  report = await load();
  episodes = report.episodes;
  byKey = new Map();
  for (const one of episodes) prepare(one, byKey);
  state.q = "";
  for (const [name, field] of Object.entries(PAGE.fields)) {
    state[name] = "";
    const values = new Set(["", ...field.known(), ...episodes.map(field.of)]);
    const choice = make("select", "", ...[...values].map((value) => Object.assign(make("option", ""), { value })));
    choice.id = name;
    at("clear").before(make("label", "", field.label, choice));
  }
  state.text = "";
  listen();
  PAGE.show();
  readAddress();
  document.documentElement.dataset.ready = "yes";
}

// At a page's end.
const openReport = () => start().catch((error) => {
  at("number").textContent = "This report could not be read: " + error.message;
});
