import { Page } from "../components/page";

export function Plan() {
  return <Page title="Plan">{null}</Page>;
}
