/**
 * A binary heap: the least of what is in it, in logarithmic time.
 */
export type Heap<T> = {
  readonly size: number;
  push(value: T): void;
  /** The least, left where it is. */
  peek(): T | undefined;
  pop(): T | undefined;
  /** To call after the least was changed in place: it goes where it belongs by now. */
  settle(): void;
};

/** `isLess` is a strict total order of the values that meet in this heap. */
export function createHeap<T>(isLess: (a: T, b: T) => boolean): Heap<T> {
  const values: T[] = [];

  function rise(from: number): void {
    const value = values[from] as T;
    let at = from;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!isLess(value, values[parent] as T)) break;
      values[at] = values[parent] as T;
      at = parent;
    }
    values[at] = value;
  }

  function sink(): void {
    const value = values[0] as T;
    let at = 0;
    for (;;) {
      let child = at * 2 + 1;
      if (child >= values.length) break;
      const right = child + 1;
      if (right < values.length && isLess(values[right] as T, values[child] as T)) child = right;
      if (!isLess(values[child] as T, value)) break;
      values[at] = values[child] as T;
      at = child;
    }
    values[at] = value;
  }

  return {
    get size() {
      return values.length;
    },
    push(value) {
      values.push(value);
      rise(values.length - 1);
    },
    peek: () => values[0],
    pop() {
      const least = values[0];
      const last = values.pop();
      if (values.length > 0 && last !== undefined) {
        values[0] = last;
        sink();
      }
      return least;
    },
    settle() {
      if (values.length > 1) sink();
    },
  };
}
