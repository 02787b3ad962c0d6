/** Datasets. */

import { Page } from "../parts/page";

export default function DatasetsPage() {
  return <Page title="Datasets">{null}</Page>;
}
