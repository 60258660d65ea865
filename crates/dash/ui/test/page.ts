// As much of a browser as the tested parts look at. It must be there before they are read.
const page = globalThis as unknown as Record<string, unknown>;

/** Where the reader is; what is opened without loading changes it. */
function open(_state: unknown, _title: string, address: string): void {
  page.location = new URL(address, (page.location as URL).href);
}

page.location = new URL("http://divvy.test/");
page.history = { pushState: open, replaceState: open };
page.document = { hidden: false, addEventListener() {}, getElementById: () => null };
page.addEventListener = () => {};
page.scrollTo = () => {};
