"use strict";
// One episode to look at, step by step: vlnbertEpisode.mount(element, record, plan, options). Shapes of record and plan
// are those of docs/conventions.md. Data enters as text and numbers only, never as markup.
globalThis.vlnbertEpisode = (() => {
  const { node, frame, line, drawHouse, names, scaleBar } = globalThis.vlnbertPlan;
  const { make, percent, metres, direction, choiceRow, objectRow, compass } = globalThis.vlnbertChoices;
  const { around, beside } = globalThis.vlnbertLabels;
  const PAUSE = 1300; // milliseconds between steps while playing
  const SIGHT = 1.5; // metres at which an object is drawn whose distance nobody knows
  const TIGHT = /^[.,;:!?)'’%]/; // words that no space stands before
  const USED_UP = "Its steps were used up before it decided to stop. It was left standing here, and this place is scored.";
  let mounted = 0;

  // Points on a way, no farther apart than a label is high.
  function along(places) {
    return places.slice(1).flatMap((to, index) => {
      const from = places[index], far = Math.hypot(to.x - from.x, to.y - from.y), parts = far < 6 ? Math.ceil(far * 4) : 1;
      return Array.from({ length: parts + 1 }, (_, part) => ({ x: from.x + ((to.x - from.x) * part) / parts, y: from.y + ((to.y - from.y) * part) / parts }));
    });
  }

  // The text in pieces, each a word with its place or what stands between; words of another spelling replace the text.
  function laidOut(text, words) {
    const pieces = [];
    let at = 0;
    for (const [place, word] of words.entries()) {
      const found = word ? text.indexOf(word, at) : -1;
      if (found < 0 || text.slice(at, found).trim()) {
        return words.flatMap((one, index) => [{ piece: index && !TIGHT.test(one) ? " " : "", place: null }, { piece: one, place: index }]);
      }
      pieces.push({ piece: text.slice(at, found), place: null }, { piece: word, place });
      at = found + word.length;
    }
    return [...pieces, { piece: text.slice(at), place: null }];
  }

  function mount(element, record, plan, options = {}) {
    const view = new Viewer(element, record, plan, options);
    view.goTo(options.step || 0);
    return {
      goTo: (step) => view.goTo(step),
      play: () => view.play(true),
      pause: () => view.play(false),
      toSVG: () => view.standalone(),
      tinted: () => view.tinted(),
      get now() { return view.frames[view.step]; },
      get legend() { return view.keysOfLegend(); },
      get step() { return view.step; },
      get steps() { return view.frames.length; },
      destroy: () => view.destroy(),
    };
  }

  class Viewer {
    constructor(element, record, plan, options) {
      Object.assign(this, { element, record, plan, options, step: 0, timer: 0, whole: false, floor: 0 });
      this.id = `ve-${(mounted += 1)}`;
      this.places = new Map(plan.viewpoints.map((viewpoint) => [viewpoint.id, viewpoint]));
      this.frames = [...record.steps];
      const last = record.steps[record.steps.length - 1];
      if (!last || last.choices[last.chosen].viewpoint !== null) this.frames.push(this.end(last));
      this.build();
      this.keys = options.keys || this.root;
      this.pressed = (event) => this.key(event);
      this.keys.addEventListener("keydown", this.pressed);
      this.watch = new ResizeObserver(() => this.draw());
      this.watch.observe(this.map);
    }

    // Where an agent stands that ran out of steps: there is nothing to choose any more.
    end(last) {
      const at = this.record.path[this.record.path.length - 1];
      const far = this.record.scores && typeof this.record.scores.ne === "number" ? this.record.scores.ne : null;
      const heading = last ? last.choices[last.chosen].heading : 0;
      return { viewpoint: at, heading, elevation: 0, distance_to_goal: far, choices: [], chosen: -1, teacher: null, attention: null, objects: [] };
    }

    build() {
      const range = make("input", "ve-slider");
      Object.assign(range, { type: "range", min: "0", max: String(this.frames.length - 1), value: "0", step: "1" });
      range.setAttribute("aria-label", "Step of the episode");
      range.addEventListener("input", () => { this.play(false); this.goTo(Number(range.value)); });
      this.slider = range;
      this.playButton = this.button("Play", () => this.play(!this.timer));
      this.playButton.classList.add("ve-play");
      this.status = make("p", "ve-status");
      this.status.setAttribute("role", "status");
      this.controls = make("div", "ve-controls", this.button("‹", () => this.goTo(this.step - 1), "Previous step"), this.playButton,
        this.button("›", () => this.goTo(this.step + 1), "Next step"));
      this.words = make("p", "ve-words");
      this.map = make("div", "ve-map");
      this.svg = node("svg", { role: "img", "aria-label": "Floor plan", class: "ve-plan" });
      this.map.append(this.svg);
      this.floors = make("div", "ve-floors");
      this.choices = make("div", "ve-choices");
      this.seen = make("div", "ve-seen");
      this.distance = make("div", "ve-distance");
      this.controls.append(make("div", "ve-track", range, this.distance));
      const left = make("div", "ve-left", this.map, this.floors, this.legend());
      const right = make("div", "ve-right", this.choices, this.seen);
      this.root = make("div", "vlnbert-episode");
      if (this.options.header !== false) this.root.append(this.header());
      this.root.append(this.words, this.controls, this.status, make("div", "ve-body", left, right));
      this.element.append(this.root);
      this.buildFloors();
    }

    header() {
      const kind = this.record.success === null ? "withheld" : this.record.success ? "success" : "failure";
      return make("p", `ve-outcome ve-${kind}`, `${this.record.verdict}: ${this.record.ending}`);
    }

    button(text, pressed, name = "") {
      const made = make("button", "ve-button", text);
      made.type = "button";
      if (name) made.setAttribute("aria-label", name);
      made.addEventListener("click", pressed);
      return made;
    }

    buildFloors() {
      const names = this.plan.floors.length > 1 ? this.plan.floors.map((_, index) => `Floor ${index + 1}`) : [];
      this.floorButtons = names.map((name, index) => this.button(name, () => { this.floor = index; this.draw(); }));
      this.wholeButton = this.button("Whole floor", () => { this.whole = !this.whole; this.draw(); });
      this.floors.append(...this.floorButtons, this.wholeButton);
    }

    keysOfLegend() {
      const { record, plan } = this, target = Boolean(record.target_object);
      return [
        ["walked", "walked"], ["coming", "still to come"], ["choice", "choices, by probability"],
        ...(record.reference ? [["reference", "reference path"]] : []),
        ...(record.goals || record.goal ? [["goal", target ? "sees the object" : "stopping here succeeds"]] : []),
        ...(target ? [["object", "the object asked for"]] : []),
        ...(plan.objects.length ? [["thing", "objects"]] : []), ["graph", "viewpoints and ways"],
      ];
    }

    legend() {
      return make("ul", "ve-legend", ...this.keysOfLegend().map(([kind, text]) => make("li", "", make("span", `ve-key ve-key-${kind}`), text)));
    }

    goTo(step) {
      this.step = Math.min(Math.max(Math.round(step) || 0, 0), this.frames.length - 1);
      const place = this.places.get(this.frames[this.step].viewpoint);
      if (place) this.floor = place.floor;
      this.slider.value = String(this.step);
      this.tell();
      this.tint();
      this.draw();
      this.list();
      this.element.dispatchEvent(new CustomEvent("step", { bubbles: true, detail: { step: this.step, steps: this.frames.length } }));
    }

    tell() {
      const now = this.frames[this.step], chosen = now.choices[now.chosen], made = this.record.steps.length;
      const parts = [chosen ? `Step ${this.step + 1} of ${made}` : `After ${made} ${made === 1 ? "step" : "steps"}`];
      if (now.distance_to_goal !== null) parts.push(`${metres(now.distance_to_goal)} to the goal`);
      if (!chosen) parts.push("ran out of steps here");
      else {
        const sure = chosen.probability === null ? "" : ` (${percent(chosen.probability)})`;
        parts.push(chosen.viewpoint === null ? `stops here${sure}` : `goes ${direction(chosen, now.heading)}, ${metres(chosen.distance)}${sure}`);
      }
      this.status.textContent = parts.join(" · ");
      this.slider.setAttribute("aria-valuetext", this.status.textContent);
      this.drawDistance();
    }

    // The instruction in pieces, each word with its attention and how much that is of the strongest word's.
    tinted() {
      const weights = this.frames[this.step].attention, most = weights ? Math.max(...weights, 1e-9) : 1;
      const { text, words, unknown } = this.record.instruction;
      return laidOut(text, words).filter(({ piece }) => piece).map(({ piece, place }) => {
        const weight = weights && place !== null ? Math.max(0, weights[place] || 0) : null;
        return { piece, weight, share: weight === null ? 0 : weight / most, unknown: unknown.includes(place) };
      });
    }

    tint() {
      const pieces = this.tinted();
      this.words.replaceChildren(...pieces.map(({ piece, weight, share, unknown }) => {
        if (weight === null && !unknown) return piece;
        const mark = make(weight === null ? "span" : "mark", unknown ? "ve-unknown" : "", piece);
        mark.style.setProperty("--weight", `${Math.round(100 * share)}%`);
        mark.title = [weight === null ? "" : `attention ${percent(weight)}`, unknown ? "not known to this agent" : ""].filter(Boolean).join(", ");
        return mark;
      }));
      if (pieces.some((one) => one.unknown)) this.words.append(make("span", "ve-note ve-unknown-note", "This agent does not know the words with a dotted line."));
    }

    // How far the goal was at every step, as a line.
    drawDistance() {
      const known = this.frames.map((one) => one.distance_to_goal);
      this.distance.replaceChildren();
      if (known.length < 2 || known.some((one) => one === null)) return;
      const most = Math.max(...known, 1), x = (step) => (100 * step) / (known.length - 1), y = (far) => 26 - (24 * far) / most;
      const drawn = node("svg", { class: "ve-spark", viewBox: "0 0 100 28", preserveAspectRatio: "none", "aria-hidden": "true" });
      const d = known.map((far, step) => `${step ? "L" : "M"}${x(step).toFixed(2)} ${y(far).toFixed(2)}`).join("");
      drawn.append(node("path", { class: "ve-spark-area", d: `${d}L100 28L0 28Z` }), node("path", { class: "ve-spark-line", d }),
        node("line", { class: "ve-spark-now", x1: x(this.step), x2: x(this.step), y1: 0, y2: 28 }));
      this.distance.append(drawn, make("span", "ve-note", "distance to the goal"));
    }

    draw() {
      const width = Math.floor(this.map.clientWidth);
      if (width < 40) return;
      const height = Math.round(Math.min(440, Math.max(260, width * 0.8)));
      const { record, plan } = this;
      const at = (id) => this.places.get(id);
      const text = ` ${record.instruction.text.toLowerCase()} `;
      const isTarget = (one) => Boolean(record.target_object) && String(one.id) === String(record.target_object.id);
      const ways = [...record.path, ...(record.reference || [])], walked = [...ways, record.goal, ...(record.goals || []), ...(this.options.also || [])].map(at).filter(Boolean);
      const shown = this.whole ? plan.viewpoints : [...walked, ...plan.objects.filter(isTarget)];
      const on = frame(walked.length ? shown : plan.viewpoints, width, height), more = [], taken = [];
      const named = (one) => !isTarget(one) && text.includes(one.name.toLowerCase());
      drawHouse(this.svg, plan, this.floor, on);
      this.svg.append(...this.goals(on, taken), ...this.ways(on), ...this.target(on, isTarget, more, taken), ...this.agent(on, more, taken), scaleBar(on));
      const now = this.frames[this.step], turned = now.choices.flatMap((one) => (one.viewpoint === null ? [] : [now.viewpoint, one.viewpoint]));
      const lines = [...along(ways.map(at).filter(Boolean)), ...along(turned.map(at).filter(Boolean))].map((one) => around(on.x(one.x), on.y(one.y), 3));
      this.svg.append(...names(plan, this.floor, on, { named, more, taken, lines }));
      this.svg.setAttribute("aria-label", `Floor plan. ${this.status.textContent}`);
      this.floorButtons.forEach((button, index) => button.setAttribute("aria-pressed", String(index === this.floor)));
      this.wholeButton.setAttribute("aria-pressed", String(this.whole));
    }

    goals(on, taken) {
      const made = [];
      for (const id of this.record.goals || (this.record.goal ? [this.record.goal] : [])) {
        const place = this.places.get(id);
        if (!place || place.floor !== this.floor) continue;
        const reach = id === this.record.goal ? 9 : 5;
        taken.push(around(on.x(place.x), on.y(place.y), reach));
        made.push(node("circle", { class: "ve-goal", cx: on.x(place.x), cy: on.y(place.y), r: reach }));
      }
      return made;
    }

    // The object that was asked for, where it stands; where nobody knows that, in which direction it is seen from here.
    target(on, isTarget, more, taken) {
      const square = (one) => {
        taken.push(around(on.x(one.x), on.y(one.y), 7));
        more.push({ text: one.name, kind: "ve-object-name", rank: 0, places: beside(one.name, on.x(one.x), on.y(one.y), 7) });
        return node("rect", { class: "ve-target", x: on.x(one.x) - 6, y: on.y(one.y) - 6, width: 12, height: 12 });
      };
      const known = this.plan.objects.filter(isTarget);
      if (known.length) return known.filter((one) => one.floor === this.floor).map(square);
      const now = this.frames[this.step], here = this.places.get(now.viewpoint), seen = now.objects.find(isTarget);
      if (!seen || !here || here.floor !== this.floor) return [];
      const there = { name: seen.name, x: here.x + SIGHT * Math.sin(seen.heading), y: here.y + SIGHT * Math.cos(seen.heading) };
      return [line(here, there, on, "ve-sight"), square(there)];
    }

    // The reference, what was walked so far, and what is still to come.
    ways(on) {
      const track = (ids, kind) => ids.slice(1).flatMap((id, index) => {
        const from = this.places.get(ids[index]), to = this.places.get(id);
        return from && to && (from.floor === this.floor || to.floor === this.floor) ? [line(from, to, on, kind)] : [];
      });
      const passed = (frames) => frames.flatMap((one) => [one.viewpoint, ...(one.hops || [])]), now = this.frames[this.step];
      const moved = (ids) => ids.filter((id, index) => index === 0 || id !== ids[index - 1]);
      return [...track(this.record.reference || [], "ve-reference"), ...track(moved(passed(this.frames.slice(this.step))), "ve-coming"),
        ...track(moved([...passed(this.frames.slice(0, this.step)), now.viewpoint]), "ve-walked")];
    }

    agent(on, more, taken) {
      const now = this.frames[this.step], here = this.places.get(now.viewpoint), start = this.places.get(this.frames[0].viewpoint), made = [];
      if (start && start.floor === this.floor) made.push(node("circle", { class: "ve-start", cx: on.x(start.x), cy: on.y(start.y), r: 6 }));
      if (!here || here.floor !== this.floor) return made;
      const x = on.x(here.x), y = on.y(here.y);
      now.choices.forEach((choice, index) => made.push(...this.choice(choice, index === now.chosen, here, on, more, taken)));
      taken.push(around(x, y, 13));
      const turn = (now.heading * 180) / Math.PI;
      made.push(node("path", { class: "ve-gaze", d: "M0 0L-9 -22A24 24 0 0 1 9 -22Z", transform: `translate(${x} ${y}) rotate(${turn})` }),
        node("circle", { class: "ve-here", cx: x, cy: y, r: 7 }));
      return made;
    }

    choice(choice, chosen, here, on, more, taken) {
      const share = choice.probability === null ? (chosen ? 0.5 : 0.1) : choice.probability, x = on.x(here.x), y = on.y(here.y);
      const write = (text, left, top, reach) => {
        if (choice.probability !== null && share >= 0.05) more.push({ text, kind: "ve-share", rank: 0, places: beside(text, left, top, reach) });
      };
      if (choice.viewpoint === null) {
        write(`stop ${percent(share)}`, x, y, 14);
        return [node("circle", { class: `ve-stop${chosen ? " ve-chosen" : ""}`, cx: x, cy: y, r: 12, "stroke-width": 1 + 4 * share })];
      }
      const to = this.places.get(choice.viewpoint);
      if (!to) return [];
      taken.push(around(on.x(to.x), on.y(to.y), 5));
      write(percent(share), on.x(to.x), on.y(to.y), 5);
      const way = line(here, to, on, `ve-choice${chosen ? " ve-chosen" : ""}`);
      way.setAttribute("stroke-width", (1.5 + 6 * share).toFixed(1));
      return [way, node("circle", { class: `ve-choice-end${chosen ? " ve-chosen" : ""}`, cx: on.x(to.x), cy: on.y(to.y), r: 4 })];
    }

    list() {
      const now = this.frames[this.step];
      const order = now.choices.map((_, index) => index).sort((a, b) => (now.choices[b].probability || 0) - (now.choices[a].probability || 0));
      const rows = order.map((index) => choiceRow(now, index));
      this.choices.replaceChildren(...(rows.length ? [make("h4", "", "Where it could go"), compass(now), make("ol", "ve-rows", ...rows)] : [make("h4", "", "Out of steps"), make("p", "ve-text", USED_UP)]));
      const objects = [...now.objects].sort((a, b) => (b.probability || 0) - (a.probability || 0));
      this.seen.replaceChildren(...(objects.length ? [make("h4", "", "Objects in view"), make("ul", "ve-rows", ...objects.map((one) => objectRow(one, this.record)))] : []));
    }

    play(on) {
      clearInterval(this.timer);
      this.timer = 0;
      if (on && this.step === this.frames.length - 1) this.goTo(0);
      if (on) this.timer = setInterval(() => {
        this.goTo(this.step + 1);
        if (this.step === this.frames.length - 1) this.play(false);
      }, this.options.pause || PAUSE);
      this.playButton.textContent = this.timer ? "Pause" : "Play";
    }

    key(event) {
      if (event.ctrlKey || event.altKey || event.metaKey || event.defaultPrevented) return;
      const on = event.target, typing = on instanceof HTMLElement && (on.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(on.tagName)) && on !== this.slider;
      if (typing || (event.key === " " && on instanceof HTMLButtonElement)) return;
      const to = { ArrowLeft: this.step - 1, ArrowRight: this.step + 1, Home: 0, End: this.frames.length - 1 }[event.key];
      if (to === undefined && event.key !== " ") return;
      event.preventDefault();
      if (event.key === " ") this.play(!this.timer);
      else { this.play(false); this.goTo(to); }
    }

    // The plan as it stands, as an SVG file: what the style sheet says is written into it.
    standalone() {
      const copy = this.svg.cloneNode(true), originals = this.svg.querySelectorAll("*");
      copy.querySelectorAll("*").forEach((part, index) => {
        const style = getComputedStyle(originals[index]);
        for (const name of ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linecap", "opacity", "font-size", "font-weight", "text-anchor", "paint-order"]) {
          part.style.setProperty(name, style.getPropertyValue(name));
        }
      });
      copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
      copy.style.setProperty("font-family", "system-ui, sans-serif");
      copy.style.setProperty("background", getComputedStyle(this.map).backgroundColor);
      return new XMLSerializer().serializeToString(copy);
    }

    destroy() {
      this.play(false);
      this.watch.disconnect();
      this.keys.removeEventListener("keydown", this.pressed);
      this.root.remove();
    }
  }

  // A house to choose a viewpoint in, with the mouse; a page offers the same in a list for the keyboard.
  function mountPlan(element, plan, options = {}) {
    const map = make("div", "ve-map"), svg = node("svg", { role: "img", "aria-label": "Floor plan", class: "ve-plan" });
    const root = make("div", "vlnbert-episode", map);
    map.append(svg);
    element.append(root);
    let selected = options.selected || null, floor = options.floor || 0;
    function draw() {
      const width = Math.floor(map.clientWidth);
      if (width < 40) return;
      const here = plan.viewpoints.filter((one) => one.floor === floor);
      const on = frame(here.length ? here : plan.viewpoints, width, Math.round(Math.min(440, Math.max(260, width * 0.8))));
      const size = Math.min(8, Math.max(4.5, on.scale * 0.4)); // smaller in a large house, so that they can be told apart
      drawHouse(svg, plan, floor, on, false);
      const spots = here.map((one) => around(on.x(one.x), on.y(one.y), size));
      for (const viewpoint of here) {
        const spot = node("circle", { class: viewpoint.id === selected ? "ve-spot ve-selected" : "ve-spot", cx: on.x(viewpoint.x), cy: on.y(viewpoint.y), r: size });
        spot.addEventListener("click", () => { select(viewpoint.id); if (options.onSelect) options.onSelect(viewpoint.id); });
        svg.append(spot);
      }
      svg.append(scaleBar(on), ...names(plan, floor, on, { named: () => false, taken: spots, withThings: false }));
    }
    function select(id) {
      selected = id;
      const place = plan.viewpoints.find((viewpoint) => viewpoint.id === id);
      if (place) floor = place.floor;
      draw();
    }
    const watch = new ResizeObserver(draw);
    watch.observe(map);
    draw();
    return { select, showFloor: (index) => { floor = index; draw(); }, get selected() { return selected; }, destroy: () => { watch.disconnect(); root.remove(); } };
  }

  return { mount, mountPlan };
})();
