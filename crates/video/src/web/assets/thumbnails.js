// Small pictures for the seek bar: sheets of them, and a WebVTT file that says which is where.

/** Widest preview in pixels. */
const WIDTH_MAX = 208;

export class Thumbnails {
  /** Reads the index at this address. */
  static async load(address) {
    const response = await fetch(address);
    if (!response.ok) throw new Error(`the thumbnails answered ${response.status}`);
    return new Thumbnails(await response.text(), new URL(address, location.href));
  }

  constructor(text, base) {
    this.cues = [];
    this.sheets = new Map();
    const lines = text.split(/\r?\n/);
    lines.forEach((line, at) => {
      const times = line.match(/^([\d:.]+) --> ([\d:.]+)/);
      const place = lines[at + 1]?.match(/^(\S+)#xywh=(\d+),(\d+),(\d+),(\d+)/);
      if (!times || !place) return;
      const [x, y, w, h] = place.slice(2).map(Number);
      const sheet = new URL(place[1], base).href;
      this.cues.push({ from: seconds(times[1]), to: seconds(times[2]), sheet, x, y, w, h });
    });
  }

  /** Shows the picture of a moment in an element; says whether there is one. */
  show(target, at) {
    const cue = this.cues.find((cue) => at < cue.to) ?? this.cues.at(-1);
    if (!cue) return false;
    const scale = Math.min(1, WIDTH_MAX / cue.w);
    const sheet = this.sheet(cue.sheet);
    target.style.width = `${cue.w * scale}px`;
    target.style.height = `${cue.h * scale}px`;
    target.style.backgroundImage = `url("${cue.sheet}")`;
    target.style.backgroundPosition = `${-cue.x * scale}px ${-cue.y * scale}px`;
    if (sheet.naturalWidth) target.style.backgroundSize = `${sheet.naturalWidth * scale}px auto`;
    return true;
  }

  sheet(address) {
    let image = this.sheets.get(address);
    if (!image) {
      image = new Image();
      image.src = address;
      this.sheets.set(address, image);
    }
    return image;
  }
}

function seconds(text) {
  return text.split(":").reduce((sum, part) => sum * 60 + Number(part), 0);
}
