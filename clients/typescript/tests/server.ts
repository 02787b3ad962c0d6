/** A server on loopback that takes reports and behaves as a test wants, well or badly. */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { gunzipSync } from "node:zlib";

/** An event as it arrived. */
export type Arrived = Record<string, any>;

/** One request, and its events. */
export interface Arrival {
  events: Arrived[];
  headers: IncomingMessage["headers"];
  path: string;
  bytes: number;
  at: number;
}

/** Answers one request. */
export type Answer = (response: ServerResponse, arrival: Arrival, index: number) => void;

/** Takes everything, as the real one says it. */
export const accept: Answer = (response, { events }) =>
  reply(response, 200, JSON.stringify({ accepted: events.length, rejected: 0, errors: [] }));

export function reply(response: ServerResponse, status: number, body = "{}", headers: Record<string, string> = {}) {
  response.writeHead(status, { "content-type": "application/json", ...headers });
  response.end(body);
}

/** No answer, ever. */
export const hang: Answer = () => {};

export class Reports {
  readonly arrivals: Arrival[] = [];
  port = 0;
  private waiters: (() => void)[] = [];

  static async start(answer: Answer = accept, port = 0): Promise<Reports> {
    const reports = new Reports(answer);
    await new Promise<void>((listening) => reports.server.listen(port, "127.0.0.1", listening));
    reports.port = (reports.server.address() as AddressInfo).port;
    return reports;
  }

  private readonly server: Server;

  private constructor(public answer: Answer) {
    this.server = createServer((request, response) => {
      const parts: Buffer[] = [];
      request.on("error", () => {});
      response.on("error", () => {});
      request.on("data", (part) => parts.push(part));
      request.on("end", () => {
        const body = Buffer.concat(parts);
        const text = request.headers["content-encoding"] === "gzip" ? gunzipSync(body) : body;
        const { events } = JSON.parse(text.toString()) as { events: Arrived[] };
        const { headers, url: path = "" } = request;
        const arrival = { events, headers, path, bytes: body.length, at: Date.now() };
        this.arrivals.push(arrival);
        for (const wake of this.waiters) wake();
        this.answer(response, arrival, this.arrivals.length - 1);
      });
    });
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Every event of every request. */
  get events(): Arrived[] {
    return this.arrivals.flatMap(({ events }) => events);
  }

  /** The event of this name; there must be exactly one. */
  event(name: string): Arrived {
    const found = this.events.filter((event) => event.name === name);
    if (found.length !== 1) throw new Error(`${found.length} events ${name} among ${this.events.map((e) => e.name)}`);
    return found[0] as Arrived;
  }

  /** Waits until it is so, looking at each request. */
  async until(condition: () => boolean): Promise<void> {
    while (!condition()) await new Promise<void>((wake) => this.waiters.push(wake));
  }

  async stop(): Promise<void> {
    if (!this.server.listening) return;
    this.server.closeAllConnections();
    await new Promise((closed) => this.server.close(closed));
  }
}

/** An address without a listener. */
export async function nowhere(): Promise<string> {
  const reports = await Reports.start();
  const { url } = reports;
  await reports.stop();
  return url;
}

/** Everything that was made is accounted for. */
export function made(stats: { sent: number; waiting: number; dropped: Record<string, number> }): number {
  return stats.sent + stats.waiting + Object.values(stats.dropped).reduce((sum, count) => sum + count, 0);
}
