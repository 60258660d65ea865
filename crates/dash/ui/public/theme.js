// Sets the theme that a person chose before anything is drawn, and lets the switch in the bar change it.
// Without a choice, or with `system`, the page is as the machine is.
{
  const KEY = "divvy-theme";
  const THEMES = ["system", "light", "dark"];
  const chosen = () => {
    try {
      const theme = localStorage.getItem(KEY);
      return THEMES.includes(theme) ? theme : "system";
    } catch {
      return "system";
    }
  };
  const show = () => {
    const theme = chosen();
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    for (const button of document.querySelectorAll("button[data-theme-switch]")) {
      button.setAttribute("aria-label", `Theme: ${theme}`);
      button.title = `Theme: ${theme}`;
      button.dataset.shown = theme;
    }
    document.dispatchEvent(new Event("divvy-theme"));
  };
  show();
  addEventListener("storage", show);
  addEventListener("DOMContentLoaded", show);
  document.addEventListener("click", (event) => {
    if (!event.target.closest?.("button[data-theme-switch]")) return;
    try {
      localStorage.setItem(KEY, THEMES[(THEMES.indexOf(chosen()) + 1) % THEMES.length]);
    } catch {
      // Without a memory there is only the theme of the machine.
    }
    show();
  });
}
