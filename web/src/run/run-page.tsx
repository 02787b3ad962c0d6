/** Run. */

import { Page } from "../parts/page";

export default function RunPage() {
  return <Page title="Run">{null}</Page>;
}
