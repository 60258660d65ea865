import { Page } from "../components/page";

export function Limits() {
  return <Page title="Limits">{null}</Page>;
}
