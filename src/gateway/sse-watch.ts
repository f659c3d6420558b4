/**
 * Watches an event stream go by without touching it, to know how it ended.
 *
 * Invariants: any cutting of the bytes into chunks gives the same findings; works on bytes, so that
 * split characters do not matter; keeps a few bytes of the current line and nothing else.
 */
export type SseWatch = {
  see(chunk: Uint8Array): void;
  /** `data: [DONE]` has passed: the answer was whole, whatever the connection does next. */
  isDone(): boolean;
  /** An error event of the engine has passed. */
  hasError(): boolean;
  /** The last line has not ended, so that another event needs an end of line first. */
  isMidLine(): boolean;
};

const head_bytes = 24;
const carriage_return = 13;
const line_feed = 10;

export function createSseWatch(): SseWatch {
  const head = new Uint8Array(head_bytes);
  let length = 0;
  let done = false;
  let error = false;
  const judge = () => {
    const line = Buffer.from(head.subarray(0, Math.min(length, head_bytes))).toString('latin1');
    done ||= /^data: ?\[DONE\]/.test(line);
    // llama-server has used both forms.
    error ||= /^(?:data: ?\{\s*"error"|error: ?\{|event: ?error$)/.test(line);
  };
  return {
    see(chunk) {
      for (const byte of chunk) {
        if (byte === line_feed || byte === carriage_return) {
          if (length > 0) judge();
          length = 0;
        } else {
          if (length < head_bytes) head[length] = byte;
          length += 1;
        }
      }
    },
    isDone() {
      judge();
      return done;
    },
    hasError() {
      judge();
      return error;
    },
    isMidLine: () => length > 0,
  };
}
