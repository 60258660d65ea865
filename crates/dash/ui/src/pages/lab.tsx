import { Page } from "../components/page";

export function Lab() {
  return <Page title="Lab">{null}</Page>;
}
