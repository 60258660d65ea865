// Begins the dashboard: who reads, what moves, which page.
import { effect } from "@preact/signals";
import { Component, render, type ComponentChildren } from "preact";

import { ConfirmPlace } from "./components/confirm";
import { Help } from "./components/help";
import { Empty, ErrorPanel, Toasts } from "./components/notices";
import { listen } from "./keys";
import { begin } from "./live";
import { introduce } from "./me";
import { follow, found, place } from "./router";
import { ROUTES } from "./routes";
import "./style/index.css";

function Root() {
  const { path } = place.value;
  const there = found(path);
  const Shown = there?.route.page;
  return (
    <>
      <Guard key={path}>{Shown ? <Shown path={there.parts} /> : <Empty title="There is no such page" text={<a href="/">To the overview</a>} />}</Guard>
      <ConfirmPlace />
      <Help />
      <Toasts />
    </>
  );
}

/** A page that breaks does not take the others with it. */
class Guard extends Component<{ children: ComponentChildren }, { error: Error | null }> {
  state = { error: null };
  static getDerivedStateFromError(error: Error) {
    return { error };
  }
  render() {
    return this.state.error ? <ErrorPanel error={this.state.error} retry={() => this.setState({ error: null })} /> : this.props.children;
  }
}

/** Marks the page in the bar that the server renders. */
function markCurrent(): void {
  const first = `/${place.value.path.split("/")[1]}`;
  for (const link of document.querySelectorAll(".top nav a.top-link")) {
    if (link.getAttribute("href") !== first) link.removeAttribute("aria-current");
    else {
      link.setAttribute("aria-current", "page");
      // Where the bar is narrower than its links, the current one is among those that are seen.
      link.parentElement?.scrollTo({ left: (link as HTMLElement).offsetLeft - link.parentElement.clientWidth / 2 });
    }
  }
}

const page = document.getElementById("page");
if (page) {
  page.textContent = "";
  follow(ROUTES);
  listen();
  void introduce();
  begin();
  effect(markCurrent);
  render(<Root />, page);
}
