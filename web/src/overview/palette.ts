/** Colours and patterns of series: from the tokens, so that charts follow the theme. Never colour alone. */

import { useEffect, useState } from "react";

/** How lines are distinguished without their colors. */
export const DASHES: number[][] = [[], [7, 3], [2, 3], [10, 3, 2, 3], [14, 4], [4, 6], [1, 2], [5, 2, 1, 2]];
/** How areas are: plain, or lines that rise or fall. */
export const STRIPES = ["none", "rising", "none", "falling"] as const;

/** What a chart is painted with. */
export type Palette = { series: string[]; ink: string; soft: string; line: string; paper: string };

/** Reads the tokens in force. */
export function readPalette(): Palette {
  const style = getComputedStyle(document.documentElement);
  const token = (name: string) => style.getPropertyValue(name).trim();
  return {
    series: Array.from({ length: 8 }, (_, index) => token(`--chart-${index + 1}`)),
    ink: token("--ink"),
    soft: token("--ink-soft"),
    line: token("--line"),
    paper: token("--paper"),
  };
}

/** The palette; a new one when the theme changes, here or in the system. */
export function usePalette(): Palette {
  const [palette, setPalette] = useState(readPalette);
  useEffect(() => {
    const read = () => setPalette(readPalette());
    const system = window.matchMedia("(prefers-color-scheme: dark)");
    window.addEventListener("themechange", read);
    system.addEventListener("change", read);
    return () => {
      window.removeEventListener("themechange", read);
      system.removeEventListener("change", read);
    };
  }, []);
  return palette;
}

/** The fill of a series on a canvas, from 1. */
export function fillOf(context: CanvasRenderingContext2D, colour: number, palette: Palette): string | CanvasPattern {
  const plain = palette.series[colour - 1] ?? palette.soft;
  const stripes = STRIPES[(colour - 1) % STRIPES.length];
  if (stripes === "none") return plain;
  const size = 8;
  const tile = document.createElement("canvas");
  tile.width = size;
  tile.height = size;
  const paint = tile.getContext("2d");
  if (!paint) return plain;
  paint.fillStyle = plain;
  paint.fillRect(0, 0, size, size);
  paint.strokeStyle = palette.paper;
  paint.globalAlpha = 0.55;
  paint.lineWidth = 1.6;
  paint.beginPath();
  // Three strokes, so that the corners of neighbouring tiles join.
  for (const offset of [-size, 0, size]) {
    if (stripes === "falling") {
      paint.moveTo(offset, 0);
      paint.lineTo(offset + size, size);
    } else {
      paint.moveTo(offset, size);
      paint.lineTo(offset + size, 0);
    }
  }
  paint.stroke();
  return context.createPattern(tile, "repeat") ?? plain;
}
