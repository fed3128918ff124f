/* An evaluation: scores by dataset, where answers were lost, what they cost. */

const PAGE = {
  noun: "question",
  key: (one) => one.dataset + "/" + one.id,
  fields: {
    score: { label: "Score", of: (one) => one.verdict, known: () => ["right", "wrong", "failed"] },
    outcome: { label: "Outcome", of: (one) => one.outcome, known: () => Object.keys(report.outcomes) },
    dataset: { label: "Dataset", of: (one) => one.dataset, known: () => [], show: String },
  },
  facts: () => [],
  body: (one) => [turns(one)],
  show: () => {
    showHead();
    showPlots([
      scorePlot(), outcomePlot(),
      costPlot("Score against searches", "searches", (one) => one.searches),
      costPlot("Score against generated tokens", "generated tokens", (one) => one.tokens),
    ]);
  },
};

const HEADLINES = ["accuracy", "em"];

/* What was evaluated. */

// Label -> a summary: of all questions, and of each dataset where there are several.
function groups() {
  const parts = Object.entries(report.datasets);
  return parts.length === 1 ? [[parts[0][0], report.summary]] : [["all", report.summary], ...parts];
}

function showHead() {
  const facts = { agent: "Agent", method: "Method", retriever: "Retriever", corpus_fingerprint: "Corpus", preset: "Preset", seed: "Seed", seconds: "Seconds", command: "Command" };
  for (const [name, label] of Object.entries(facts)) {
    const value = report.summary[name];
    if (value === null || value === undefined) continue;
    at("facts").append(make("dt", "", label), make("dd", "", typeof value === "object" ? JSON.stringify(value) : String(value)));
  }
  at("title").textContent = "Evaluation of " + (report.summary.agent || "an agent") + " on " + Object.keys(report.datasets).join(", ");
  document.title = at("title").textContent;
  at("config").textContent = report.config;
  const rows = groups();
  const columns = (wanted) => [...new Set(rows.flatMap(([, part]) => Object.keys(part).filter((name) => wanted(part[name], name))))];
  const scores = [...new Set([...HEADLINES, ...columns(isInterval)])].filter((name) => rows.some(([, part]) => isInterval(part[name])));
  const costs = columns((value, name) => isNumber(value) && /_(mean|rate)$/.test(name));
  at("summary").append(table(
    ["", "questions", "failed", ...[...scores, ...costs].map(words)],
    rows.map(([label, part]) => [
      label, many(part.n ?? 0), many(part.infra_errors ?? 0),
      ...scores.map((name) => isInterval(part[name]) ? make("span", "", three(part[name].mean), " ", make("small", "quiet", interval(part[name]))) : "–"),
      ...costs.map((name) => isNumber(part[name]) ? part[name].toFixed(name.endsWith("rate") ? 3 : 2) : "–"),
    ])));
  at("summary").append(make("p", "quiet", "In brackets: 95 % intervals. Failed episodes are in no average."));
}

/* Plots: each draws itself at the width that there is. */

const EDGE = 14, ROW = 42;

function horizontal(width, rows, tick, row) {
  const across = (share) => EDGE + share * (width - 2 * EDGE);
  const bottom = rows.length * ROW + 4;
  const axis = [0, 0.25, 0.5, 0.75, 1].flatMap((share) => [
    draw("line", { class: "grid", x1: across(share), x2: across(share), y1: 18, y2: bottom }),
    draw("text", { class: "tick", x: across(share), y: bottom + 15, "text-anchor": "middle" }, tick(share)),
  ]);
  const bands = rows.flatMap((one, place) => row(one, across, place * ROW));
  return draw("svg", { height: bottom + 22, role: "img" }, ...axis, ...bands);
}

function whisker(from, to, cross, upright) {
  const [low, high] = [Math.min(from, to), Math.max(from, to)];
  const path = upright
    ? `M${cross} ${low}V${high}M${cross - 4} ${low}h8M${cross - 4} ${high}h8`
    : `M${low} ${cross}H${high}M${low} ${cross - 4}v8M${high} ${cross - 4}v8`;
  return draw("path", { class: "whisker", d: path });
}

function scorePlot() {
  const rows = groups().flatMap(([label, part]) => HEADLINES.filter((name) => isInterval(part[name])).map((name) => [label, name, part[name], part.n]));
  return {
    title: "Score by dataset",
    caption: "Exact match (em), or accuracy where there are options, with 95 % intervals.",
    numbers: [["", "metric", "mean", "interval", "questions"], rows.map(([label, name, value, n]) => [label, name, three(value.mean), interval(value), many(n ?? 0)])],
    draw: (width) => horizontal(width, rows, String, ([label, name, value], across, y) => [
      draw("text", { x: 0, y: y + 12 }, label),
      draw("text", { class: "tick", x: width, y: y + 12, "text-anchor": "end" }, name + " " + three(value.mean)),
      whisker(across(value.low), across(value.high), y + 27, false),
      draw("circle", { class: "mean", cx: across(value.mean), cy: y + 27, r: 5 }),
    ]),
  };
}

function outcomePlot() {
  const names = Object.keys(report.outcomes);
  const split = (label, chosen) => [label, names.map((name) => chosen.filter((one) => one.outcome === name).length), chosen.length];
  const sets = [...new Set(episodes.map((one) => one.dataset))];
  const rows = sets.map((name) => [...split(name, episodes.filter((one) => one.dataset === name)), name]);
  if (sets.length > 1) rows.unshift([...split("all", episodes), ""]);
  const seen = names.filter((name) => episodes.some((one) => one.outcome === name));
  const band = (width) => ([label, counts, total, dataset], across, y) => {
    let before = 0;
    const parts = counts.map((count, place) => {
      const [x, next] = [across(before / total), across((before += count) / total)];
      if (!count) return "";
      const says = `${label}: ${count} ${words(names[place])}`;
      const link = draw("a", { href: address({ q: "", score: "", text: "", dataset, outcome: names[place] }), "aria-label": says },
        draw("title", {}, says),
        draw("rect", { class: "part " + names[place], x, y: y + 18, width: next - x, height: 18, rx: 2 }));
      if (next - x > 26) link.append(draw("text", { class: "inside", x: (x + next) / 2, y: y + 31, "text-anchor": "middle" }, many(count)));
      return link;
    }).filter(Boolean);
    return [draw("text", { x: 0, y: y + 12 }, label), draw("text", { class: "tick", x: width, y: y + 12, "text-anchor": "end" }, "n = " + many(total)), ...parts];
  };
  return {
    title: "Outcomes",
    caption: make("ul", "legend", ...seen.map((name) => make("li", name, make("span", "dot"), make("b", "", words(name)), name === "right" ? "" : ": " + report.outcomes[name]))),
    numbers: [["", ...seen.map(words)], rows.map(([label, counts]) => [label, ...seen.map((name) => many(counts[names.indexOf(name)]))])],
    draw: (width) => horizontal(width, rows, (share) => 100 * share + " %", band(width)),
  };
}

// Wilson's 95 % interval of a share: holds for few questions, and at 0 and 1.
function wilson(share, n) {
  const z = 1.96, centre = (share + (z * z) / (2 * n)) / (1 + (z * z) / n);
  const half = (z / (1 + (z * z) / n)) * Math.sqrt((share * (1 - share)) / n + (z * z) / (4 * n * n));
  return { mean: share, low: Math.max(0, centre - half), high: Math.min(1, centre + half) };
}

// At most ten bins of about as many episodes, or one a value where there are few; ties stay together.
function bins(points) {
  const sorted = [...points].sort((a, b) => a.x - b.x);
  const distinct = new Set(sorted.map((point) => point.x)).size;
  const least = distinct <= 10 ? 1 : sorted.length / 10;
  const found = [];
  for (const [place, point] of sorted.entries()) {
    const last = found.at(-1);
    if (last && (point.x === sorted[place - 1].x || last.length < least)) last.push(point);
    else found.push([point]);
  }
  return found.map((bin) => ({ x: mean(bin.map((point) => point.x)), from: bin[0].x, to: bin.at(-1).x, n: bin.length, ...wilson(mean(bin.map((point) => point.y)), bin.length) }));
}

function ticks(most) {
  const raw = Math.max(most, 1) / 5, power = 10 ** Math.floor(Math.log10(raw));
  const step = Math.max(1, power * [1, 2, 5, 10].find((factor) => factor * power >= raw));
  return Array.from({ length: Math.floor(Math.max(most, 1) / step) + 1 }, (_, place) => place * step);
}

function costPlot(title, unit, of) {
  const found = bins(episodes.filter((one) => !one.failed).map((one) => ({ x: of(one), y: one.score })));
  const span = (bin) => bin.from === bin.to ? many(bin.from) : many(bin.from) + "–" + many(bin.to);
  return {
    title,
    caption: "Mean score of the episodes in a bin, their number, and Wilson’s 95 % interval.",
    numbers: [[unit, "score", "interval", "episodes"], found.map((bin) => [span(bin), three(bin.mean), interval(bin), many(bin.n)])],
    draw: (width) => {
      const height = 240, left = 34, bottom = height - 40, top = 30;
      const marks = ticks(Math.max(0, ...found.map((bin) => bin.x)));
      const most = Math.max(marks.at(-1), ...found.map((bin) => bin.x));
      const x = (value) => left + 16 + (value / most) * (width - left - 36);
      const y = (value) => bottom - value * (bottom - top);
      return draw("svg", { height, role: "img" },
        draw("text", { class: "tick", x: 0, y: 11 }, "mean score"),
        ...[0, 0.25, 0.5, 0.75, 1].flatMap((value) => [
          draw("line", { class: "grid", x1: left, x2: width, y1: y(value), y2: y(value) }),
          draw("text", { class: "tick", x: left - 6, y: y(value) + 4, "text-anchor": "end" }, String(value)),
        ]),
        ...marks.flatMap((value) => [
          draw("line", { class: "grid", x1: x(value), x2: x(value), y1: bottom, y2: bottom + 4 }),
          draw("text", { class: "tick", x: x(value), y: bottom + 17, "text-anchor": "middle" }, many(value)),
        ]),
        draw("text", { class: "tick", x: (left + width) / 2, y: height - 5, "text-anchor": "middle" }, unit),
        draw("polyline", { class: "trend", points: found.map((bin) => x(bin.x) + "," + y(bin.mean)).join(" ") }),
        ...found.flatMap((bin, number) => [
          whisker(y(bin.low), y(bin.high), x(bin.x), true),
          draw("circle", { class: "mean", cx: x(bin.x), cy: y(bin.mean), r: 5 }),
          ...number && x(bin.x) - x(found[number - 1].x) < 18 ? [] : [
            draw("text", { class: "tick", x: x(bin.x), y: y(bin.high) - 6, "text-anchor": "middle" }, many(bin.n))],
        ]));
    },
  };
}

openReport();
