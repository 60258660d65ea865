// The controls of the player. They know the video element and a source, which offers choices; not where it comes from.
//
// A source has, for each of `quality`, `subtitles` and `audio`: `choices(kind)` (a list of `{id, label}`), `chosen(kind)`
// and `choose(kind, id)`, and calls `onchange` when any of it changes.

import { clock, keep, kept } from "./common.js";

const find = (id) => document.getElementById(id);
const SPEEDS = [0.5, 0.75, 1, 1.25, 1.5, 2];
/** How long the controls stay after the pointer rests. */
const IDLE_MS = 2600;
const SEEK_S = 5;

export class Controls {
  constructor(video, source) {
    this.video = video;
    this.source = source;
    this.frame = find("frame");
    this.thumbnails = null;
    this.lastSubtitles = null;
    this.menus = new Map();
    this.follow();
    this.listen();
    this.bindMenus();
    this.bindKeys();
    this.bindPreview();
    source.onchange = () => this.drawMenus();
    find("controls").hidden = false;
    this.restore();
    this.drawMenus();
    this.drawTime();
    this.wake();
  }

  /* What the video does is shown. */

  follow() {
    const { video } = this;
    const on = (names, action) => names.split(" ").forEach((name) => video.addEventListener(name, action));
    on("play pause ended", () => this.drawPlaying());
    on("timeupdate seeking durationchange loadedmetadata ended", () => this.drawTime());
    on("progress timeupdate", () => this.drawBuffered());
    on("volumechange", () => this.drawVolume());
    on("ratechange", () => this.drawMenus());
    on("waiting stalled", () => (find("spinner").hidden = video.paused || video.readyState > 2));
    on("playing canplay seeked pause", () => (find("spinner").hidden = true));
    document.addEventListener("fullscreenchange", () => this.drawFullscreen());
  }

  drawPlaying() {
    const { video } = this;
    const [icon, label] = video.ended ? ["again", "Play again"] : video.paused ? ["play", "Play"] : ["pause", "Pause"];
    setIcon(find("play"), icon, label);
    find("big-play").hidden = !video.paused || video.ended || video.currentTime > 0;
    this.wake();
  }

  drawTime() {
    const { video } = this;
    const length = Number.isFinite(video.duration) ? video.duration : 0;
    const seek = find("seek");
    seek.max = length || 1;
    if (!this.isSeeking) seek.value = video.currentTime;
    // The sound may end a few milliseconds before the last second does.
    const whole = clock(Math.round(length));
    const now = video.ended ? whole : clock(video.currentTime);
    seek.setAttribute("aria-valuetext", `${now} of ${whole}`);
    find("time").textContent = `${now} / ${whole}`;
    find("played").style.width = `${length ? (Number(seek.value) / length) * 100 : 0}%`;
  }

  drawBuffered() {
    const { video } = this;
    let end = 0;
    for (let at = 0; at < video.buffered.length; at += 1) {
      if (video.buffered.start(at) <= video.currentTime + 0.3) end = video.buffered.end(at);
    }
    find("buffered").style.width = video.duration ? `${Math.min(100, (end / video.duration) * 100)}%` : "0";
  }

  drawVolume() {
    const { video } = this;
    const isSilent = video.muted || video.volume === 0;
    setIcon(find("mute"), isSilent ? "muted" : "sound", isSilent ? "Unmute" : "Mute");
    const slider = find("volume");
    slider.value = isSilent ? 0 : video.volume;
    slider.style.setProperty("--fill", `${slider.value * 100}%`);
    if (!isSilent) find("unmute").hidden = true;
    keep("player volume", video.volume);
  }

  drawFullscreen() {
    const isFull = Boolean(document.fullscreenElement);
    setIcon(find("fullscreen"), isFull ? "small" : "full", isFull ? "Leave full screen" : "Full screen");
  }

  /* What people do changes the video. */

  listen() {
    const { video, frame } = this;
    find("play").onclick = find("big-play").onclick = () => this.toggle();
    find("mute").onclick = () => this.toggleSound();
    find("unmute").onclick = () => this.toggleSound();
    find("volume").oninput = (event) => {
      video.volume = Number(event.target.value);
      video.muted = video.volume === 0;
    };
    const seek = find("seek");
    seek.addEventListener("input", () => {
      this.isSeeking = true;
      video.currentTime = Number(seek.value);
      this.drawTime();
    });
    seek.addEventListener("change", () => (this.isSeeking = false));
    find("fullscreen").onclick = () => this.toggleFullscreen();
    video.addEventListener("click", () => {
      if (this.closeMenus()) return;
      // A finger first brings the controls back; a mouse has them already.
      if (matchMedia("(hover: none)").matches && frame.classList.contains("idle")) return;
      this.toggle();
    });
    video.addEventListener("dblclick", () => this.toggleFullscreen());
    // A mouse leaves the focus where it is, so that the keys go on to mean the player and not the last button.
    frame.addEventListener("mousedown", (event) => {
      if (event.target.closest("button")) event.preventDefault();
    });
    for (const name of ["pointermove", "pointerdown", "focusin"]) frame.addEventListener(name, () => this.wake());
    frame.addEventListener("pointerleave", () => this.wake(300));
  }

  toggle() {
    if (this.video.paused || this.video.ended) this.video.play().catch(() => {});
    else this.video.pause();
  }

  toggleSound() {
    const { video } = this;
    video.muted = !video.muted && video.volume > 0;
    if (!video.muted && video.volume === 0) video.volume = 0.5;
  }

  toggleFullscreen() {
    if (document.fullscreenElement) document.exitFullscreen();
    else if (this.frame.requestFullscreen) this.frame.requestFullscreen().catch(() => {});
    else this.video.webkitEnterFullscreen?.();
  }

  seekBy(seconds) {
    const { video } = this;
    video.currentTime = Math.min(Math.max(0, video.currentTime + seconds), video.duration || 0);
  }

  /** Shows the controls, and hides them when nothing happens while it plays. */
  wake(after = IDLE_MS) {
    this.frame.classList.remove("idle");
    clearTimeout(this.idleTimer);
    this.idleTimer = setTimeout(() => {
      const isInUse = this.frame.querySelector("[role=menu]:not([hidden])") || this.frame.querySelector(".row :focus-visible");
      if (!this.video.paused && !isInUse) this.frame.classList.add("idle");
    }, after);
  }

  /* Menus. */

  bindMenus() {
    for (const root of this.frame.querySelectorAll(".menu")) {
      const menu = { root, button: root.querySelector("button"), list: root.querySelector("[role=menu]") };
      this.menus.set(root.dataset.menu, menu);
      menu.button.onclick = () => this.openMenu(menu);
      menu.list.onkeydown = (event) => this.moveInMenu(menu, event);
    }
    document.addEventListener("pointerdown", (event) => {
      if (!event.target.closest?.(".menu")) this.closeMenus();
    });
  }

  openMenu(menu) {
    const wasOpen = !menu.list.hidden;
    this.closeMenus();
    if (wasOpen) return;
    menu.list.hidden = false;
    menu.button.setAttribute("aria-expanded", "true");
    (menu.list.querySelector("[aria-checked=true]") ?? menu.list.firstElementChild)?.focus();
  }

  /** Closes what is open; says whether anything was. */
  closeMenus() {
    let wasOpen = false;
    for (const { list, button } of this.menus.values()) {
      wasOpen ||= !list.hidden;
      list.hidden = true;
      button.setAttribute("aria-expanded", "false");
    }
    return wasOpen;
  }

  moveInMenu(menu, event) {
    const items = [...menu.list.children];
    const at = items.indexOf(document.activeElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: items.length - 1 }[event.key];
    if (event.key === "Escape" || event.key === "Tab") {
      this.closeMenus();
      menu.button.focus();
    } else if (to === undefined) {
      return;
    } else {
      items[(to + items.length) % items.length].focus();
    }
    event.preventDefault();
    event.stopPropagation();
  }

  drawMenus() {
    const { source, video } = this;
    for (const kind of ["quality", "subtitles", "audio"]) {
      const choices = source.choices(kind);
      this.drawMenu(kind, choices, source.chosen(kind), (id) => source.choose(kind, id));
      this.menus.get(kind).root.hidden = choices.length < 2;
    }
    const speeds = SPEEDS.map((speed) => ({ id: speed, label: speed === 1 ? "Normal" : `${speed}×` }));
    this.drawMenu("speed", speeds, video.playbackRate, (speed) => (video.playbackRate = speed));
    this.menus.get("speed").button.firstElementChild.textContent = `${video.playbackRate}×`;
    const quality = source.choices("quality").find(({ id }) => id === source.chosen("quality"));
    this.menus.get("quality").button.firstElementChild.textContent = quality?.short ?? quality?.label ?? "Auto";
    const hasSubtitles = source.chosen("subtitles") !== -1;
    this.menus.get("subtitles").button.classList.toggle("on", hasSubtitles);
    if (hasSubtitles) this.lastSubtitles = source.chosen("subtitles");
  }

  drawMenu(kind, choices, chosen, choose) {
    const menu = this.menus.get(kind);
    const { list, button } = menu;
    // An entry that is replaced while the mouse button is down on it would not be clicked.
    const drawn = JSON.stringify([choices, chosen]);
    if (menu.drawn === drawn) return;
    menu.drawn = drawn;
    const focused = [...list.children].indexOf(document.activeElement);
    list.replaceChildren(
      ...choices.map(({ id, label }) => {
        const item = document.createElement("button");
        item.type = "button";
        item.setAttribute("role", "menuitemradio");
        item.setAttribute("aria-checked", String(id === chosen));
        item.dataset.choice = id;
        item.textContent = label;
        item.onclick = (event) => {
          choose(id);
          this.closeMenus();
          // A key has no pointer to come back with.
          if (event.detail === 0) button.focus();
          this.drawMenus();
        };
        return item;
      }),
    );
    if (focused >= 0) list.children[focused]?.focus();
  }

  /* Keys. */

  bindKeys() {
    document.addEventListener("keydown", (event) => {
      const { target, key } = event;
      if (event.ctrlKey || event.metaKey || event.altKey || target.closest?.("dialog")) return;
      const isButton = target.closest?.("button, a, summary");
      const isVolume = target.id === "volume";
      const actions = {
        " ": () => this.toggle(),
        k: () => this.toggle(),
        ArrowLeft: () => this.seekBy(-SEEK_S),
        ArrowRight: () => this.seekBy(SEEK_S),
        ArrowUp: () => this.changeVolume(0.1),
        ArrowDown: () => this.changeVolume(-0.1),
        f: () => this.toggleFullscreen(),
        m: () => this.toggleSound(),
        c: () => this.toggleSubtitles(),
      };
      const action = actions[key.length === 1 ? key.toLowerCase() : key];
      if (!action || (isButton && key === " ") || (isVolume && key.startsWith("Arrow"))) return;
      event.preventDefault();
      action();
      this.wake();
    });
  }

  changeVolume(by) {
    this.video.volume = Math.min(1, Math.max(0, this.video.volume + by));
    this.video.muted = this.video.volume === 0;
  }

  toggleSubtitles() {
    const { source } = this;
    const choices = source.choices("subtitles");
    if (choices.length < 2) return;
    const first = choices.find(({ id }) => id !== -1).id;
    source.choose("subtitles", source.chosen("subtitles") === -1 ? (this.lastSubtitles ?? first) : -1);
    this.drawMenus();
  }

  /* The picture above the seek bar. */

  bindPreview() {
    const scrubber = find("scrubber");
    const preview = find("preview");
    scrubber.addEventListener("pointermove", (event) => {
      const box = scrubber.getBoundingClientRect();
      const length = this.video.duration;
      if (!length) return;
      const fraction = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
      preview.hidden = false;
      find("preview-image").hidden = !this.thumbnails?.show(find("preview-image"), fraction * length);
      find("preview-time").textContent = clock(fraction * length);
      const half = preview.offsetWidth / 2;
      const left = Math.min(Math.max(fraction * box.width, half), box.width - half);
      preview.style.left = `${left}px`;
    });
    for (const name of ["pointerleave", "pointercancel", "pointerup"]) {
      scrubber.addEventListener(name, (event) => {
        if (name !== "pointerup" || event.pointerType !== "mouse") preview.hidden = true;
      });
    }
  }

  restore() {
    const volume = Number(kept("player volume") ?? 1);
    if (volume >= 0 && volume <= 1) this.video.volume = volume;
    this.drawVolume();
    this.drawPlaying();
    this.drawFullscreen();
  }
}

function setIcon(button, icon, label) {
  button.querySelector("use").setAttribute("href", `#i-${icon}`);
  button.setAttribute("aria-label", label);
  button.title = label;
}
