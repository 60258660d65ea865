// The theme that a person chose, applied before anything is painted: as the system has it, light, or dark.

(() => {
  const KEY = "divvy-theme";
  const THEMES = ["system", "light", "dark"];
  const SIGNS = { system: "◐", light: "☀", dark: "☾" };

  function chosen() {
    try {
      const theme = localStorage.getItem(KEY);
      return THEMES.includes(theme) ? theme : "system";
    } catch {
      return "system"; // The browser keeps nothing for this page.
    }
  }

  function apply(theme) {
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    const button = document.getElementById("theme");
    if (!button) return;
    button.textContent = SIGNS[theme];
    button.title = `Theme: ${theme}`;
    button.setAttribute("aria-label", `Theme: ${theme}. Change it`);
    button.hidden = false;
  }

  function change() {
    const theme = THEMES[(THEMES.indexOf(chosen()) + 1) % THEMES.length];
    try {
      localStorage.setItem(KEY, theme);
    } catch {
      // The choice lasts as long as the page then.
    }
    apply(theme);
    dispatchEvent(new CustomEvent("themechange", { detail: theme }));
  }

  apply(chosen());
  addEventListener("DOMContentLoaded", () => {
    apply(chosen());
    document.getElementById("theme")?.addEventListener("click", change);
  });
  addEventListener("storage", (event) => event.key === KEY && apply(chosen()));
})();
