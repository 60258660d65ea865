// Builds ../dist: fixed names, one script, one style sheet, no source maps, so that two builds give the same bytes.
// `npm run dev` serves the sources and passes everything else to a running server (DIVVY_SERVER, or the usual address).
import { readFile } from "node:fs/promises";
import { defineConfig, type Plugin } from "vite";

const server = process.env.DIVVY_SERVER ?? "http://127.0.0.1:7171";
const PAGES = ["", "tasks", "queues", "workflows", "workers", "limits", "schedules", "dead", "scale", "alerts", "lab", "plan"];

/** Answers pages while developing, with a bar in the place where the server puts its own. */
function pages(): Plugin {
  const links = PAGES.map((page) => `<a class="top-link" href="/${page}">${page || "overview"}</a>`).join("");
  const bar = `<header class="top"><div class="top-inner"><a class="brand" href="/">divvy</a><nav class="top-links" aria-label="Main">${links}</nav><div class="top-end"><button class="top-link" id="theme" type="button" hidden></button></div></div></header>`;
  return {
    name: "pages",
    apply: "serve",
    configureServer(server) {
      server.middlewares.use(async (request, response, next) => {
        const path = (request.url ?? "/").split("?")[0] ?? "/";
        if (!PAGES.includes(path.split("/")[1] ?? "") || path.includes(".")) return next();
        const html = (await readFile("public/index.html", "utf8"))
          .replace("{{head}}", '<link rel="stylesheet" href="/assets/base.css"><script src="/assets/theme.js"></script>')
          .replace("{{frame}}", bar)
          .replace("{{title}}", "divvy")
          .replace('<link rel="stylesheet" href="/dash/assets/dash.css">', "")
          .replace("/dash/assets/dash.js", "/src/main.tsx");
        response.setHeader("content-type", "text/html");
        response.end(await server.transformIndexHtml(path, html));
      });
    },
  };
}

/** Files of this repository end with a line break, built ones too. */
function lineBreaks(): Plugin {
  return {
    name: "line-breaks",
    apply: "build",
    enforce: "post",
    generateBundle(_options, files) {
      for (const file of Object.values(files)) {
        if (file.type === "chunk" && !file.code.endsWith("\n")) file.code += "\n";
        if (file.type === "asset" && typeof file.source === "string" && !file.source.endsWith("\n")) file.source += "\n";
      }
    },
  };
}

export default defineConfig({
  appType: "custom",
  plugins: [pages(), lineBreaks()],
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  server: { proxy: { "/api": server, "/assets": server, "/videos": server, "/crawls": server, "/flows": server, "/metrics": server } },
  build: {
    outDir: "../dist",
    emptyOutDir: true,
    assetsDir: "",
    modulePreload: false,
    sourcemap: false,
    target: "es2022",
    // Newer than the script: colours of two themes are `light-dark()`.
    cssTarget: ["chrome123", "firefox120", "safari17.5"],
    cssCodeSplit: false,
    rolldownOptions: {
      input: "src/main.tsx",
      output: { entryFileNames: "dash.js", assetFileNames: "dash.[ext]", codeSplitting: false },
    },
  },
});
