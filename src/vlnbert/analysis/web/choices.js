"use strict";
// What an agent could do at a step and what it saw: a compass of its choices, and a row for each.
globalThis.vlnbertChoices = (() => {
  const { node, label } = globalThis.vlnbertPlan;
  const STRAIGHT = 15; // degrees to either side that count as ahead, or as back
  const DIAL = { width: 204, height: 164 }; // pixels of the compass

  function make(name, kind = "", ...children) {
    const made = document.createElement(name);
    if (kind) made.className = kind;
    made.append(...children);
    return made;
  }

  const percent = (share) => (share === null ? "" : `${share > 0 && share < 0.01 ? "<1" : Math.round(100 * share)} %`);
  const metres = (distance) => (distance === null ? "" : `${distance.toFixed(1)} m`);

  // A direction in words, as somebody says it who looks along `heading`.
  function direction(choice, heading) {
    if (choice.viewpoint === null) return "stop";
    const turn = Math.round((relative(choice.heading, heading) * 180) / Math.PI);
    const size = Math.abs(turn);
    const steep = Math.abs(choice.elevation) * (180 / Math.PI) < STRAIGHT ? "" : choice.elevation > 0 ? " up" : " down";
    return (size < STRAIGHT ? "ahead" : size > 180 - STRAIGHT ? "back" : `${size}° ${turn > 0 ? "right" : "left"}`) + steep;
  }

  function relative(angle, heading) {
    const turn = (angle - heading) % (2 * Math.PI);
    return turn > Math.PI ? turn - 2 * Math.PI : turn <= -Math.PI ? turn + 2 * Math.PI : turn;
  }

  function choiceRow(now, index) {
    const choice = now.choices[index], tags = [];
    if (index === now.chosen) tags.push(make("span", "ve-tag ve-tag-chosen", "chosen"));
    if (index === now.teacher) tags.push(make("span", "ve-tag ve-tag-teacher", "teacher"));
    const texts = choice.texts || {}, seen = [texts.captions, texts.observations].filter(Boolean).map((text) => make("span", "ve-text", text));
    if (texts.detections && texts.detections.length) seen.push(make("span", "ve-text", `detected: ${texts.detections.join(", ")}`));
    const way = [direction(choice, now.heading), choice.viewpoint === null ? "" : metres(choice.distance)].filter(Boolean).join(" · ");
    return make("li", index === now.chosen ? "ve-row ve-row-chosen" : "ve-row", make("span", "ve-way", way, ...tags), bar(choice.probability), ...seen);
  }

  function bar(share) {
    if (share === null) return "";
    const bar = make("span", "ve-bar");
    bar.style.setProperty("--share", `${(100 * share).toFixed(1)}%`);
    return make("span", "ve-measure", bar, make("span", "ve-percent", percent(share)));
  }

  function objectRow(one, record) {
    const { named_object: named, target_object: target } = record, tags = [];
    if (named && String(named.id) === String(one.id)) tags.push(make("span", "ve-tag ve-tag-chosen", "named"));
    if (target && String(target.id) === String(one.id)) tags.push(make("span", "ve-tag ve-tag-goal", "asked for"));
    return make("li", "ve-row", make("span", "ve-way", one.name, ...tags), bar(one.probability));
  }

  // The choices around the agent, what lies ahead on top.
  function compass(now) {
    const { width, height } = DIAL, x = width / 2, y = height / 2, centre = `translate(${x} ${y})`;
    const drawn = node("svg", { class: "ve-compass", width, height, "aria-hidden": "true" });
    drawn.append(node("circle", { class: "ve-dial", cx: x, cy: y, r: 60 }));
    for (const [text, left, top] of [["ahead", x, 14], ["back", x, height - 5], ["left", 22, y + 4], ["right", width - 22, y + 4]]) {
      drawn.append(label(text, left, top, DIAL, "ve-side"));
    }
    now.choices.forEach((choice, index) => {
      const share = choice.probability === null ? 0.3 : choice.probability, kind = index === now.chosen ? " ve-chosen" : "";
      if (choice.viewpoint === null) return drawn.append(node("circle", { class: `ve-petal${kind}`, cx: x, cy: y, r: 4 + 9 * Math.sqrt(share) }));
      const long = 20 + 28 * share, wide = 0.16, turn = (relative(choice.heading, now.heading) * 180) / Math.PI;
      const d = `M0 -17L${-wide * long} ${-long}A${long} ${long} 0 0 1 ${wide * long} ${-long}Z`;
      return drawn.append(node("path", { class: `ve-petal${kind}`, d, transform: `${centre} rotate(${turn})` }),
        ...(index === now.teacher ? [node("path", { class: "ve-teacher", d: "M0 -50L-5 -59H5Z", transform: `${centre} rotate(${turn})` })] : []));
    });
    return drawn;
  }

  return { make, percent, metres, direction, choiceRow, objectRow, compass };
})();
