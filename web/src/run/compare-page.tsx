/** Compare. */

import { Page } from "../parts/page";

export default function ComparePage() {
  return <Page title="Compare">{null}</Page>;
}
