"use strict";
// Buttons that copy, and the timeline: spans on a canvas.
for (const button of document.querySelectorAll("[data-copies]"))
  button.addEventListener("click", async () => {
    const text = document.getElementById(button.dataset.copies).textContent;
    const label = button.textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {  // no permission, as for a file on disk in some browsers: select it instead
      getSelection().selectAllChildren(document.getElementById(button.dataset.copies));
      button.textContent = "Selected: press Ctrl+C";
    }
    setTimeout(() => { button.textContent = label; }, 2000);
  });

class Timeline {
  constructor(canvas, data, detail, legend) {
    this.canvas = canvas;
    this.detail = detail;
    this.end = data.end_ns;
    this.kinds = data.kinds;
    this.inks = data.inks;
    this.lanes = [];
    for (const rank of data.ranks)
      rank.lanes.forEach((lane, i) => this.lanes.push(this.decoded(rank, lane, i === 0)));
    this.from = 0;
    this.to = this.end;
    this.lane = 0;
    this.chosen = -1;
    this.asked = false;
    for (const ink of this.inks) {
      const item = legend.appendChild(document.createElement("li"));
      const square = item.appendChild(document.createElement("span"));
      if (ink.colour) square.style.background = ink.colour;
      else square.style.background = "repeating-linear-gradient(45deg, #888 0 2px, transparent 2px 5px)";
      item.append(ink.name);
    }
    this.listen();
    new ResizeObserver(() => this.resize()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    this.resize();
  }

  decoded(rank, lane, first) {
    const bytes = atob(lane.spans);
    const begin = [], end = [], kind = [];
    let at = 0, time = 0;
    const varint = () => {
      let value = 0, scale = 1;
      for (;;) {
        const byte = bytes.charCodeAt(at++);
        value += (byte & 127) * scale;
        if (byte < 128) return value;
        scale *= 128;
      }
    };
    while (at < bytes.length) {
      time += varint();
      const k = varint();
      begin.push(time);
      time += this.kinds[k][2];
      end.push(time);
      kind.push(k);
    }
    const alike = rank.represents > 1 ? ` (and ${rank.represents - 1} like it)` : "";
    return { rank, first, stream: lane.stream, title: `stage ${rank.stage}, rank ${rank.rank}${alike}`,
             begin: Float64Array.from(begin), end: Float64Array.from(end), kind: Uint32Array.from(kind) };
  }

  rows() {  // where each lane lies; ranks have a title above
    let y = 24;
    return this.lanes.map((lane) => {
      if (lane.first) y += 22;
      const row = { y, height: lane.stream === "compute" ? 22 : 13 };
      y += row.height + 3;
      return row;
    });
  }

  resize() {
    const rows = this.rows();
    const last = rows[rows.length - 1];
    const ratio = devicePixelRatio || 1;
    const width = this.canvas.clientWidth, height = last ? last.y + last.height + 8 : 60;
    this.canvas.style.height = `${height}px`;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.draw();
  }

  draw() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => { this.asked = false; this.paint(); });
  }

  x(time) { return (time - this.from) / (this.to - this.from) * this.canvas.clientWidth; }

  paint() {
    const c = this.canvas.getContext("2d");
    const ratio = devicePixelRatio || 1;
    const style = getComputedStyle(document.documentElement);
    const text = style.getPropertyValue("--text").trim(), soft = style.getPropertyValue("--soft").trim();
    const line = style.getPropertyValue("--line").trim();
    const width = this.canvas.clientWidth, height = this.canvas.height / ratio;
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.clearRect(0, 0, width, height);
    c.font = "12px system-ui, sans-serif";
    c.textBaseline = "middle";
    this.paintAxis(c, width, height, soft, line);
    const rows = this.rows();
    this.lanes.forEach((lane, i) => {
      const row = rows[i];
      if (lane.first) {
        c.fillStyle = text;
        c.fillText(lane.title, 4, row.y - 11);
      }
      this.paintLane(c, lane, row, width, text, i);
    });
  }

  paintAxis(c, width, height, soft, line) {
    const span = this.to - this.from;
    let step = Math.pow(10, Math.floor(Math.log10(span / (width / 90))));
    while (span / step > width / 90) step *= step.toString().startsWith("2") ? 2.5 : 2;
    c.strokeStyle = line;
    c.fillStyle = soft;
    for (let t = Math.ceil(this.from / step) * step; t <= this.to; t += step) {
      const x = Math.round(this.x(t)) + .5;
      c.beginPath();
      c.moveTo(x, 18);
      c.lineTo(x, height);
      c.stroke();
      c.fillText(duration(t, span), Math.min(x + 3, width - 60), 10);
    }
  }

  // Spans that are thinner than a pixel are drawn as one where they have one ink.
  paintLane(c, lane, row, width, text, index) {
    const scale = width / (this.to - this.from);
    let at = firstAfter(lane.end, this.from);
    let runInk = -1, runFrom = 0, runTo = 0;
    const flush = () => {
      if (runInk < 0) return;
      this.fill(c, runInk, runFrom, row.y, Math.max(1, runTo - runFrom), row.height);
      runInk = -1;
    };
    for (; at < lane.begin.length && lane.begin[at] < this.to; ++at) {
      const a = (lane.begin[at] - this.from) * scale, b = (lane.end[at] - this.from) * scale;
      const [name, ink] = this.kinds[lane.kind[at]];
      if (b - a < 1.5) {
        if (ink === runInk && a - runTo < 1) runTo = b;
        else if (a >= runTo || runInk < 0) { flush(); runInk = ink; runFrom = a; runTo = b; }
        continue;
      }
      flush();
      const left = Math.max(0, a), right = Math.min(width, b);
      this.fill(c, ink, left, row.y, right - left - (b - a > 4 ? 1 : 0), row.height);
      if (right - left > 46 && row.height > 12 && this.inks[ink].colour) {
        c.save();
        c.beginPath();
        c.rect(left, row.y, right - left - 2, row.height);
        c.clip();
        c.fillStyle = readable(this.inks[ink].colour) || text;
        c.fillText(name, left + 4, row.y + row.height / 2 + 1);
        c.restore();
      }
    }
    flush();
    if (index === this.lane && this.chosen >= 0) {
      const a = this.x(lane.begin[this.chosen]), b = this.x(lane.end[this.chosen]);
      c.strokeStyle = text;
      c.lineWidth = 2;
      c.strokeRect(a, row.y - 1, Math.max(3, b - a), row.height + 2);
      c.lineWidth = 1;
    }
  }

  fill(c, ink, x, y, width, height) {
    const colour = this.inks[ink].colour;
    if (colour) {
      c.fillStyle = colour;
      c.fillRect(x, y, width, height);
      return;
    }
    c.strokeStyle = "#888";
    c.beginPath();
    c.moveTo(x, y + height / 2);
    c.lineTo(x + width, y + height / 2);
    c.stroke();
  }

  show(from, to) {
    const span = Math.min(this.end, Math.max(20, to - from));
    this.from = Math.min(Math.max(0, from), this.end - span);
    this.to = this.from + span;
    this.draw();
  }
  zoom(factor, at) {
    const middle = this.from + (this.to - this.from) * at;
    this.show(middle - (middle - this.from) * factor, middle + (this.to - middle) * factor);
  }
  pan(share) {
    const by = (this.to - this.from) * share;
    this.show(this.from + by, this.to + by);
  }

  choose(lane, span) {
    if (lane < 0 || lane >= this.lanes.length || span < 0 || span >= this.lanes[lane].begin.length) return;
    this.lane = lane;
    this.chosen = span;
    const of = this.lanes[lane], begin = of.begin[span], end = of.end[span];
    this.detail.textContent = `${this.kinds[of.kind[span]][0]}: ${duration(end - begin, end - begin)}, ` +
      `from ${duration(begin, this.end)}, ${of.title}, stream ${of.stream.replaceAll("_", " ")}`;
    if (end < this.from || begin > this.to) {
      const width = this.to - this.from;
      this.show(begin - width / 2, begin + width / 2);
    }
    this.draw();
  }

  chooseAt(x, y) {
    const rows = this.rows();
    const lane = rows.findIndex((row) => y >= row.y - 2 && y <= row.y + row.height + 2);
    if (lane < 0) return;
    const time = this.from + x / this.canvas.clientWidth * (this.to - this.from);
    this.choose(lane, Math.min(firstAfter(this.lanes[lane].end, time), this.lanes[lane].end.length - 1));
  }

  listen() {
    let dragged = null;
    this.canvas.addEventListener("wheel", (event) => {
      if (event.shiftKey) this.pan(Math.sign(event.deltaY) * .1);
      else if (event.ctrlKey || document.activeElement === this.canvas)
        this.zoom(Math.pow(1.0015, event.deltaY), event.offsetX / this.canvas.clientWidth);
      else return;
      event.preventDefault();
    }, { passive: false });
    this.canvas.addEventListener("pointerdown", (event) => {
      dragged = { x: event.offsetX, from: this.from, to: this.to, moved: false };
      this.canvas.setPointerCapture(event.pointerId);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (!dragged) return;
      const by = (dragged.x - event.offsetX) / this.canvas.clientWidth * (dragged.to - dragged.from);
      dragged.moved ||= Math.abs(event.offsetX - dragged.x) > 3;
      if (dragged.moved) this.show(dragged.from + by, dragged.to + by);
    });
    this.canvas.addEventListener("pointerup", (event) => {
      if (dragged && !dragged.moved) this.chooseAt(event.offsetX, event.offsetY);
      dragged = null;
    });
    const keys = {
      ArrowLeft: () => this.pan(-.2), ArrowRight: () => this.pan(.2),
      "+": () => this.zoom(.6, .5), "=": () => this.zoom(.6, .5), "-": () => this.zoom(1 / .6, .5),
      ArrowUp: () => this.zoom(.6, .5), ArrowDown: () => this.zoom(1 / .6, .5),
      Home: () => this.show(0, this.end),
      n: () => this.choose(this.lane, this.chosen + 1), p: () => this.choose(this.lane, Math.max(0, this.chosen - 1)),
      PageDown: () => this.choose(Math.min(this.lanes.length - 1, this.lane + 1), 0),
      PageUp: () => this.choose(Math.max(0, this.lane - 1), 0),
    };
    this.canvas.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.altKey || event.metaKey || !keys[event.key]) return;
      event.preventDefault();
      keys[event.key]();
    });
  }
}

// The first index whose value is greater than `value`; the list is ascending.
function firstAfter(list, value) {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle] > value) high = middle;
    else low = middle + 1;
  }
  return low;
}

// `of`: the span of time that is shown, which decides the unit and the digits.
function duration(ns, of) {
  const [scale, unit] = of >= 1e9 ? [1e9, "s"] : of >= 1e6 ? [1e6, "ms"] : of >= 1e3 ? [1e3, "us"] : [1, "ns"];
  return `${+(ns / scale).toPrecision(5)} ${unit}`;
}

// Black or white, whichever stands out more on the colour (WCAG 2.2, relative luminance).
function readable(colour) {
  if (!colour) return "";
  const [r, g, b] = [1, 3, 5].map((i) => {
    const value = parseInt(colour.slice(i, i + 2), 16) / 255;
    return value <= .04045 ? value / 12.92 : Math.pow((value + .055) / 1.055, 2.4);
  });
  return .2126 * r + .7152 * g + .0722 * b > .179 ? "#000" : "#fff";
}

const spans = document.getElementById("timeline-data");
if (spans)
  globalThis.timeline = new Timeline(document.getElementById("timeline"), JSON.parse(spans.textContent),
                                     document.getElementById("timeline-detail"),
                                     document.getElementById("timeline-legend"));
