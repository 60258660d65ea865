import { Page } from "../components/page";

export function Tasks() {
  return <Page title="Tasks">{null}</Page>;
}
