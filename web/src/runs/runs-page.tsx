/** Runs. */

import { Page } from "../parts/page";

export default function RunsPage() {
  return <Page title="Runs">{null}</Page>;
}
