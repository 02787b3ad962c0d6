/** Thread. */

import { Page } from "../parts/page";

export default function ThreadPage() {
  return <Page title="Thread">{null}</Page>;
}
