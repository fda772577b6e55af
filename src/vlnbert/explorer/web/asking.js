"use strict";
// What the page asks the server, and how a walk is written into an address.

export class Refused extends Error {}

export async function get(path, fields = {}) {
  const query = new URLSearchParams(fields).toString();
  return answered(fetch(query ? `${path}?${query}` : path));
}

export async function post(path, body) {
  return answered(fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }));
}

async function answered(asked) {
  let response;
  try {
    response = await asked;
  } catch {
    throw new Refused("the server does not answer; is vlnbert explore still running?");
  }
  let found = null;
  try {
    found = await response.json();
  } catch {
    throw new Refused(`the server's answer is damaged (${response.status})`);
  }
  if (!response.ok) throw new Refused(found && typeof found.error === "string" ? found.error : `refused (${response.status})`);
  return found;
}

// A walk is {split, id} or {task, scan, start, heading, text}; with a step it is a link.
const EPISODE = ["split", "id"], TYPED = ["task", "scan", "start", "heading", "text"];

export function readLink(hash) {
  const found = Object.fromEntries(new URLSearchParams(hash.replace(/^#/, "")));
  const step = /^\d{1,4}$/.test(found.step || "") ? Number(found.step) - 1 : 0;
  for (const names of [EPISODE, TYPED]) {
    if (names.every((name) => typeof found[name] === "string" && found[name] !== "")) {
      return { walk: Object.fromEntries(names.map((name) => [name, found[name]])), step: Math.max(0, step) };
    }
  }
  return null;
}

export function writeLink(walk, step) {
  return `#${new URLSearchParams({ ...walk, step: String(step + 1) })}`;
}

export function cardAddress(walk, agent) {
  return `${walk.id === undefined ? "/instruction" : "/episode"}?${new URLSearchParams({ ...walk, agent: String(agent) })}`;
}

// Let an agent walk, by its place among the agents.
export async function ask(walk, agents, agent) {
  if (walk.id !== undefined) return get("/api/walk", { ...walk, agent });
  if (!agents[agent].follows_words) throw new Refused(`${agents[agent].name} must know the goal, and typed words have none`);
  return post("/api/walk", { ...walk, heading: Number(walk.heading), agent });
}
