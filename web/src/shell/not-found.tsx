/** An address that is none. */

import { Link } from "react-router";
import { Page } from "../parts/page";

/** Says so and leads back. */
export function NotFound() {
  return (
    <Page title="Page not found">
      <p>
        This address does not exist. <Link to="/runs">Go to the runs.</Link>
      </p>
    </Page>
  );
}
