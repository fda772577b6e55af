"use strict";
// Reports and cards: each still card that has data becomes a viewer. Without this script the still card remains.
for (const card of document.querySelectorAll("[data-record]")) {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const place = card.querySelector(".viewer");
  vlnbertEpisode.mount(place, read(card.dataset.record), read(card.dataset.plan), { header: false });
  card.classList.add("live");
}
