import { Page } from "../components/page";

export function Workers() {
  return <Page title="Workers">{null}</Page>;
}
