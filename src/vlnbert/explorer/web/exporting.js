"use strict";
// A step as a picture: the instruction, what the agent does, the plan and its choices, as one SVG or PNG.

const SPACE = "http://www.w3.org/2000/svg";
const MARGIN = 20, LINE = 21, SMALL = 17, GAP = 28, SHARP = 2; // pixels, and pixels of a PNG to each

function node(name, attributes = {}, text = "") {
  const made = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  if (text) made.textContent = text;
  return made;
}

function colours() {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(["ink", "quiet", "paper", "line", "walked"].map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

function wrapped(text, letters) {
  const lines = [""];
  for (const word of text.split(/\s+/)) {
    if (lines[lines.length - 1].length + word.length + 1 > letters && lines[lines.length - 1]) lines.push("");
    const last = lines.length - 1;
    lines[last] = lines[last] ? `${lines[last]} ${word}` : word;
  }
  return lines;
}

// One agent's part: its name and status, the plan, and a bar for each choice. The plan stays text: read into this page,
// its styles would be refused by the page's own policy.
function column(viewer, record, agent, paint) {
  const group = node("g"), plan = viewer.toSVG(), shown = document.querySelector(`#viewer-${viewer.agent} .ve-plan`);
  const width = Number(shown.getAttribute("width")), high = Number(shown.getAttribute("height"));
  const status = document.querySelector(`#viewer-${viewer.agent} .ve-status`).textContent;
  let y = LINE;
  group.append(node("text", { x: 0, y, "font-weight": 600, "font-size": 15, fill: paint.ink }, agent.name));
  for (const line of wrapped(status, Math.floor(width / 6.6))) {
    y += SMALL;
    group.append(node("text", { x: 0, y, "font-size": 13, fill: paint.quiet }, line));
  }
  y += 10;
  const place = node("g", { class: `plan-${viewer.agent}` });
  group.append(place);
  const placed = [new XMLSerializer().serializeToString(place), plan.replace("<svg ", `<svg y="${y}" `)];
  y += high + LINE;
  const step = record.steps[viewer.step];
  const choices = step ? step.choices.map((choice, index) => ({ choice, index })) : [];
  choices.sort((a, b) => (b.choice.probability || 0) - (a.choice.probability || 0));
  for (const { choice, index } of choices) {
    const share = choice.probability, name = choice.viewpoint === null ? "stop" : `go ${Math.round((choice.heading * 180) / Math.PI + 360) % 360}°, ${choice.distance.toFixed(1)} m`;
    group.append(node("text", { x: 0, y, "font-size": 13, "font-weight": index === step.chosen ? 600 : 400, fill: paint.ink }, name));
    if (share !== null) {
      group.append(node("rect", { x: 150, y: y - 9, width: Math.max(0, width - 210), height: 7, rx: 3.5, fill: paint.line }),
        node("rect", { x: 150, y: y - 9, width: Math.max(0, (width - 210) * share).toFixed(1), height: 7, rx: 3.5, fill: paint.walked }),
        node("text", { x: width, y, "text-anchor": "end", "font-size": 13, fill: paint.ink }, `${Math.round(100 * share)} %`));
    }
    y += LINE;
  }
  return { group, width, height: y, placed };
}

export function picture(now, agents) {
  const paint = colours(), columns = now.viewers.map((viewer) => column(viewer, now.records[viewer.agent], agents[viewer.agent], paint));
  const inner = columns.reduce((sum, one) => sum + one.width + GAP, -GAP), svg = node("svg", { xmlns: SPACE });
  const text = now.records.find(Boolean).instruction.text, lines = wrapped(text, Math.floor(inner / 8.4));
  const content = node("g", { "font-family": "system-ui, sans-serif" });
  lines.forEach((line, index) => content.append(node("text", { x: MARGIN, y: MARGIN + LINE * (index + 1) - 6, "font-size": 16, fill: paint.ink }, line)));
  let x = MARGIN;
  const top = MARGIN + LINE * lines.length + 8;
  for (const one of columns) {
    one.group.setAttribute("transform", `translate(${x} ${top})`);
    content.append(one.group);
    x += one.width + GAP;
  }
  const width = Math.ceil(inner + 2 * MARGIN), height = Math.ceil(top + Math.max(...columns.map((one) => one.height)) + MARGIN);
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
    const brush = canvas.getContext("2d");
    brush.scale(SHARP, SHARP);
    brush.drawImage(image, 0, 0);
    const blob = await new Promise((done) => { canvas.toBlob(done, "image/png"); });
    if (!blob) throw new Error("this browser cannot make a PNG; save an SVG instead");
    download(blob, `${name}.png`);
  } finally {
    URL.revokeObjectURL(address);
  }
}
