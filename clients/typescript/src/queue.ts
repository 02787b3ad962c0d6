/** The bounded queue between the application and the sender: pure, first in first out, full means no. */

/** Events that wait, bounded in number and in bytes. */
export class BoundedQueue<T> {
  private items: (T | undefined)[] = [];
  private sizes: number[] = [];
  private head = 0;
  private sum = 0;

  /** `maxItems` and `maxBytes` are both upper bounds; an item alone that is larger than `maxBytes` never fits. */
  constructor(
    private readonly maxItems: number,
    private readonly maxBytes: number,
  ) {}

  /** How many items wait. */
  get length(): number {
    return this.items.length - this.head;
  }

  /** How many bytes they were said to take. */
  get bytes(): number {
    return this.sum;
  }

  /** Whether nothing fits any more: then there is no need to make an item. */
  get isFull(): boolean {
    return this.length >= this.maxItems || this.sum >= this.maxBytes;
  }

  /** Adds an item of `bytes`, or answers false because it does not fit. */
  push(item: T, bytes: number): boolean {
    if (this.length >= this.maxItems || this.sum + bytes > this.maxBytes) return false;
    this.items.push(item);
    this.sizes.push(bytes);
    this.sum += bytes;
    return true;
  }

  /** The oldest item, which stays. */
  peek(): T | undefined {
    return this.items[this.head];
  }

  /** Takes the oldest item. */
  shift(): T | undefined {
    if (this.length === 0) return undefined;
    const item = this.items[this.head];
    this.items[this.head] = undefined;
    this.sum -= this.sizes[this.head] ?? 0;
    this.head++;
    // Moving what is left costs its length, so it is done when at least as much was taken.
    if (this.head * 2 >= this.items.length) {
      this.items = this.items.slice(this.head);
      this.sizes = this.sizes.slice(this.head);
      this.head = 0;
    }
    return item;
  }
}
