"use strict";
// A house drawn as SVG, north up: rooms, doors, stairs and objects where they are known, and the graph. Pixels are
// those of the page, so that text keeps its size on any screen; whoever is resized draws again.
globalThis.vlnbertPlan = (() => {
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

  function rooms(plan, floor, on, busy) {
    const group = node("g", { class: "ve-rooms" });
    const here = plan.rooms.filter((room) => room.floor === floor);
    for (const room of here) group.append(node("polygon", { class: "ve-room", points: pointsOf(room.polygon, on) }));
    for (const stairs of plan.stairs.filter((one) => one.floor === floor || one.floor === floor - 1)) group.append(...flight(stairs.polygon, on));
    for (const door of plan.doors.filter((one) => one.floor === floor)) {
      group.append(line({ x: door.from[0], y: door.from[1] }, { x: door.to[0], y: door.to[1] }, on, "ve-door"));
    }
    for (const room of here) group.append(...roomName(room, on, busy));
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

  // The name near the middle of what the panel shows of a room, where there is space for it and no way leads through.
  function roomName(room, on, busy) {
    const xs = room.polygon.map(([x]) => Math.min(Math.max(on.x(x), 0), on.width));
    const ys = room.polygon.map(([, y]) => Math.min(Math.max(on.y(y), 0), on.height));
    const wide = Math.max(...xs) - Math.min(...xs), high = Math.max(...ys) - Math.min(...ys);
    const half = (room.name.length * LETTER) / 2 + 3;
    if (wide < 2 * half || high < 26) return [];
    const x = (Math.max(...xs) + Math.min(...xs)) / 2, y = (Math.max(...ys) + Math.min(...ys)) / 2;
    const free = ([left, top]) => busy.every((one) => Math.abs(on.x(one.x) - x - left) > half + 6 || Math.abs(on.y(one.y) - y - top + 4) > 13);
    const [left, top] = [[0, 0], [0, -24], [0, 24], [-half, 0], [half, 0], [-half, -24], [half, 24], [half, -24], [-half, 24]].find(free) || [0, 0];
    return [label(room.name, x + left, y + top, on, "ve-room-name")];
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

  // Objects as dots; those that `named` picks have their names written beside them.
  function objects(plan, floor, on, named) {
    const group = node("g", { class: "ve-objects" });
    for (const one of plan.objects.filter((object) => object.floor === floor)) {
      const title = node("title");
      title.textContent = one.name;
      const x = on.x(one.x), y = on.y(one.y);
      if (x < 0 || x > on.width || y < 0 || y > on.height) continue;
      group.append(node("rect", { class: "ve-object", x: x - 2.6, y: y - 2.6, width: 5.2, height: 5.2 }, title));
      if (named(one)) group.append(label(one.name, x, y - 7, on, "ve-object-name"));
    }
    return group;
  }

  function scaleBar(on) {
    const metres = [10, 5, 2, 1].find((length) => length * on.scale <= 110) || 1;
    const right = on.width - 10, y = on.height - 10, left = right - metres * on.scale;
    const text = node("text", { class: "ve-label ve-scale-text", x: left - 6, y: y + 4, "text-anchor": "end" });
    text.textContent = `${metres} m`;
    return node("g", {}, node("path", { class: "ve-scale", d: `M${left} ${y - 4}V${y + 4}M${left} ${y}H${right}M${right} ${y - 4}V${y + 4}` }), text);
  }

  // Draw a house on one floor: `named` picks the objects whose names are written, `busy` are points without room names.
  function drawHouse(svg, plan, floor, on, { named = () => false, busy = [] } = {}) {
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${on.width} ${on.height}`);
    svg.setAttribute("width", on.width);
    svg.setAttribute("height", on.height);
    svg.append(rooms(plan, floor, on, busy), graph(plan, floor, on), objects(plan, floor, on, named));
  }

  return { node, frame, line, label, drawHouse, scaleBar };
})();
