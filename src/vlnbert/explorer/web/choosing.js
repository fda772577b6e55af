"use strict";
// The left column: choose an instruction of the data, or a start on the plan and words of one's own.

import { get } from "/files/asking.js";

const FACING = ["north", "30°", "60°", "east", "120°", "150°", "south", "210°", "240°", "west", "300°", "330°"];
const by = (id) => document.getElementById(id);

function fill(select, values, chosen) {
  select.replaceChildren(...values.map(([value, text]) => {
    const option = document.createElement("option");
    option.value = value;
    option.textContent = text;
    option.selected = value === chosen;
    return option;
  }));
}

export class Chooser {
  // `walk(walk)` is called with what was chosen, `fail(error)` with what went wrong.
  constructor(catalogue, plans, walk, fail) {
    Object.assign(this, { catalogue, plans, walk, fail, split: "", scan: "", chosen: "", picker: null, start: "" });
    Object.assign(this, { page: 0, pages: 1, wanted: 0, turn: 0, busy: 0 }); // `wanted` is the page that was asked for last
    fill(by("heading"), FACING.map((name, index) => [String(index), name]), "0");
    const quietly = (work) => (event) => {
      this.busy += 1;
      by("instructions").setAttribute("aria-busy", "true");
      return work(event).catch(fail).finally(() => {
        this.busy -= 1;
        if (!this.busy) by("instructions").removeAttribute("aria-busy");
      });
    };
    by("task").addEventListener("change", quietly(() => this.openTask(by("task").value)));
    by("split").addEventListener("change", quietly(() => this.openSplit(by("split").value)));
    by("house").addEventListener("change", quietly(() => this.openHouse(by("house").value)));
    by("before").addEventListener("click", quietly(() => this.turnPage(-1)));
    by("after").addEventListener("click", quietly(() => this.turnPage(1)));
    by("start").addEventListener("change", () => this.pick(by("start").value));
    by("instructions").addEventListener("keydown", (event) => this.moveFocus(event));
    for (const id of ["from-data", "from-words"]) by(id).addEventListener("change", quietly(() => this.show()));
    by("own-words").addEventListener("submit", (event) => { event.preventDefault(); this.submit(); });
    by("words").addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey) { event.preventDefault(); this.submit(); }
    });
  }

  get task() { return this.split.split("/")[0]; }

  async openTask(task) {
    const splits = this.catalogue.splits.filter((name) => name.startsWith(`${task}/`));
    const first = ["val_unseen", "val_seen"].map((name) => `${task}/${name}`).find((name) => splits.includes(name));
    await this.openSplit(first || splits[0]);
  }

  // What the server says, or null where something else was asked for meanwhile: only the last answer is shown.
  async last(path, fields) {
    const turn = (this.turn += 1);
    try {
      const found = await get(path, fields);
      return turn === this.turn ? found : null;
    } catch (error) {
      if (turn !== this.turn) return null;
      this.wanted = this.page;
      throw error;
    }
  }

  // In one house of a split, the page of the list on which the episode `around` stands, or the first.
  async openSplit(split, scan = this.scan, around = "") {
    const houses = await this.last("/api/houses", { split });
    if (!houses) return;
    this.split = split;
    const tasks = [...new Set(this.catalogue.splits.map((name) => name.split("/")[0]))];
    fill(by("task"), tasks.map((name) => [name, name.toUpperCase()]), this.task);
    fill(by("split"), this.catalogue.splits.filter((name) => name.startsWith(`${this.task}/`)).map((name) => [name, name.split("/")[1]]), split);
    const known = houses.some((house) => house.scan === scan) ? scan : houses[0] && houses[0].scan;
    fill(by("house"), houses.map((house) => [house.scan, `${house.scan} (${house.instructions})`]), known);
    if (known) await this.openHouse(known, known === scan ? around : "");
  }

  async openHouse(scan, around = "") {
    this.scan = scan;
    by("house").value = scan;
    await this.openPage(around ? { around } : { page: 0 });
    if (by("from-words").checked) await this.showPlan();
  }

  async turnPage(by) {
    this.wanted = Math.min(Math.max(this.wanted + by, 0), this.pages - 1);
    await this.openPage({ page: this.wanted });
  }

  async openPage(which) {
    const found = await this.last("/api/instructions", { split: this.split, scan: this.scan, ...which });
    if (!found) return;
    this.page = this.wanted = found.page;
    this.pages = found.pages;
    by("before").disabled = found.page <= 0;
    by("after").disabled = found.page + 1 >= found.pages;
    by("pages").textContent = found.pages > 1 ? `${found.page + 1} of ${found.pages}` : "";
    by("pager").hidden = found.pages < 2;
    by("instructions").replaceChildren(...found.instructions.map((one) => this.entry(one, found.split)));
    this.mark(this.chosen);
  }

  entry(one, split) {
    const item = document.createElement("li"), button = document.createElement("button");
    button.type = "button";
    button.dataset.id = one.id;
    button.textContent = one.text;
    button.addEventListener("click", () => { this.mark(one.id); this.walk({ split, id: one.id }); });
    item.append(button);
    return item;
  }

  get listed() { return [...by("instructions").querySelectorAll("button")]; }

  mark(id) {
    this.chosen = id;
    for (const button of this.listed) {
      if (button.dataset.id === id) button.setAttribute("aria-current", "true");
      else button.removeAttribute("aria-current");
    }
  }

  moveFocus(event) {
    const to = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const buttons = this.listed, at = buttons.indexOf(document.activeElement);
    if (to === undefined || at < 0) return;
    event.preventDefault();
    buttons[Math.min(Math.max(at + to, 0), buttons.length - 1)].focus();
  }

  async show() {
    const own = by("from-words").checked;
    by("choose-instruction").hidden = own;
    by("own-words").hidden = !own;
    if (own) await this.showPlan();
  }

  // The plan of the house, to pick a start on; the list beside it does the same for the keyboard.
  async showPlan() {
    const scan = this.scan, plan = await this.plans.of(scan);
    if (scan !== this.scan) return; // another house was chosen meanwhile
    if (this.picker) this.picker.destroy();
    if (!plan.viewpoints.some((one) => one.id === this.start)) this.start = plan.viewpoints[0].id;
    const names = namesOf(plan);
    fill(by("start"), plan.viewpoints.map((one, index) => [one.id, names[index]]), this.start);
    const floor = plan.viewpoints.find((one) => one.id === this.start).floor;
    this.picker = globalThis.vlnbertEpisode.mountPlan(by("picker"), plan, { selected: this.start, floor, onSelect: (id) => this.pick(id) });
    const floors = plan.floors.length > 1 ? plan.floors : [];
    by("floors").replaceChildren(...floors.map((_, index) => {
      const button = document.createElement("button");
      Object.assign(button, { type: "button", textContent: `Floor ${index + 1}` });
      button.addEventListener("click", () => this.picker.showFloor(index));
      return button;
    }));
  }

  pick(id) {
    this.start = id;
    by("start").value = id;
    this.picker.select(id);
  }

  submit() {
    const text = by("words").value.trim();
    if (!text) { by("words").focus(); return this.fail(new Error("type an instruction first")); }
    const heading = ((Number(by("heading").value) * Math.PI) / 6).toFixed(4);
    return this.walk({ task: this.task, scan: this.scan, start: this.start, heading, text });
  }

  // Show what a link leads to.
  async follow(walk, scan) {
    if (walk.id !== undefined) {
      by("from-data").checked = true;
      this.chosen = walk.id;
      if (this.split !== walk.split || this.scan !== scan) await this.openSplit(walk.split, scan, walk.id);
      else if (!this.listed.some((button) => button.dataset.id === walk.id)) await this.openHouse(scan, walk.id);
      this.mark(walk.id);
    } else {
      by("from-words").checked = true;
      const split = this.catalogue.splits.find((name) => name.startsWith(`${walk.task}/`)) || this.split;
      this.start = walk.start;
      if (this.task !== walk.task || this.scan !== walk.scan) {
        await this.openSplit(split, walk.scan);
        if (this.scan !== walk.scan) { this.scan = walk.scan; fill(by("house"), [[walk.scan, walk.scan]], walk.scan); }
      }
      by("words").value = walk.text;
      const twelfth = Math.round(Number(walk.heading) / (Math.PI / 6)) % 12;
      by("heading").value = String((twelfth + 12) % 12);
    }
    await this.show();
  }
}

// A name for every viewpoint: the room that it is in, where rooms are known, and how many there are before it.
function namesOf(plan) {
  const counts = new Map();
  return plan.viewpoints.map((one) => {
    const room = plan.rooms.find((each) => each.floor === one.floor && inside(one, each.polygon));
    const name = room ? room.name : plan.floors.length > 1 ? `floor ${one.floor + 1}` : "viewpoint";
    counts.set(name, (counts.get(name) || 0) + 1);
    return room ? `${name} ${counts.get(name)}${plan.floors.length > 1 ? `, floor ${one.floor + 1}` : ""}` : `${name}, ${one.id.slice(0, 8)}`;
  });
}

function inside(point, polygon) {
  let within = false;
  polygon.forEach(([x, y], index) => {
    const [u, v] = polygon[(index + polygon.length - 1) % polygon.length];
    if (y > point.y !== v > point.y && point.x < ((u - x) * (point.y - y)) / (v - y) + x) within = !within;
  });
  return within;
}
