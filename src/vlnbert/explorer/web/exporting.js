"use strict";
// A step as a picture: what was read, what the agent does, the plan with its legend and the choices, as one SVG or PNG.

const SPACE = "http://www.w3.org/2000/svg";
const MARGIN = 20, LINE = 21, SMALL = 17, GAP = 28, SHARP = 2; // pixels, and pixels of a PNG to each
const FONT = "system-ui, sans-serif", WAY = 190, NUMBER = 60; // pixels of a choice's words and of its percent
const brush = document.createElement("canvas").getContext("2d");

function node(name, attributes = {}, text = "") {
  const made = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  if (text) made.textContent = text;
  return made;
}

function colours() {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(["ink", "quiet", "paper", "line", "walked", "reference", "goal", "dot", "thing"].map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

function wide(text, size) {
  brush.font = `${size}px ${FONT}`;
  return brush.measureText(text).width;
}

// Texts set one after the other in lines of so many pixels: where each begins. Blanks at the end of a line are left out.
function set(texts, width, size) {
  let x = 0, line = 0;
  return texts.map((text) => {
    const long = wide(text, size);
    if (x && x + wide(text.trimEnd(), size) > width) { x = 0; line += 1; }
    if (!x && !text.trim()) return { text: "", x, line, long: 0 };
    const place = { text, x, line, long };
    x += long;
    return place;
  });
}

// The instruction, its words tinted as on the page.
function words(pieces, width, paint, group, y) {
  const parts = pieces.flatMap((one) => (one.piece.match(/\s+|\S+/g) || []).map((text) => ({ ...one, text })));
  let last = 0;
  set(parts.map((one) => one.text), width, 16).forEach(({ text, x, line, long }, index) => {
    last = Math.max(last, line);
    if (!text.trim()) return;
    const top = y + LINE * line;
    if (parts[index].share > 0) group.append(node("rect", { x, y: top - 15, width: long.toFixed(1), height: 20, rx: 3, fill: paint.walked, "fill-opacity": (0.42 * parts[index].share).toFixed(3) }));
    group.append(node("text", { x: x.toFixed(1), y: top, "font-size": 16, fill: paint.ink }, text));
  });
  return y + LINE * last;
}

// What the lines and shapes on the plan are, as on the page.
function legend(entries, width, paint, group, y) {
  const marks = {
    walked: (x, at) => node("path", { d: `M${x} ${at}h18`, stroke: paint.walked, "stroke-width": 3 }),
    coming: (x, at) => node("path", { d: `M${x} ${at}h18`, stroke: paint.walked, "stroke-width": 2, "stroke-dasharray": "2 3" }),
    choice: (x, at) => node("path", { d: `M${x} ${at}h18`, stroke: paint.walked, "stroke-width": 5, opacity: 0.4 }),
    reference: (x, at) => node("path", { d: `M${x} ${at}h18`, stroke: paint.reference, "stroke-width": 7, opacity: 0.45 }),
    goal: (x, at) => node("circle", { cx: x + 9, cy: at, r: 4.5, fill: "none", stroke: paint.goal, "stroke-width": 2 }),
    object: (x, at) => node("rect", { x: x + 4, y: at - 5, width: 10, height: 10, fill: "none", stroke: paint.goal, "stroke-width": 2 }),
    thing: (x, at) => node("rect", { x: x + 6, y: at - 3, width: 6, height: 6, fill: paint.thing }),
    graph: (x, at) => node("path", { d: `M${x} ${at}h18`, stroke: paint.dot, "stroke-width": 1 }),
  };
  let x = 0, top = y;
  for (const [kind, text] of entries) {
    const long = 24 + wide(text, 12) + 16;
    if (x && x + long - 16 > width) { x = 0; top += SMALL; }
    group.append(marks[kind](x, top - 4), node("text", { x: x + 24, y: top, "font-size": 12, fill: paint.quiet }, text));
    x += long;
  }
  return top;
}

// One agent's part. The plan stays text: read into this page, its styles would be refused by the page's own policy.
function column(viewer, agent, paint) {
  const { direction, percent, metres } = globalThis.vlnbertChoices;
  const group = node("g"), plan = viewer.toSVG(), shown = document.querySelector(`#viewer-${viewer.agent} .ve-plan`);
  const width = Number(shown.getAttribute("width")), high = Number(shown.getAttribute("height"));
  const status = document.querySelector(`#viewer-${viewer.agent} .ve-status`).textContent;
  let y = words(viewer.tinted(), width, paint, group, LINE) + LINE + 8;
  group.append(node("text", { x: 0, y, "font-weight": 600, "font-size": 15, fill: paint.ink }, agent.name));
  const told = set(status.match(/\S+\s*/g), width, 13);
  for (const { text, x, line } of told) group.append(node("text", { x: x.toFixed(1), y: y + SMALL * (line + 1), "font-size": 13, fill: paint.quiet }, text.trimEnd()));
  y += SMALL * (told[told.length - 1].line + 1) + 10;
  const place = node("g", { class: `plan-${viewer.agent}` });
  group.append(place);
  const placed = [new XMLSerializer().serializeToString(place), plan.replace("<svg ", `<svg y="${y}" `)];
  y = legend(viewer.legend, width, paint, group, y + high + LINE) + LINE + 6;
  const now = viewer.now, choices = now.choices.map((choice, index) => ({ choice, index }));
  choices.sort((a, b) => (b.choice.probability || 0) - (a.choice.probability || 0));
  for (const { choice, index } of choices) {
    const way = [direction(choice, now.heading), choice.viewpoint === null ? "" : metres(choice.distance)].filter(Boolean).join(", ");
    group.append(node("text", { x: 0, y, "font-size": 13, "font-weight": index === now.chosen ? 600 : 400, fill: paint.ink }, way));
    if (choice.probability !== null) {
      const long = Math.max(0, width - WAY - NUMBER);
      group.append(node("rect", { x: WAY, y: y - 9, width: long, height: 7, rx: 3.5, fill: paint.line }),
        node("rect", { x: WAY, y: y - 9, width: (long * choice.probability).toFixed(1), height: 7, rx: 3.5, fill: paint.walked }),
        node("text", { x: width, y, "text-anchor": "end", "font-size": 13, fill: paint.ink }, percent(choice.probability)));
    }
    y += LINE;
  }
  return { group, width, height: y, placed };
}

export function picture(now, agents) {
  const paint = colours(), columns = now.viewers.map((viewer) => column(viewer, agents[viewer.agent], paint));
  const inner = columns.reduce((sum, one) => sum + one.width + GAP, -GAP), svg = node("svg", { xmlns: SPACE });
  const content = node("g", { "font-family": FONT });
  let x = MARGIN;
  for (const one of columns) {
    one.group.setAttribute("transform", `translate(${x} ${MARGIN})`);
    content.append(one.group);
    x += one.width + GAP;
  }
  const width = Math.ceil(inner + 2 * MARGIN), height = Math.ceil(Math.max(...columns.map((one) => one.height)) + 2 * MARGIN);
  for (const [key, value] of Object.entries({ width, height, viewBox: `0 0 ${width} ${height}` })) svg.setAttribute(key, String(value));
  svg.append(node("rect", { width, height, fill: paint.paper }), content);
  let file = new XMLSerializer().serializeToString(svg);
  for (const { placed: [place, plan] } of columns) file = file.replace(place.replace(` xmlns="${SPACE}"`, ""), () => plan);
  return { text: file, width, height };
}

function download(blob, name) {
  const address = URL.createObjectURL(blob), link = document.createElement("a");
  Object.assign(link, { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

export function saveSVG(now, agents, name) {
  download(new Blob([picture(now, agents).text], { type: "image/svg+xml" }), `${name}.svg`);
}

export async function savePNG(now, agents, name) {
  const drawn = picture(now, agents), address = URL.createObjectURL(new Blob([drawn.text], { type: "image/svg+xml" }));
  try {
    const image = new Image();
    image.src = address;
    await image.decode();
    const canvas = document.createElement("canvas");
    Object.assign(canvas, { width: drawn.width * SHARP, height: drawn.height * SHARP });
    const painter = canvas.getContext("2d");
    painter.scale(SHARP, SHARP);
    painter.drawImage(image, 0, 0);
    const blob = await new Promise((done) => { canvas.toBlob(done, "image/png"); });
    if (!blob) throw new Error("this browser cannot make a PNG; save an SVG instead");
    download(blob, `${name}.png`);
  } finally {
    URL.revokeObjectURL(address);
  }
}
