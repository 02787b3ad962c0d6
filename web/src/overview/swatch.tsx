/** The sign of a series: its colour, the pattern of its bars and the dashes of its lines. */

import { DASHES, STRIPES } from "./palette";

/** From 1; 0 is all runs together. */
export function Swatch({ colour }: { colour: number }) {
  const paint = colour === 0 ? "var(--ink)" : `var(--chart-${colour})`;
  const stripes = STRIPES[(colour - 1) % STRIPES.length];
  const dash = colour === 0 ? "" : (DASHES[(colour - 1) % DASHES.length] ?? []).join(" ");
  const rises = stripes === "rising";
  return (
    <svg width="36" height="12" viewBox="0 0 36 12" aria-hidden="true" style={{ flex: "none" }}>
      {colour > 0 && (
        <svg width="12" height="12" aria-hidden="true">
          <rect width="12" height="12" style={{ fill: paint }} />
          {(stripes === "rising" || stripes === "falling") &&
            [-8, 0, 8].map((offset) => (
              <line
                key={offset}
                x1={offset}
                x2={offset + 12}
                y1={rises ? 12 : 0}
                y2={rises ? 0 : 12}
                style={{ stroke: "var(--paper)", strokeWidth: 1.6, opacity: 0.55 }}
              />
            ))}
        </svg>
      )}
      <line
        x1={colour > 0 ? 15 : 2}
        x2="36"
        y1="6"
        y2="6"
        style={{ stroke: paint, strokeWidth: colour > 0 ? 2 : 3, strokeDasharray: dash }}
      />
    </svg>
  );
}
