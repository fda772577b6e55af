"use strict";
// The page: what is chosen on the left is walked by every agent and shown by the viewer, step by step.

import { Refused, ask, cardAddress, get, readLink, writeLink } from "/files/asking.js";
import { Chooser } from "/files/choosing.js";
import { savePNG, saveSVG } from "/files/exporting.js";

const by = (id) => document.getElementById(id);
const KEPT = 12; // plans

const plans = {
  found: new Map(),
  of(scan) {
    if (!this.found.has(scan)) {
      const asked = get("/api/plan", { scan });
      asked.catch(() => this.found.delete(scan));
      this.found.set(scan, asked);
      if (this.found.size > KEPT) this.found.delete(this.found.keys().next().value);
    }
    return this.found.get(scan);
  },
};

const now = { walk: null, records: [], viewers: [], turn: 0, moving: false };
let catalogue = null, chooser = null;

function tell(line, bad = false) {
  by("message").textContent = line;
  by("message").classList.toggle("bad", bad);
}

function fail(error) {
  if (!(error instanceof Error)) throw error;
  const text = error.message || "something went wrong";
  tell(text[0].toUpperCase() + text.slice(1), true);
  if (!(error instanceof Refused)) console.warn(error);
}

// Let every agent walk, then show them side by side; only what was asked last is shown.
async function walk(asked, step = 0, follow = false) {
  const turn = (now.turn += 1);
  by("stage").setAttribute("aria-busy", "true");
  tell("Walking …");
  try {
    const answers = await Promise.allSettled(catalogue.agents.map((_, agent) => ask(asked, catalogue.agents, agent)));
    const records = answers.map((one) => (one.status === "fulfilled" ? one.value : null));
    const some = records.find(Boolean);
    if (!some) throw answers[0].reason;
    const plan = await plans.of(some.scan);
    if (turn !== now.turn) return;
    if (follow) await chooser.follow(asked, some.scan);
    if (turn !== now.turn) return;
    tell("");
    show(asked, answers, plan, step);
  } catch (error) {
    if (turn === now.turn) fail(error);
  } finally {
    if (turn === now.turn) by("stage").removeAttribute("aria-busy");
  }
}

function show(asked, answers, plan, step) {
  for (const viewer of now.viewers) viewer.destroy();
  now.walk = asked;
  now.records = answers.map((one) => (one.status === "fulfilled" ? one.value : null));
  const longest = now.records.reduce((best, one, index) => (one && one.steps.length > (now.records[best] ? now.records[best].steps.length : -1) ? index : best), 0);
  const shown = by("title-of-walk");
  shown.textContent = asked.id === undefined ? "Your own words" : `${asked.split.split("/")[0].toUpperCase()} ${asked.split.split("/")[1]}, ${asked.id}`;
  by("house-of-walk").textContent = `in house ${plan.scan}`;
  const also = now.records.filter(Boolean).flatMap((one) => one.path); // all plans show the same part of the house
  now.viewers = [];
  now.moving = true;
  catalogue.agents.forEach((_, index) => {
    const place = by(`viewer-${index}`);
    place.replaceChildren();
    by(`card-${index}`).href = cardAddress(asked, index);
    if (!now.records[index]) {
      const line = document.createElement("p");
      line.className = "bad";
      line.textContent = answers[index].reason.message;
      place.append(line);
      return;
    }
    const keys = index === longest ? document : undefined;
    const viewer = globalThis.vlnbertEpisode.mount(place, now.records[index], plan, { step, also, ...(keys ? { keys } : {}) });
    viewer.agent = index;
    now.viewers.push(viewer);
  });
  now.moving = false;
  for (const id of ["copy", "save-svg", "save-png"]) by(id).disabled = false;
  remember(now.viewers[0].step);
}

// One moves, all move; and the address leads to the step.
function moved(event) {
  if (now.moving || !now.viewers.length) return;
  now.moving = true;
  for (const viewer of now.viewers) {
    if (!by(`viewer-${viewer.agent}`).contains(event.target)) viewer.goTo(event.detail.step);
  }
  now.moving = false;
  remember(event.detail.step);
}

function remember(step) {
  now.step = step;
  history.replaceState(null, "", writeLink(now.walk, step));
}

async function copyLink() {
  try {
    await navigator.clipboard.writeText(location.href);
    tell("The link is copied.");
  } catch {
    tell("This browser does not let pages copy; the address bar has the link.");
  }
}

function openLink(first = false) {
  const link = readLink(location.hash);
  if (link) return walk(link.walk, link.step, true);
  if (!first && location.hash) return fail(new Refused("the link is damaged; choose a walk on the left"));
  if (catalogue.first) return walk(catalogue.first, 0, true);
  return tell("There is nothing to choose from: the data folder holds no instructions.", true);
}

async function begin() {
  catalogue = await get("/api/catalogue");
  chooser = new Chooser(catalogue, plans, (asked) => walk(asked), fail);
  by("viewers").addEventListener("step", moved);
  by("copy").addEventListener("click", copyLink);
  const name = () => `vlnbert-${now.records.find(Boolean).scan}-step-${now.step + 1}`;
  by("save-svg").addEventListener("click", () => saveSVG(now, catalogue.agents, name()));
  by("save-png").addEventListener("click", () => savePNG(now, catalogue.agents, name()).catch(fail));
  window.addEventListener("hashchange", () => openLink());
  await openLink(true);
  document.documentElement.dataset.ready = "yes";
}

begin().catch(fail);
