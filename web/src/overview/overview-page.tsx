/** Overview. */

import { Page } from "../parts/page";

export default function OverviewPage() {
  return <Page title="Overview">{null}</Page>;
}
