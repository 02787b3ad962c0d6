/** The messages of a thread, of which only those in sight are in the page: thousands scroll like ten. */

import { useVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { Link } from "react-router";
import { useRole } from "../api/session";
import { count, time } from "../format";
import { runLink } from "../runs/run-link";
import { type Item, itemsOf } from "./conversation";
import { MessageFeedback } from "./message-feedback";
import { MessageText } from "./message-text";
import styles from "./thread.module.css";
import { newer, useMessageFeedback } from "./use-message-feedback";
import type { ThreadDetail } from "./use-threads";

/** Height of a message before it is measured, in pixels. */
const GUESS_PX = 120;
/** How near the end counts as being there, in pixels. */
const END_PX = 60;
const ROLES = ["user", "assistant", "system", "tool"];
const WEEKDAY = new Intl.DateTimeFormat("en-US", { weekday: "long" });

/** The list; it takes the height it is given. */
export function MessageList({ thread }: { thread: ThreadDetail }) {
  const items = useMemo(() => itemsOf(thread.messages), [thread.messages]);
  const scroller = useRef<HTMLDivElement>(null);
  const [isAtEnd, setIsAtEnd] = useState(true);
  const [steps, setSteps] = useState<ReadonlyMap<string, number>>(new Map());
  const sending = useMessageFeedback({ app_id: thread.app_id, project_id: thread.project_id });
  const mayRate = useRole("viewer");

  const virtual = useVirtualizer({
    count: items.length,
    getScrollElement: () => scroller.current,
    estimateSize: (index) => (items[index]?.kind === "day" ? 40 : GUESS_PX),
    getItemKey: (index) => items[index]?.key ?? index,
    overscan: 6,
  });

  const look = useCallback(() => {
    const element = scroller.current;
    if (element) setIsAtEnd(element.scrollHeight - element.scrollTop - element.clientHeight < END_PX);
  }, []);
  const toEnd = () => virtual.scrollToIndex(items.length - 1, { align: "end" });

  // At the end the list follows new messages; further up it stays, with a notice.
  const last = useRef(items.length);
  const [unseen, setUnseen] = useState(0);
  // biome-ignore lint/correctness/useExhaustiveDependencies: only new messages move the list
  useEffect(() => {
    const added = items.length - last.current;
    last.current = items.length;
    if (added <= 0) return look();
    if (isAtEnd) toEnd();
    else setUnseen((before) => before + added);
  }, [items.length]);
  useEffect(() => {
    if (isAtEnd) setUnseen(0);
  }, [isAtEnd]);

  return (
    <div className={styles.frame}>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached with the keyboard */}
      <section ref={scroller} className={styles.scroller} onScroll={look} tabIndex={0} aria-label="Messages">
        <ol className={styles.list} style={{ height: virtual.getTotalSize() }}>
          {virtual.getVirtualItems().map(({ index, key, start }) => {
            const item = items[index];
            if (!item) return null;
            return (
              <li
                key={key}
                ref={virtual.measureElement}
                data-index={index}
                aria-posinset={index + 1}
                aria-setsize={items.length}
                className={styles.item}
                style={{ transform: `translateY(${start}px)` }}
              >
                {item.kind === "day" ? (
                  <div className={styles.day}>
                    <time dateTime={item.iso}>
                      {WEEKDAY.format(new Date(item.iso))}, {item.day}
                    </time>
                  </div>
                ) : (
                  <Said
                    item={item}
                    thread={thread}
                    steps={steps.get(item.key) ?? 0}
                    onSteps={(n) => setSteps((before) => new Map(before).set(item.key, n))}
                    sending={sending}
                    mayRate={mayRate}
                  />
                )}
              </li>
            );
          })}
        </ol>
      </section>
      <div className={styles.jump} aria-live="polite">
        {!isAtEnd && (
          <button type="button" onClick={toEnd}>
            {unseen > 0 ? `${count(unseen)} new: jump to newest` : "Jump to newest"} <span aria-hidden="true">↓</span>
          </button>
        )}
      </div>
    </div>
  );
}

type SaidProps = {
  item: Extract<Item, { kind: "message" }>;
  thread: ThreadDetail;
  steps: number;
  onSteps: (steps: number) => void;
  sending: ReturnType<typeof useMessageFeedback>;
  mayRate: boolean;
};

function Said({ item, thread, steps, onSteps, sending, mayRate }: SaidProps) {
  const { message, isRateable } = item;
  const role = ROLES.includes(message.role) ? message.role : "other";
  const feedback = isRateable ? newer(message.feedback, sending.given.get(message.run_id)) : undefined;
  const run = { run_id: message.run_id, app_id: thread.app_id, project_id: thread.project_id };
  return (
    <article className={styles.message} data-role={role}>
      <header className={styles.head}>
        <bdi className={styles.role}>{message.role.slice(0, 60) || "(no role)"}</bdi>
        <time className="soft" dateTime={message.timestamp} title={time(message.timestamp)}>
          {time(message.timestamp).slice(11)}
        </time>
        {message.run && (
          <Link to={runLink(run)} title={`The run ${message.run_id.slice(0, 300)}`}>
            Run<span className="unseen"> of message {item.place}</span>
          </Link>
        )}
      </header>
      <MessageText text={message.content} steps={steps} onSteps={onSteps} />
      {isRateable && <MessageFeedback runId={message.run_id} feedback={feedback} mayRate={mayRate} sending={sending} />}
    </article>
  );
}
