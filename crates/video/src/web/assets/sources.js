// Where the picture comes from: hls.js, or a browser that plays HLS by itself. Both offer the same choices.

import { language } from "./common.js";

const RECOVERIES_MAX = 3;

/** What a track is called: its own name, or that of its language if it has none but the code. */
function titleOf(name, code, at) {
  if (name && name !== code) return name;
  return code ? language(code) : `Track ${at + 1}`;
}

/** Shows the cues of the chosen subtitles in an element of ours, which can stay clear of the controls. */
class Cues {
  constructor(video, target) {
    const draw = () => {
      const tracks = [...video.textTracks].filter((track) => track.mode === "hidden" && /subtitles|captions/.test(track.kind));
      const cues = tracks.flatMap((track) => [...(track.activeCues ?? [])]);
      target().replaceChildren(
        ...cues.map((cue) => {
          const line = document.createElement("p");
          line.append(cue.getCueAsHTML?.() ?? cue.text);
          return line;
        }),
      );
    };
    video.textTracks.addEventListener("addtrack", ({ track }) => track.addEventListener("cuechange", draw));
    video.textTracks.addEventListener("change", draw);
    for (const track of video.textTracks) track.addEventListener("cuechange", draw);
  }
}

export class HlsSource {
  constructor(video, address, failed) {
    const { Hls } = window;
    this.onchange = () => {};
    this.recoveries = 0;
    this.hls = new Hls({ capLevelToPlayerSize: true, maxBufferLength: 30, backBufferLength: 60 });
    this.hls.subtitleDisplay = false;
    const changed = () => this.onchange();
    for (const name of ["MANIFEST_PARSED", "LEVEL_SWITCHED", "AUDIO_TRACKS_UPDATED", "AUDIO_TRACK_SWITCHED", "SUBTITLE_TRACKS_UPDATED", "SUBTITLE_TRACK_SWITCH"]) {
      this.hls.on(Hls.Events[name], changed);
    }
    this.hls.on(Hls.Events.FRAG_BUFFERED, () => (this.recoveries = 0));
    this.hls.on(Hls.Events.ERROR, (_, data) => this.recover(data, failed));
    new Cues(video, () => this.captions);
    this.hls.loadSource(address);
    this.hls.attachMedia(video);
  }

  /** A lost connection or a hiccup of the decoder passes; anything else, or too much of it, does not. */
  recover(data, failed) {
    if (!data.fatal) return;
    const { ErrorTypes } = window.Hls;
    this.recoveries += 1;
    if (this.recoveries > RECOVERIES_MAX || (data.type !== ErrorTypes.NETWORK_ERROR && data.type !== ErrorTypes.MEDIA_ERROR)) {
      this.hls.destroy();
      failed(data.type === ErrorTypes.NETWORK_ERROR ? "The server does not answer. Load the page again." : `The browser cannot decode it (${data.details}).`);
    } else if (data.type === ErrorTypes.NETWORK_ERROR) {
      setTimeout(() => this.hls.startLoad(), 1000 * this.recoveries);
    } else {
      this.hls.recoverMediaError();
    }
  }

  choices(kind) {
    const { hls } = this;
    if (kind === "quality") return this.qualities();
    const name = (track, at) => ({ id: at, label: titleOf(track.name, track.lang, at) });
    if (kind === "audio") return hls.audioTracks.map(name);
    return [{ id: -1, label: "Off" }, ...hls.subtitleTracks.map(name)];
  }

  qualities() {
    const { hls } = this;
    const label = (level) => `${Math.min(level.width, level.height)}p`;
    const playing = hls.levels[hls.currentLevel];
    const auto = hls.autoLevelEnabled && playing ? `Auto (${label(playing)})` : "Auto";
    const levels = hls.levels.map((level, at) => ({ id: at, label: label(level), bits: level.bitrate }));
    levels.sort((one, other) => other.bits - one.bits);
    return levels.length ? [{ id: -1, label: auto, short: "Auto" }, ...levels] : [];
  }

  chosen(kind) {
    const { hls } = this;
    if (kind === "quality") return hls.autoLevelEnabled ? -1 : hls.loadLevel;
    return kind === "audio" ? hls.audioTrack : hls.subtitleTrack;
  }

  choose(kind, id) {
    // A choice holds for what is buffered too, so that it is seen at once and after a seek back.
    if (kind === "quality" && id !== -1) this.hls.currentLevel = id;
    else if (kind === "quality") this.hls.nextLevel = -1;
    else if (kind === "audio") this.hls.audioTrack = id;
    else this.hls.subtitleTrack = id;
    if (kind === "subtitles" && id === -1) this.captions.replaceChildren();
  }
}

export class NativeSource {
  constructor(video, address, failed) {
    this.video = video;
    this.onchange = () => {};
    const changed = () => this.onchange();
    video.addEventListener("loadedmetadata", changed);
    video.addEventListener("error", () => failed("This browser cannot play it. Download a file below instead."));
    video.textTracks.addEventListener?.("addtrack", changed);
    video.audioTracks?.addEventListener?.("addtrack", changed);
    new Cues(video, () => this.captions);
    video.src = address;
  }

  choices(kind) {
    if (kind === "quality") return [];
    const name = (track, at) => ({ id: at, label: titleOf(track.label, track.language, at) });
    if (kind === "audio") return [...(this.video.audioTracks ?? [])].map(name);
    return [{ id: -1, label: "Off" }, ...[...this.video.textTracks].map(name)];
  }

  chosen(kind) {
    if (kind === "audio") return [...(this.video.audioTracks ?? [])].findIndex((track) => track.enabled);
    return [...this.video.textTracks].findIndex((track) => track.mode !== "disabled");
  }

  choose(kind, id) {
    if (kind === "audio") [...this.video.audioTracks].forEach((track, at) => (track.enabled = at === id));
    else [...this.video.textTracks].forEach((track, at) => (track.mode = at === id ? "hidden" : "disabled"));
  }
}
