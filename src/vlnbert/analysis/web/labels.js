"use strict";
// Labels of a plan: the important ones are placed first, and those that find no free place are left out.
globalThis.vlnbertLabels = (() => {
  const LETTER = 6.7, HIGH = 14; // pixels that a letter takes, about, and a line
  const SIDES = [[0, -9], [0, 19], [1, 4], [-1, 4]]; // above, below, right and left; the first number is in half widths

  const half = (text) => (text.length * LETTER) / 2 + 2;
  const boxOf = (text, x, y) => ({ left: x - half(text), right: x + half(text), top: y - 11, bottom: y - 11 + HIGH });
  const around = (x, y, reach) => ({ left: x - reach, right: x + reach, top: y - reach, bottom: y + reach });
  const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;

  // Places beside a mark of some size.
  function beside(text, x, y, reach) {
    return SIDES.map(([side, down]) => [x + side * (half(text) + reach + 2), y + (side ? down : down < 0 ? down - reach + 4 : down + reach - 4)]);
  }

  // Places in a room, from the middle of what the panel shows of it outwards.
  function within(text, polygon, on) {
    const corners = polygon.map(([x, y]) => [on.x(x), on.y(y)]), wide = half(text);
    const clip = (values, most) => { const kept = values.map((one) => Math.min(Math.max(one, 0), most)); return [Math.min(...kept), Math.max(...kept)]; };
    const [left, right] = clip(corners.map(([x]) => x), on.width), [top, bottom] = clip(corners.map(([, y]) => y), on.height);
    const middle = [(left + right) / 2, (top + bottom) / 2 + 4], places = [];
    for (let down = -6; down <= 6; down += 1) for (let side = -4; side <= 4; side += 1) places.push([middle[0] + side * 18, middle[1] + down * 15]);
    const fits = ([x, y]) => inside([x - wide + 4, y - 4], corners) && inside([x + wide - 4, y - 4], corners);
    const far = ([x, y]) => Math.hypot(x - middle[0], y - middle[1]);
    return places.filter(fits).sort((a, b) => far(a) - far(b));
  }

  function inside([x, y], corners) {
    let odd = false;
    corners.forEach(([ax, ay], index) => {
      const [bx, by] = corners[(index + 1) % corners.length];
      if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) odd = !odd;
    });
    return odd;
  }

  // `wanted` are { text, kind, rank, places }, of which rank 0 comes first; `taken` are boxes that stay free of labels,
  // `lines` small ones that names of rooms and things keep away from, and others where they can.
  function placed(wanted, on, taken, lines) {
    const blocked = [...taken], made = [];
    for (const { text, kind, rank, places } of [...wanted].sort((a, b) => a.rank - b.rank)) {
      const free = ([x, y]) => {
        const box = boxOf(text, x, y);
        if (box.left < 1 || box.right > on.width - 1 || box.top < 1 || box.bottom > on.height - 1) return false;
        return !blocked.some((one) => meet(box, one));
      };
      const clear = (place) => free(place) && !lines.some((one) => meet(boxOf(text, ...place), one));
      const place = places.find(clear) || (rank < 2 ? places.find(free) : undefined);
      if (!place) continue;
      blocked.push(boxOf(text, ...place));
      made.push({ text, kind, x: place[0], y: place[1] });
    }
    return made;
  }

  return { around, beside, within, placed };
})();
