/**
 * What answers at the ports of sim runs: OpenAI's shape and a notebook's status, and a text that
 * says that it is made up.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { type Duplex, duplexPair } from 'node:stream';

export const sim_answer = 'This is the sim driver: nothing runs here.';

/** One end of a connection; at the other a server that is ready when `isReady` says so. */
export function serve(isReady: () => boolean): Duplex {
  const [near, far] = duplexPair();
  const speaker = createServer((request, response) => answer(request, response, isReady()));
  speaker.emit('connection', far);
  return near;
}

function answer(request: IncomingMessage, response: ServerResponse, is_ready: boolean): void {
  request.resume();
  const [status, body] = is_ready ? answerTo(`${request.method} ${request.url}`) : loading;
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify(body));
}

const loading = problem(503, 'Loading model', 'unavailable_error');

function answerTo(line: string): [number, object] {
  if (line === 'GET /health') return [200, { status: 'ok' }];
  if (line === 'GET /api/status' || line === 'GET /api') return [200, { version: 'sim' }];
  if (line !== 'POST /v1/chat/completions') return problem(404, 'no such path', 'not_found_error');
  const message = { role: 'assistant', content: sim_answer };
  return [
    200,
    {
      id: 'chatcmpl-sim',
      object: 'chat.completion',
      created: 0,
      model: 'sim',
      choices: [{ index: 0, message, finish_reason: 'stop' }],
      usage: { prompt_tokens: 1, completion_tokens: 8, total_tokens: 9 },
    },
  ];
}

function problem(code: number, message: string, type: string): [number, object] {
  return [code, { error: { message, type, code } }];
}
