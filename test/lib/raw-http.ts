/**
 * HTTP as no client would send it: request lines, headers and bodies put together from odd pieces,
 * written to the socket in odd parts.
 */
import { connect } from 'node:net';
import fc from 'fast-check';
import { systemClock } from '../../src/lib/clock.ts';

export type RawRequest = { text: string; parts: readonly number[]; ends: boolean };

const paths = [
  ...['/', '/healthz', '/v1/workloads', '/v1/me', '/v1/models', '/v1/chat/completions', '/open/x'],
  ...['/v1/workloads/%', '/v1/workloads/%zz', '/v1/workloads/%00', '/v1/workloads/%2e%2e%2f'],
  ...['/v1/workloads/%ff%fe', '/v1/workloads/%ed%a0%80', '/v1//workloads', '/v1/workloads/', '//x'],
  ...['/../../etc/passwd', '/assets/..%2f..%2fpackage.json', '/assets/%2e%2e/main.ts', '/%5c..%5c'],
  ...['/v1/workloads?limit=%', '/v1/workloads?limit=1&limit=2', '/v1/workloads?cursor=%00', '/?%'],
  ...['*', 'http://localhost/', 'localhost:80', '', '/\u00e9', '/ /', '/#x', '/v1/events', '/;a=b'],
  `/${'a'.repeat(9000)}`,
  `/v1/workloads/${'%41'.repeat(3000)}`,
];
const methods = [
  'GET',
  'POST',
  'PUT',
  'DELETE',
  'HEAD',
  'OPTIONS',
  'CONNECT',
  'TRACE',
  'get',
  'G T',
];
const versions = ['HTTP/1.1', 'HTTP/1.1', 'HTTP/1.0', 'HTTP/2.0', 'HTTP/0.9', 'http/1.1', ''];
const headers = [
  ...[
    'Cookie: a',
    'Cookie: =',
    'Cookie: ;;;=;',
    'Cookie: einsora_session_1=\u00ff',
    'Cookie: a=b, c',
  ],
  `Cookie: ${'a=b; '.repeat(2000)}`,
  `Cookie: einsora_session_4600=${'x'.repeat(4000)}`,
  ...[
    'Range: bytes=0-',
    'Range: bytes=-1',
    'Range: bytes=9-1',
    'Range: lines=1-2',
    'Range: bytes=0-,0-',
  ],
  ...[
    'Authorization: Bearer',
    'Authorization: Bearer  ',
    'Authorization: Basic Og==',
    'Authorization: ',
  ],
  ...['Authorization: Bearer tsk_x', 'Authorization: Bearer \u00ff', 'Authorization: bearer a, b'],
  ...[
    'Content-Type: application/json',
    'Content-Type: ',
    'Content-Type: application/json; charset=x',
  ],
  ...['Content-Length: 5', 'Content-Length: 0', 'Content-Length: -1', 'Content-Length: 5, 5'],
  ...['Content-Length: 99999999999999999999', 'Content-Length: 0x5', 'content-length: 7'],
  ...[
    'Transfer-Encoding: chunked',
    'Transfer-Encoding: chunked, chunked',
    'Transfer-Encoding: gzip',
  ],
  ...['Transfer-Encoding : chunked', 'Transfer-Encoding: xchunked', 'Content-Encoding: gzip'],
  ...[
    'Expect: 100-continue',
    'Expect: x',
    'Upgrade: websocket',
    'Connection: Upgrade',
    'Upgrade: h2c',
  ],
  ...['Connection: keep-alive', 'Connection: close', 'Connection: host', 'Keep-Alive: timeout=-1'],
  ...[
    'X-Request-Id: \u0000',
    `X-Request-Id: ${'x'.repeat(500)}`,
    'Idempotency-Key: ',
    'Last-Event-ID: -1',
  ],
  ...[
    'Last-Event-ID: 9999999999999999999',
    'Origin: null',
    'Sec-Fetch-Site: cross-site',
    ' folded: x',
  ],
  ...[
    'X-Forwarded-For: 127.0.0.1',
    'X-Forwarded-Host: evil',
    'X-Original-URL: /v1/me',
    'no colon',
    ': x',
  ],
  ...[
    'Accept: */*;q=x',
    'If-None-Match: *',
    'If-Modified-Since: never',
    'Host: localhost',
    'TE: trailers',
  ],
  `X-Long: ${'x'.repeat(20_000)}`,
];
const bodies = [
  ...[
    '',
    '{}',
    '{',
    '[]',
    '{"kind":"endpoint"}',
    '\u0000\u0001',
    '0\r\n\r\n',
    '5\r\n{"a":\r\n1\r\n}\r\n0\r\n\r\n',
  ],
  ...[
    '5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n',
    'ffffffffffffffff\r\nx',
    '-1\r\n\r\n',
    '5\r\nhel',
    'zz\r\n\r\n',
  ],
  ...[
    '2\n{}\n0\n\n',
    '1\r\n{\r\n1\r\n}\r\n0\r\nContent-Length: 3\r\n\r\n',
    'GET / HTTP/1.1\r\n\r\n',
  ],
  ...['0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: evil\r\n\r\n', '{"model":"x","messages":[]}'],
  `{"a":${'['.repeat(20_000)}`,
  'x'.repeat(300_000),
];

/** `%PORT%` in it stands for the server's own. */
export const rawRequest: fc.Arbitrary<RawRequest> = fc
  .record({
    method: mostly('GET', methods),
    path: fc.constantFrom(...paths),
    version: mostly('HTTP/1.1', versions),
    host: mostly('Host: localhost:%PORT%', [
      '',
      'Host: evil',
      'Host: localhost:%PORT%\r\nHost: evil',
    ]),
    headers: fc.array(fc.constantFrom(...headers), { maxLength: 5 }),
    line_end: mostly('\r\n', ['\n', '\r', '\r\n\r\n']),
    body: fc.constantFrom(...bodies),
    parts: fc.array(fc.nat(400), { maxLength: 4 }),
    ends: fc.boolean(),
  })
  .map(({ method, path, version, host, headers: more, line_end, body, parts, ends }) => {
    const lines = [`${method} ${path} ${version}`, ...(host === '' ? [] : [host]), ...more];
    return { text: `${lines.join(line_end)}${line_end}${line_end}${body}`, parts, ends };
  });

function mostly(usual: string, others: readonly string[]): fc.Arbitrary<string> {
  return fc.oneof(
    { weight: 5, arbitrary: fc.constant(usual) },
    { weight: 1, arbitrary: fc.constantFrom(...others) },
  );
}

/** Sends it to the port; gives what came back until the server closed or was silent for a while. */
export function sendRaw(port: number, request: RawRequest): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    let got = '';
    const finish = () => {
      cancel();
      socket.destroy();
      resolve(got);
    };
    const cancel = systemClock.after(150, finish);
    socket.setEncoding('latin1');
    socket.on('data', (chunk) => {
      got += chunk;
    });
    socket.on('error', finish);
    socket.on('close', finish);
    const bytes = Buffer.from(request.text.replaceAll('%PORT%', String(port)), 'latin1');
    let at = 0;
    for (const length of request.parts) {
      socket.write(bytes.subarray(at, at + length));
      at += length;
    }
    if (request.ends) socket.end(bytes.subarray(at));
    else socket.write(bytes.subarray(at));
  });
}
