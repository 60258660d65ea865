import { Page } from "../components/page";

export function Overview() {
  return <Page title="Overview">{null}</Page>;
}
