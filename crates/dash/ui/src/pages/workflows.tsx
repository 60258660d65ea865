import { Page } from "../components/page";

export function Workflows() {
  return <Page title="Workflows">{null}</Page>;
}
