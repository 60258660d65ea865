import { Page } from "../components/page";

export function Dead() {
  return <Page title="Dead letters">{null}</Page>;
}
