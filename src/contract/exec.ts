/**
 * What is said over the WebSocket of a program beside a run.
 *
 * Binary frames carry bytes of one channel, named by their first byte; text frames are messages in
 * JSON. The client begins with `start`; the program's end is always said by `exit`, so that a
 * connection that breaks is never taken for success. Neither side sends more bytes of channels than
 * `exec_window_bytes` ahead of what the other has acknowledged by `ack`: that is what keeps memory
 * bounded, and messages from waiting behind bytes.
 */
import { z } from 'zod';
import { limits } from './limits.ts';

const side = z.int().min(1).max(4096);
const text = z
  .string()
  .max(limits.exec_argument_chars)
  .refine((value) => !value.includes('\0'));

const startSchema = z.strictObject({
  type: z.literal('start'),
  /** Empty: the run's best shell, as a login. */
  argv: z.array(text).max(limits.exec_arguments),
  env: z.record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,127}$/), text).optional(),
  /** Where to start; the workspace or the home where left out. */
  cwd: text.startsWith('/').nullable().optional(),
  /** Null or left out: plain pipes, and stderr apart. */
  terminal: z.strictObject({ columns: side, rows: side }).nullable().optional(),
});
export type ExecStart = z.infer<typeof startSchema>;

const ackSchema = z.strictObject({ type: z.literal('ack'), bytes: z.int().min(1) });

/** What a client says. */
export const execAskSchema = z.discriminatedUnion('type', [
  startSchema,
  z.strictObject({ type: z.literal('resize'), columns: side, rows: side }),
  z.strictObject({ type: z.literal('close-stdin') }),
  ackSchema,
]);
export type ExecAskMessage = z.infer<typeof execAskSchema>;

/** What the server says. `exit` and `error` are its last words. */
export const execTellSchema = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('started') }),
  ackSchema,
  z.strictObject({
    type: z.literal('exit'),
    code: z.number().nullable(),
    signal: z.string().nullable(),
  }),
  z.strictObject({
    type: z.literal('error'),
    code: z.string(),
    message: z.string(),
    fix: z.string().nullable(),
    request_id: z.string(),
  }),
]);
export type ExecTellMessage = z.infer<typeof execTellSchema>;
