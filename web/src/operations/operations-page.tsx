/** Operations. */

import { Page } from "../parts/page";

export default function OperationsPage() {
  return <Page title="Operations">{null}</Page>;
}
