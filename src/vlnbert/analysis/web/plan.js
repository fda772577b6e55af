"use strict";
// A house drawn as SVG, north up: rooms, doors, stairs and objects where they are known, and the graph. Pixels are
// those of the page, so that text keeps its size on any screen; whoever is resized draws again.
globalThis.vlnbertPlan = (() => {
  const { around, beside, within, placed } = globalThis.vlnbertLabels;
  const NAMES = 34; // pixels to the metre from which on every object is named, where there is room
  const SPACE = "http://www.w3.org/2000/svg";
  const AROUND = 1.8; // metres of the house around what must be seen
  const CLOSEST = 52; // pixels to the metre, however short the walk
  const LETTER = 6.6; // pixels that a letter of a label takes, about

  function node(name, attributes = {}, ...children) {
    const made = document.createElementNS(SPACE, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
    made.append(...children);
    return made;
  }

  // Where metres lie on a panel of so many pixels that shows all of some points.
  function frame(points, width, height) {
    const xs = points.map((point) => point.x), ys = points.map((point) => point.y);
    const low = [Math.min(...xs) - AROUND, Math.min(...ys) - AROUND];
    const high = [Math.max(...xs) + AROUND, Math.max(...ys) + AROUND];
    const scale = Math.min(CLOSEST, width / (high[0] - low[0]), height / (high[1] - low[1]));
    const middle = [(low[0] + high[0]) / 2, (low[1] + high[1]) / 2];
    return {
      width, height, scale,
      x: (metres) => width / 2 + (metres - middle[0]) * scale,
      y: (metres) => height / 2 - (metres - middle[1]) * scale,
    };
  }

  function pointsOf(polygon, on) {
    return polygon.map(([x, y]) => `${on.x(x).toFixed(1)},${on.y(y).toFixed(1)}`).join(" ");
  }

  function line(from, to, on, kind) {
    return node("line", { class: kind, x1: on.x(from.x), y1: on.y(from.y), x2: on.x(to.x), y2: on.y(to.y) });
  }

  // A label that stays inside the panel; its halo keeps it readable on lines.
  function label(text, x, y, on, kind) {
    const half = (text.length * LETTER) / 2 + 3;
    const inside = Math.min(Math.max(x, half), Math.max(half, on.width - half));
    const made = node("text", { class: `ve-label ${kind}`, x: inside.toFixed(1), y: Math.min(Math.max(y, 12), on.height - 5).toFixed(1) });
    made.textContent = text;
    return made;
  }

  function rooms(plan, floor, on) {
    const group = node("g", { class: "ve-rooms" });
    const here = plan.rooms.filter((room) => room.floor === floor);
    for (const room of here) group.append(node("polygon", { class: "ve-room", points: pointsOf(room.polygon, on) }));
    for (const stairs of plan.stairs.filter((one) => one.floor === floor || one.floor === floor - 1)) group.append(...flight(stairs.polygon, on));
    for (const door of plan.doors.filter((one) => one.floor === floor)) {
      group.append(line({ x: door.from[0], y: door.from[1] }, { x: door.to[0], y: door.to[1] }, on, "ve-door"));
    }
    return group;
  }

  // Stairs: their outline, and treads across it.
  function flight(polygon, on) {
    const [a, b, c, d] = polygon;
    const treads = [];
    for (let tread = 1; d && tread < 9; tread += 1) {
      const part = tread / 9, between = (p, q) => ({ x: p[0] + (q[0] - p[0]) * part, y: p[1] + (q[1] - p[1]) * part });
      treads.push(line(between(a, d), between(b, c), on, "ve-tread"));
    }
    return [node("polygon", { class: "ve-stairs", points: pointsOf(polygon, on) }), ...treads];
  }

  function graph(plan, floor, on) {
    const group = node("g", { class: "ve-graph" });
    for (const [start, end] of plan.edges) {
      const from = plan.viewpoints[start], to = plan.viewpoints[end];
      if (from.floor === floor || to.floor === floor) group.append(line(from, to, on, "ve-edge"));
    }
    for (const viewpoint of plan.viewpoints) {
      if (viewpoint.floor === floor) group.append(node("circle", { class: "ve-viewpoint", cx: on.x(viewpoint.x), cy: on.y(viewpoint.y), r: 2.4 }));
    }
    return group;
  }

  // The objects of a floor that the panel shows, with their places on it.
  function things(plan, floor, on) {
    return plan.objects.filter((one) => one.floor === floor).map((one) => ({ one, x: on.x(one.x), y: on.y(one.y) }))
      .filter(({ x, y }) => x > 0 && x < on.width && y > 0 && y < on.height);
  }

  function objects(shown) {
    return node("g", { class: "ve-objects" }, ...shown.map(({ one, x, y }) => {
      const title = node("title");
      title.textContent = one.name;
      return node("rect", { class: "ve-object", x: x - 2.6, y: y - 2.6, width: 5.2, height: 5.2 }, title);
    }));
  }

  // Names on the plan, and `more` labels: `named` picks the objects that matter, `taken` and `lines` are kept free.
  function names(plan, floor, on, { named, more = [], taken = [], lines = [], withThings = true }) {
    const wanted = [...more], shown = withThings ? things(plan, floor, on) : [];
    for (const { one, x, y } of shown) {
      const matters = named(one);
      if (matters || on.scale >= NAMES) wanted.push({ text: one.name, kind: `ve-object-name${matters ? "" : " ve-thing-name"}`, rank: matters ? 1 : 4, places: beside(one.name, x, y, 3) });
    }
    for (const room of plan.rooms.filter((one) => one.floor === floor)) {
      wanted.push({ text: room.name, kind: "ve-room-name", rank: 2, places: within(room.name, room.polygon, on) });
    }
    const corner = { left: on.width - 150, right: on.width, top: on.height - 22, bottom: on.height };
    const small = [...lines, ...shown.map(({ x, y }) => around(x, y, 3))];
    return placed(wanted, on, [corner, ...taken], small).map(({ text, x, y, kind }) => label(text, x, y, on, kind));
  }

  function scaleBar(on) {
    const metres = [10, 5, 2, 1].find((length) => length * on.scale <= 110) || 1;
    const right = on.width - 10, y = on.height - 10, left = right - metres * on.scale;
    const text = node("text", { class: "ve-label ve-scale-text", x: left - 6, y: y + 4, "text-anchor": "end" });
    text.textContent = `${metres} m`;
    const plate = node("rect", { class: "ve-scale-plate", x: left - 44, y: y - 12, width: right - left + 54, height: 22, rx: 6 });
    return node("g", {}, plate, node("path", { class: "ve-scale", d: `M${left} ${y - 4}V${y + 4}M${left} ${y}H${right}M${right} ${y - 4}V${y + 4}` }), text);
  }

  // Draw a house on one floor; its names come last, when all that they must keep clear of is known.
  function drawHouse(svg, plan, floor, on, withThings = true) {
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${on.width} ${on.height}`);
    svg.setAttribute("width", on.width);
    svg.setAttribute("height", on.height);
    svg.append(rooms(plan, floor, on), graph(plan, floor, on), ...(withThings ? [objects(things(plan, floor, on))] : []));
  }

  return { node, frame, line, label, drawHouse, names, scaleBar };
})();
