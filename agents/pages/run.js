/* A training run: before and after, events, curves, and sampled episodes token by token. */

const PAGE = {
  noun: "episode",
  key: (one) => `step-${one.step}/${one.row}`,
  fields: {
    score: { label: "Score", of: (one) => one.verdict, known: () => ["right", "wrong", "failed"] },
    step: { label: "Step", of: (one) => String(one.step), known: () => [], show: (value) => value && "step " + value },
    outcome: { label: "Outcome", of: (one) => one.outcome, known: () => Object.keys(report.outcomes) },
    dataset: { label: "Dataset", of: (one) => one.dataset, known: () => [], show: String },
  },
  facts: (one) => [["Step", `${one.step}, episode ${one.row + 1} of its rollouts, group ${one.group_id}`]],
  body: (one) => one.trace
    ? [tokenView(one), make("details", "", make("summary", "", "As turns"), turns(one))]
    : [make("p", "quiet", "Its tokens were not kept; run.token_transcripts says of how many episodes they are."), turns(one)],
  show: () => {
    showHead();
    showResult();
    showEvents();
    const curves = CURVES.filter((curve) => curve.of.some(known) && !(curve.unless && curve.of.every((name) => constant(name, curve.unless.value))));
    const named = new Set(["step", ...CURVES.flatMap((curve) => curve.of)]);
    const others = Object.keys(report.metrics).filter((name) => !named.has(name) && known(name) && !constant(name));
    const plots = [...curves, ...others.map((name) => ({ title: words(name), of: [name] }))].map(curvePlot);
    if (!plots.length) at("reading").textContent = "No step has ended yet.";
    showPlots(plots);
    followPointer(plots);
  },
};

const column = (name) => report.metrics[name] ?? [];
const known = (name) => column(name).some(isNumber);
const constant = (name, value = column(name)[0]) => column(name).every((one) => one === value || one === null);
const signed = (value) => (value < 0 ? "−" : "+") + three(Math.abs(value));
const short = (value) => isNumber(value) ? String(Number(value.toPrecision(4))) : "–";

function showHead() {
  const steps = column("step");
  const seconds = column("seconds").reduce((sum, value) => sum + (value ?? 0), 0);
  const facts = {
    ...report.slots,
    steps: `${many(steps.at(-1) ?? 0)} of ${isNumber(report.planned) ? many(report.planned) : "?"}`,
    "time in steps": `${Math.floor(seconds / 3600)} h ${Math.floor(seconds / 60) % 60} min ${Math.round(seconds) % 60} s`,
    command: report.summary?.command,
  };
  for (const [name, value] of Object.entries(facts)) {
    if (value) at("facts").append(make("dt", "", name[0].toUpperCase() + name.slice(1)), make("dd", "", String(value)));
  }
  at("title").textContent = "Training run " + report.name;
  document.title = at("title").textContent;
  at("config").textContent = report.config;
}

function showResult() {
  const result = report.summary;
  if (!result) {
    at("summary").append(make("p", "quiet", "No evaluation after training: the run still goes on, or it does not evaluate."));
    return;
  }
  const cell = (name, digits) => isNumber(result[name]) ? result[name].toFixed(digits) : "–";
  const row = (label, when) => [label, cell("em_" + when, 3), cell("searches_" + when, 2), cell("invalid_rate_" + when, 3)];
  at("summary").append(
    table(["", "exact match", "searches", "invalid turns"], [
      row("before", "before"), row("after", "after"),
      ["difference", isInterval(result.difference) ? signed(result.difference.mean) : "–", "", ""],
    ]),
    make("p", "quiet", `${many(result.n)} held-out questions, played greedily.` + (isInterval(result.difference)
      ? ` 95 % interval of the difference: [${signed(result.difference.low)}, ${signed(result.difference.high)}] (paired bootstrap).` : "")));
}

function showEvents() {
  if (!report.events.length) return;
  const names = [...new Set(report.events.flatMap((event) => Object.keys(event)))];
  at("log").append(table(names.map(words), report.events.map((event) => names.map((name) => isNumber(event[name]) ? short(event[name]) : String(event[name] ?? "–")))));
  at("alarms").hidden = false;
}

/* Curves. */

const CURVES = [
  { title: "Reward", of: ["reward_mean"], says: "Mean over the step’s episodes." },
  { title: "Exact match", of: ["em"], zero: true, says: "Or accuracy, where there are options." },
  { title: "Searches", of: ["searches_mean"], zero: true, says: "Per episode." },
  { title: "Invalid turns", of: ["invalid_rate"], zero: true, says: "Share of turns without a valid action." },
  { title: "Repeated 4-grams", of: ["repeat_rate"], zero: true, says: "Share of a sampled turn’s 4-grams that stood in it before." },
  { title: "Clipped", of: ["clip_fraction", "clip_fraction_turns"], zero: true, says: "Shares of action tokens, and of turns with a clipped token." },
  { title: "KL to the sampling policy", of: ["kl_old"], says: "Nats per action token." },
  { title: "Ratio tail", of: ["ratio_tail"], zero: true, says: "Share of action tokens that moved by more than 1 nat." },
  { title: "KL to the base model", of: ["kl_ref"], unless: { value: 0 }, says: "Nats per action token." },
  { title: "Entropy", of: ["entropy"], says: "Nats per action token." },
  { title: "Gradient norm", of: ["grad_norm", "clip_norm"], log: true, says: "Before the global-norm clip; clip norm is ‖C‖, of the part that the ratio clip removed." },
  { title: "Normaliser’s factor", of: ["grad_scale"], unless: { value: 1 }, says: "What the step is scaled with." },
  { title: "Policy loss", of: ["policy_loss"] },
  { title: "Value loss", of: ["value_loss"] },
  { title: "KL coefficient", of: ["kl_coef"], unless: {} },
  { title: "Lost episodes", of: ["infra_errors", "dropped_episodes"], unless: { value: 0 }, says: "Whose retrieval failed, and of groups that the sampler dropped." },
  { title: "Tokens per second", of: ["generated_tokens_per_s", "trained_tokens_per_s"], says: "While playing, and while training." },
  { title: "Seconds", of: ["seconds"], says: "Per step." },
  { title: "Trained tokens", of: ["trained_tokens"], unless: {}, says: "Per step." },
  { title: "Optimiser steps", of: ["optimizer_steps"], unless: {}, says: "Per step." },
];
const LEFT = 46, RIGHT = 10, TOP = 8, HEIGHT = 170;

// Round numbers from at most `low` to at least `high`.
function round(low, high) {
  if (low === high) [low, high] = low ? [low - Math.abs(low) / 2, high + Math.abs(low) / 2] : [0, 1];
  const raw = (high - low) / 4, power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= raw * 0.999);
  const first = Math.floor(low / step + 1e-9), last = Math.ceil(high / step - 1e-9);
  return Array.from({ length: last - first + 1 }, (_, place) => (first + place) * step);
}

// Powers of ten around the values, each with its double and its fivefold where there are few.
function decades(low, high) {
  const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
  const powers = Array.from({ length: Math.max(last - first, 1) + 1 }, (_, place) => 10 ** (first + place));
  if (powers.length > 3) return powers;
  const all = powers.flatMap((power) => [power, 2 * power, 5 * power]).slice(0, -2);
  const from = all.findLastIndex((mark) => mark <= low), to = all.findIndex((mark) => mark >= high);
  return all.slice(Math.max(from, 0), Math.max(to, from + 1) + 1);
}

// The mean of a window around each value; gaps stay gaps.
function smooth(values) {
  const half = Math.max(2, Math.round(values.length / 40));
  return values.map((value, place) => {
    const near = values.slice(Math.max(0, place - half), place + half + 1).filter(isNumber);
    return isNumber(value) ? mean(near) : null;
  });
}

function path(values, x, y) {
  let open = false;
  return values.map((value, place) => {
    const drawn = isNumber(value) && Number.isFinite(y(value));
    const command = drawn ? (open ? "L" : "M") + x(place).toFixed(1) + " " + y(value).toFixed(1) : "";
    open = drawn;
    return command;
  }).join("");
}

function curvePlot(curve) {
  const steps = column("step");
  const names = curve.of.filter(known);
  const values = names.flatMap((name) => column(name).filter((value) => isNumber(value) && (!curve.log || value > 0)));
  const log = curve.log && values.length > 0;
  const low = curve.zero ? 0 : values.reduce((a, b) => Math.min(a, b), Infinity);
  const high = values.reduce((a, b) => Math.max(a, b), -Infinity);
  const marks = log ? decades(low, high) : values.length ? round(low, high) : [0, 1];
  const scale = log ? Math.log10 : (value) => value;
  const [from, to] = [scale(marks[0]), scale(marks.at(-1))];
  const span = steps.at(-1) - steps[0] || 1;
  const y = (value) => TOP + (1 - (scale(value) - from) / (to - from)) * (HEIGHT - TOP - 26);
  const plot = {
    title: curve.title, names,
    caption: make("span", "", curve.says ?? "", log ? " Logarithmic axis: 0 is not on it." : "",
      names.length > 1 ? make("span", "series", ...names.map((name, number) => make("span", "line-" + number, " ", make("span", "dot"), " " + words(name)))) : null),
    numbers: [["step", ...names.map(words)], steps.map((step, place) => [many(step), ...names.map((name) => short(column(name)[place]))])],
    draw: (width) => {
      const at = (step) => LEFT + ((step - steps[0]) / span) * (width - LEFT - RIGHT);
      const x = (place) => at(steps[place]);
      plot.x = x;
      const whole = round(steps[0], steps.at(-1)).filter((step) => Number.isInteger(step) && step >= steps[0] && step <= steps.at(-1));
      const few = steps.length <= 40;
      return draw("svg", { height: HEIGHT, role: "img" },
        ...marks.flatMap((mark) => [
          draw("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(mark), y2: y(mark) }),
          draw("text", { class: "tick", x: LEFT - 6, y: y(mark) + 4, "text-anchor": "end" }, short(mark)),
        ]),
        ...whole.map((step) => draw("text", { class: "tick", x: at(step), y: HEIGHT - 8, "text-anchor": "middle" }, many(step))),
        ...report.events.filter((event) => event.step >= steps[0] && event.step <= steps.at(-1)).map((event) =>
          draw("line", { class: "event", x1: at(event.step), x2: at(event.step), y1: TOP, y2: HEIGHT - 26 },
            draw("title", {}, `step ${event.step}: ${event.kind ?? "event"}` + (event.action ? `, ${event.action}` : "")))),
        ...names.flatMap((name, number) => [
          draw("path", { class: `curve line-${number}` + (few ? "" : " raw"), d: path(column(name), x, y) }),
          ...few ? column(name).flatMap((value, place) => isNumber(value) && Number.isFinite(y(value)) ? [draw("circle", { class: "point line-" + number, cx: x(place), cy: y(value), r: 2.5 })] : [])
            : [draw("path", { class: "curve line-" + number, d: path(smooth(column(name)), x, y) })],
        ]),
        draw("line", { class: "cursor", y1: TOP, y2: HEIGHT - 26, visibility: "hidden" }));
    },
  };
  return plot;
}

// The step under the pointer is read in every plot at once.
function followPointer(plots) {
  const steps = column("step");
  const figures = [...at("plots").children];
  const said = figures.map((figure) => {
    const place = make("small", "reading");
    figure.querySelector("h3").append(" ", place);
    return place;
  });
  const show = (place) => figures.forEach((figure, number) => {
    const cursor = figure.querySelector(".cursor");
    cursor.setAttribute("visibility", place === null ? "hidden" : "visible");
    said[number].textContent = "";
    if (place === null) return;
    for (const end of ["x1", "x2"]) cursor.setAttribute(end, plots[number].x(place));
    said[number].textContent = `step ${many(steps[place])}: ` + plots[number].names.map((name) => short(column(name)[place])).join(" · ");
  });
  at("plots").addEventListener("pointermove", (event) => {
    const number = figures.indexOf(event.target.closest("figure"));
    const drawn = number >= 0 && figures[number].querySelector("svg");
    if (!drawn || !event.target.closest("svg")) return show(null);
    const across = event.clientX - drawn.getBoundingClientRect().left;
    show(steps.reduce((best, _, place) => Math.abs(plots[number].x(place) - across) < Math.abs(plots[number].x(best) - across) ? place : best, 0));
  });
  at("plots").addEventListener("pointerleave", () => show(null));
}

/* One episode's tokens, coloured by what the trainer made of them. */

const MODES = {
  mask: { label: "mask", says: "Coloured: what the agent wrote, and nothing else is trained on. Shades alternate from token to token." },
  advantages: { label: "advantage", says: "How much better than its baseline a token’s outcome was: its gradient’s sign and size." },
  log_ratios: { label: "ratio", says: "log π(new) − log π(old): how far the step’s updates moved each token, in nats." },
  old_logprobs: { label: "log-probability", says: "Of the token when it was sampled, in nats: the darker, the more of a surprise." },
};
const scales = {};
let mode = "mask";

// The size that has the full colour: what 95 % of all tokens in this report stay below.
function scaleOf(name) {
  if (!(name in scales)) {
    const sizes = episodes.flatMap((one) => one.trace ? one.trace[name].filter(isNumber).map(Math.abs) : []).sort((a, b) => a - b);
    scales[name] = sizes[Math.floor(0.95 * (sizes.length - 1))] || 1;
  }
  return scales[name];
}

function paint(token, number, trace) {
  token.classList.remove("even", "odd", "up", "down", "unknown");
  if (mode === "mask") {
    token.classList.add(number % 2 ? "odd" : "even");
    return;
  }
  const value = trace[mode][number];
  if (!isNumber(value)) {
    token.classList.add("unknown");
    return;
  }
  token.classList.add(value < 0 ? "down" : "up");
  token.style.setProperty("--heat", Math.round(90 * Math.min(1, Math.abs(value) / scaleOf(mode))) + "%");
}

function legend() {
  const parts = [make("span", "quiet", MODES[mode].says)];
  if (mode !== "mask") {
    const edge = scaleOf(mode).toPrecision(2), low = make("span", "token down", ` −${edge} `), high = make("span", "token up", ` +${edge} `);
    for (const end of [low, high]) end.style.setProperty("--heat", "90%");
    parts.push(" ", low, " 0 ", ...mode === "old_logprobs" ? [] : [high], make("span", "quiet", " and beyond"));
  }
  return parts;
}

function tokenView(one) {
  const trace = one.trace, painted = [], segments = [];
  const says = (number) => [
    `token ${trace.ids[painted[number].place]}`,
    `log-probability ${short(trace.old_logprobs[number])}`,
    `ratio ${isNumber(trace.log_ratios[number]) ? short(Math.exp(trace.log_ratios[number])) : "–"}`,
    `advantage ${short(trace.advantages[number])}`,
  ].join(" · ");
  for (let start = 0, end; start < trace.ids.length; start = end) {
    const turn = trace.turn_ids[start];
    for (end = start + 1; end < trace.ids.length && trace.turn_ids[end] === turn;) end += 1;
    const pieces = trace.pieces.slice(start, end);
    if (turn < 0) {
      segments.push(make("div", "label", start ? "Read" : "Prompt"), make("div", "text context", pieces.join("").replace(/^\n/, "")));
      continue;
    }
    segments.push(make("div", "label", "Turn " + (turn + 1)), make("div", "text", ...pieces.map((piece, offset) => {
      const token = make("span", "token", piece);
      painted.push({ token, place: start + offset });
      if (/\n/.test(piece)) token.classList.add("line");
      token.title = says(painted.length - 1);
      return token;
    })));
  }
  const explained = make("p", "legend");
  const repaint = () => {
    painted.forEach(({ token }, number) => paint(token, number, trace));
    explained.replaceChildren(...legend());
  };
  const choices = Object.entries(MODES).map(([name, { label }]) => {
    const radio = Object.assign(make("input", ""), { type: "radio", name: "mode", value: name, checked: name === mode });
    radio.addEventListener("change", () => { mode = name; repaint(); });
    return make("label", "mode", radio, label);
  });
  repaint();
  return make("section", "tokens",
    make("fieldset", "modes", make("legend", "quiet", "Colour tokens by"), ...choices), explained,
    make("div", "segments", ...segments));
}

openReport();
