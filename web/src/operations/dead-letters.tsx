/** What was accepted and cannot be processed, and putting it into the log again. */

import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, ask, type Shapes } from "../api/client";
import { bytes, count, time } from "../format";
import { Confirm } from "../parts/dialog";
import { Failure, Loading } from "../parts/notice";
import { askExact } from "../payload/ask-exact";
import { Payload } from "../payload/payload";
import styles from "./operations.module.css";
import { Fact } from "./scan-report";

type Letter = Shapes["DeadLetter"];

/** The letters; they are read without their payloads, which come when they are asked for. */
export function DeadLetters() {
  const [asked, setAsked] = useState<Letter | "all">();
  const [done, setDone] = useState<string>();
  const letters = useInfiniteQuery({
    queryKey: ["dead-letters"],
    queryFn: ({ pageParam, signal }) =>
      ask(api.GET("/api/internal/dead-letters", { params: { query: pageParam ? { cursor: pageParam } : {} }, signal })),
    initialPageParam: "",
    getNextPageParam: (page) => page.next_cursor ?? undefined,
  });
  const rows = letters.data?.pages.flatMap((page) => page.data) ?? [];
  const open = rows.filter((letter) => !letter.redriven);
  return (
    <section className="card stack" aria-label="Dead letters">
      <div className="row">
        <h2 className="grow">Dead letters</h2>
        <button type="button" onClick={() => letters.refetch()} disabled={letters.isFetching}>
          Look again
        </button>
        {open.length > 0 && (
          <button type="button" onClick={() => setAsked("all")}>
            Redrive all…
          </button>
        )}
      </div>
      <div aria-live="polite">{done && <p className="notice good">{done}</p>}</div>
      {letters.isPending && <Loading what="dead letters" />}
      {letters.isError && <Failure error={letters.error} again={() => letters.refetch()} />}
      {letters.isSuccess && rows.length === 0 && (
        <p className="soft">No dead letters: all accepted events were stored.</p>
      )}
      {rows.map((letter) => (
        <LetterRow key={letter.id} letter={letter} onRedrive={() => setAsked(letter)} />
      ))}
      {letters.hasNextPage && (
        <button type="button" disabled={letters.isFetchingNextPage} onClick={() => letters.fetchNextPage()}>
          {letters.isFetchingNextPage ? "Loading…" : "Newer letters"}
        </button>
      )}
      {asked && <Redrive of={asked} onDone={setDone} onClose={() => setAsked(undefined)} />}
    </section>
  );
}

function LetterRow({ letter, onRedrive }: { letter: Letter; onRedrive: () => void }) {
  const [isOpen, setIsOpen] = useState(false);
  return (
    <article className={`${styles.letter} stack`} aria-label={`Letter ${letter.id}`}>
      <div className="row">
        <strong className={styles.reason} dir="auto">
          {letter.reason}
        </strong>
        {letter.redriven && <span className="chip good">redriven</span>}
        <button type="button" aria-expanded={isOpen} onClick={() => setIsOpen(!isOpen)}>
          {isOpen ? "Hide" : "Show"} the accepted events
        </button>
        <button type="button" onClick={onRedrive}>
          Redrive…
        </button>
      </div>
      <dl className={styles.facts}>
        <Fact name="Given up">{time(letter.at)}</Fact>
        <Fact name="Read from">
          {letter.original_topic ?? "–"}, partition {count(letter.original_partition)}, offset{" "}
          {count(letter.original_offset)}
        </Fact>
        <Fact name="Holds">
          {letter.kind === "event" ? "one event" : "a record"} of {bytes(letter.bytes)}, {count(letter.events)} accepted
        </Fact>
        {letter.app_id && (
          <Fact name="App">
            {letter.app_id}
            {letter.project_id ? ` in ${letter.project_id}` : ""}
          </Fact>
        )}
      </dl>
      {isOpen && <Accepted id={letter.id} />}
    </article>
  );
}

function Accepted({ id }: { id: string }) {
  const letter = useQuery({
    queryKey: ["dead-letters", id],
    queryFn: async ({ signal }) => {
      const query = { cursor: id, limit: 1, payload: true };
      const page = await askExact<Shapes["DeadLetterList"]>(
        api.GET("/api/internal/dead-letters", { params: { query }, signal, parseAs: "text" }),
      );
      return page.data.find((one) => one.id === id) ?? null;
    },
    // What clients sent is not kept longer than it is looked at.
    gcTime: 0,
  });
  if (letter.isPending) return <Loading what="the accepted events" />;
  if (letter.isError) return <Failure error={letter.error} again={() => letter.refetch()} />;
  if (!letter.data) return <p className="soft">This dead letter no longer exists.</p>;
  const { payload, payload_base64 } = letter.data;
  return (
    <Payload value={payload ?? payload_base64} label={payload === undefined ? "Accepted, as Base64" : "Accepted"} />
  );
}

type RedriveProps = { of: Letter | "all"; onDone: (message: string) => void; onClose: () => void };

function Redrive({ of, onDone, onClose }: RedriveProps) {
  const client = useQueryClient();
  const redrive = useMutation({
    mutationFn: async () => {
      const sum = { letters: 0, events: 0, left: [] as string[] };
      for (;;) {
        const body = of === "all" ? { all: true, letters: [] } : { all: false, letters: [of.id] };
        const done = await ask(api.POST("/api/internal/dead-letters/redrive", { body }));
        sum.letters += done.letters;
        sum.events += done.events;
        sum.left.push(...done.left);
        // One that gains nothing would go on for ever.
        if (of !== "all" || !done.more || done.letters === 0) return sum;
      }
    },
    onSuccess: (sum) => {
      const left =
        sum.left.length > 0 ? ` ${count(sum.left.length)} cannot be: ${sum.left.slice(0, 5).join(", ")}.` : "";
      onDone(`Dead letters appended to the log: ${count(sum.letters)}, with ${count(sum.events)} events.${left}`);
      onClose();
    },
    onSettled: () => client.invalidateQueries({ queryKey: ["dead-letters"] }),
  });
  return (
    <Confirm
      title={of === "all" ? "Redrive all dead letters?" : "Redrive this dead letter?"}
      yes={redrive.isPending ? "Redriving…" : "Redrive"}
      isPending={redrive.isPending}
      onYes={() => redrive.mutate()}
      onClose={onClose}
    >
      <p>
        {of === "all" ? "All dead letters that were not redriven are" : "It is"} appended to the event log again. Fix
        the cause first: events that still fail are dead-lettered again.
      </p>
      {redrive.isError && <Failure error={redrive.error} />}
    </Confirm>
  );
}
