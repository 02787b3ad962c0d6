/** How a chart is given to the chart library. */

import uPlot from "uplot";
import { DASHES, fillOf, type Palette } from "./palette";
import { stacked } from "./series";
import { type Interval, LENGTH, type Span } from "./span";

/** Buckets up to which each value is a point of its line. */
const FEW = 40;

/** A line or a layer of bars. */
export type Drawn = {
  id: string;
  label: string;
  /** From 1; 0 is the ink, for all runs together. */
  colour: number;
  values: (number | null)[];
};

/** What is drawn. */
export type Plot = {
  interval: Interval;
  starts: number[];
  series: Drawn[];
  isSum: boolean;
  short: (value: number, highest: number) => string;
  steps?: number[] | undefined;
};

/** Bars are drawn from the highest sum down, so that each covers all but its own part of the one before. */
function order(plot: Plot): Drawn[] {
  if (!plot.isSum) return plot.series;
  const heights = stacked(plot.series.map((one) => one.values));
  return plot.series.map((one, index) => ({ ...one, values: heights[index] ?? [] })).reverse();
}

/** The data: the middle of each bucket in seconds, and the series in the order they are drawn. */
export function dataOf(plot: Plot): uPlot.AlignedData {
  const half = LENGTH[plot.interval] / 2;
  const middles = plot.starts.map((start) => (start + half) / 1000);
  return [middles, ...order(plot).map((one) => one.values)];
}

const DAY = new Intl.DateTimeFormat("en-US", { month: "short", day: "numeric" });
const DAY_UTC = new Intl.DateTimeFormat("en-US", { month: "short", day: "numeric", timeZone: "UTC" });

/** A time at the axis: days are the server's, which are UTC, hours the reader's. */
export function tickText(seconds: number, interval: Interval): string {
  const at = new Date(seconds * 1000);
  if (interval === "day") return DAY_UTC.format(at);
  const two = (part: number) => String(part).padStart(2, "0");
  if (at.getHours() === 0 && at.getMinutes() === 0) return DAY.format(at);
  return `${two(at.getHours())}:${two(at.getMinutes())}`;
}

/** What a bucket is called. */
export function bucketText(start: number, interval: Interval): string {
  if (interval === "day") return `${new Date(start).toISOString().slice(0, 10)} (UTC)`;
  const two = (part: number) => String(part).padStart(2, "0");
  const at = new Date(start);
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}`;
}

type Events = {
  /** The bucket below the pointer, and whether it is in the right half. */
  onPoint: (index: number | null, isRight: boolean) => void;
  /** A stretch was drawn. */
  onDraw: (span: Span) => void;
};

/** The chart whose stretch is being drawn. The charts share the pointer, and each receives a range in its turn. */
let drawnOn: uPlot | undefined;

/** The options of a chart. */
export function optionsOf(plot: Plot, palette: Palette, size: { width: number; height: number }, events: Events) {
  const { interval, starts } = plot;
  const length = LENGTH[interval] / 1000;
  const first = (starts[0] ?? 0) / 1000;
  const last = (starts.at(-1) ?? 0) / 1000 + length;
  const bars = uPlot.paths.bars?.({ size: [0.82, 44], align: 0 });
  const colour = (one: Drawn) => (one.colour === 0 ? palette.ink : (palette.series[one.colour - 1] ?? palette.soft));
  const axis: uPlot.Axis = {
    stroke: palette.soft,
    font: "12px system-ui, sans-serif",
    grid: { stroke: palette.line, width: 1 },
    ticks: { stroke: palette.line, width: 1, size: 4 },
  };
  const options: uPlot.Options = {
    ...size,
    padding: [10, 22, 0, 0],
    legend: { show: false },
    // The server uses UTC days.
    tzDate: (seconds) => {
      const at = new Date(seconds * 1000);
      return interval === "day" ? uPlot.tzDate(at, "Etc/UTC") : at;
    },
    scales: {
      x: { range: [first, last] },
      y: { range: (_plot, _low, high) => [0, high > 0 ? high * 1.08 : 1] },
    },
    axes: [
      {
        ...axis,
        grid: { show: false },
        space: 64,
        size: 30,
        incrs: (interval === "day" ? [1, 2, 5, 7, 14, 28, 56, 91] : [1 / 24, 1 / 12, 0.125, 0.25, 0.5, 1, 2, 4, 7]).map(
          (days) => days * 86_400,
        ),
        values: (_plot, ticks) => ticks.map((tick) => tickText(tick, interval)),
      },
      {
        ...axis,
        size: 66,
        space: 34,
        ...(plot.steps && { incrs: plot.steps }),
        values: (_plot, ticks) => ticks.map((tick) => plot.short(tick, ticks.at(-1) ?? 0)),
      },
    ],
    series: [
      {},
      ...order(plot).map((one): uPlot.Series => {
        if (plot.isSum && bars) {
          return {
            label: one.label,
            paths: bars,
            width: 0,
            fill: (self) => fillOf(self.ctx, one.colour, palette) as unknown as string,
            points: { show: false },
          };
        }
        return {
          label: one.label,
          stroke: colour(one),
          width: one.colour === 0 ? 2.5 : 1.6,
          dash: one.colour === 0 ? [] : (DASHES[(one.colour - 1) % DASHES.length] ?? []),
          spanGaps: false,
          // A value between two gaps is always a point: no line would show it.
          points: {
            size: 5,
            fill: colour(one),
            show: true,
            filter: (self, at) => (self.data[0].length <= FEW ? null : lonely(self.data[at] ?? [])),
          },
        };
      }),
    ],
    cursor: {
      y: false,
      points: { show: !plot.isSum, size: 7 },
      sync: { key: "overview" },
      drag: { x: true, y: false, setScale: false, dist: 4 },
    },
    hooks: {
      init: [
        (self) => {
          self.over.addEventListener("mousedown", () => {
            drawnOn = self;
          });
        },
      ],
      destroy: [
        (self) => {
          if (drawnOn === self) drawnOn = undefined;
        },
      ],
      setCursor: [
        (self) => {
          const index = self.cursor.idx ?? null;
          const left = self.cursor.left ?? -1;
          // Only the chart below the pointer says its figures; the others show the line.
          const isHere = self.over.matches(":hover") && left >= 0;
          events.onPoint(isHere ? index : null, left > self.over.clientWidth / 2);
        },
      ],
      setSelect: [
        (self) => {
          const { left, width } = self.select;
          if (width < 4) return;
          const [from, to] = [self.posToVal(left, "x"), self.posToVal(left + width, "x")];
          self.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          if (drawnOn === self) events.onDraw({ from: from * 1000, to: to * 1000 });
        },
      ],
    },
  };
  return options;
}

/** Where values stand alone between gaps. */
export function lonely(values: ArrayLike<number | null | undefined>): number[] {
  const found: number[] = [];
  for (let index = 0; index < values.length; index += 1) {
    if (values[index] != null && values[index - 1] == null && values[index + 1] == null) found.push(index);
  }
  return found;
}
