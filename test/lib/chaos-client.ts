/**
 * A client that judges what it gets as strictly as it can: was it whole, was it told of a cut, is
 * it what was to be said?
 *
 * Invariants: 'answered' only where the connection ended as it should, with the reason of the end,
 * `[DONE]` where it is a stream, and exactly the expected text; whatever fits nothing is 'broken',
 * with why.
 */
import { type Agent, request as httpRequest, type IncomingMessage } from 'node:http';

export type ChaosKind = 'stream' | 'whole' | 'leaver' | 'early';

export type Ask = {
  url: string;
  key: string;
  agent: Agent;
  kind: ChaosKind;
  body: Record<string, unknown>;
  /** The whole of a right answer. */
  expected: string;
  /** Resolves when an early one leaves. */
  leaves?: Promise<void>;
};

export type Told = {
  kind: ChaosKind;
  outcome: 'answered' | 'refused' | 'cut' | 'client_left' | 'broken';
  /** As the gateway calls the request; null where no head came. */
  request_id: string | null;
  status: number | null;
  code: string | null;
  /** Of the answer, as far as it came. */
  text: string;
  why?: string;
};

export function askOnce(ask: Ask): Promise<Told> {
  return new Promise((resolve) => {
    const told = (rest: Partial<Told>) =>
      resolve({
        ...{ kind: ask.kind, outcome: 'broken', request_id: null, status: null, code: null },
        ...{ text: '', ...rest },
      });
    const is_stream = ask.kind !== 'whole';
    const asked = httpRequest(`${ask.url}/v1/chat/completions`, {
      method: 'POST',
      agent: ask.agent,
      headers: { Authorization: `Bearer ${ask.key}`, 'Content-Type': 'application/json' },
    });
    let left = false;
    let answered = false;
    asked.on('error', (error) => {
      if (!answered) told(left ? { outcome: 'client_left' } : { why: `no answer: ${error}` });
    });
    asked.on('response', (answer) => {
      answered = true;
      void read(answer, ask.kind === 'leaver', () => asked.destroy()).then((read) =>
        told({ ...judge(read, ask.expected, is_stream), ...idOf(answer) }),
      );
    });
    void ask.leaves?.then(() => {
      if (answered) return;
      left = true;
      asked.destroy();
    });
    asked.end(JSON.stringify({ ...ask.body, stream: is_stream }));
  });
}

type Got = { status: number; text: string; whole: boolean; left: boolean };

async function read(answer: IncomingMessage, leaves: boolean, leave: () => void): Promise<Got> {
  let bytes = Buffer.alloc(0);
  let left = false;
  try {
    for await (const chunk of answer) {
      bytes = Buffer.concat([bytes, chunk as Buffer]);
      if (!leaves || !bytes.includes('"content":"')) continue;
      left = true;
      leave();
      break;
    }
  } catch {
    // A broken body is told by `complete`.
  }
  const { statusCode = 0, complete } = answer;
  return { status: statusCode, text: bytes.toString('utf8'), whole: complete, left };
}

function idOf(answer: IncomingMessage): { request_id: string | null } {
  return { request_id: answer.headers['x-request-id']?.toString() ?? null };
}

function judge(got: Got, expected: string, is_stream: boolean): Partial<Told> {
  const { status, text, whole, left } = got;
  if (left) return { status, outcome: 'client_left' };
  const broken = (why: string) => ({ status, outcome: 'broken' as const, text, why });
  if (status !== 200) {
    const code = parse(text)?.error?.code;
    const is_told = whole && typeof code === 'string';
    return is_told ? { status, outcome: 'refused', code } : broken('a refusal without a code');
  }
  return is_stream ? judgeStream(got, expected) : judgeWhole(got, expected);
}

function judgeWhole({ status, text, whole }: Got, expected: string): Partial<Told> {
  const choice = parse(text)?.choices?.[0];
  const content = choice?.message?.content ?? '';
  if (whole && choice?.finish_reason && content === expected) {
    return { status, outcome: 'answered', text: content };
  }
  return { status, outcome: 'broken', text, why: 'an answer that is not whole, with status 200' };
}

function judgeStream({ status, text, whole }: Got, expected: string): Partial<Told> {
  const data = text
    .split('\n\n')
    .filter((event) => event.startsWith('data: '))
    .map((event) => event.slice('data: '.length));
  const is_done = data.at(-1) === '[DONE]';
  const chunks = data.filter((one) => one !== '[DONE]').map(parse);
  const content = chunks.map((one) => one?.choices?.[0]?.delta?.content ?? '').join('');
  const finished = chunks.some((one) => one?.choices?.[0]?.finish_reason);
  const code = chunks.find((one) => one?.error)?.error?.code ?? null;
  const got = { status, text: content };
  if (whole && is_done && finished && code === null && content === expected) {
    return { ...got, outcome: 'answered' };
  }
  const is_part = expected.startsWith(content) && content !== '';
  if (!whole && !is_done && code !== null && is_part) return { ...got, outcome: 'cut', code };
  return { ...got, outcome: 'broken', why: `neither whole nor told: ${text.slice(-300)}` };
}

type Parsed = {
  choices?: {
    message?: { content?: string };
    delta?: { content?: string };
    finish_reason?: string | null;
  }[];
  error?: { code?: string };
};

function parse(text: string): Parsed | null {
  try {
    return JSON.parse(text) as Parsed;
  } catch {
    return null;
  }
}
