/** Threads. */

import { Page } from "../parts/page";

export default function ThreadsPage() {
  return <Page title="Threads">{null}</Page>;
}
