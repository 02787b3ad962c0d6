/** A fault in a page shows itself there and nowhere else: a payload must never take the whole application down. */

import { Component, type ReactNode } from "react";
import { Failure } from "./notice";

/** Catches what its children throw. */
export class ErrorBoundary extends Component<{ children: ReactNode }, { error: unknown }> {
  override state: { error: unknown } = { error: null };

  static getDerivedStateFromError(error: unknown) {
    return { error };
  }

  override render() {
    if (this.state.error === null) return this.props.children;
    // A page that was replaced on the server by a newer one cannot be loaded any more: only a reload helps.
    return <Failure error={this.state.error} again={() => window.location.reload()} />;
  }
}
