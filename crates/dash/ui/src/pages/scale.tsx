import { Page } from "../components/page";

export function Scale() {
  return <Page title="Scale">{null}</Page>;
}
