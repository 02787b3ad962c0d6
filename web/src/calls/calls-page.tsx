/** Model calls. */

import { Page } from "../parts/page";

export default function CallsPage() {
  return <Page title="Model calls">{null}</Page>;
}
