import { Page } from "../components/page";

export function Alerts() {
  return <Page title="Alerts">{null}</Page>;
}
