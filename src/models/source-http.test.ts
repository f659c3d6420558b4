/**
 * That a name given by a user reaches the public internet and nothing else.
 */
import assert from 'node:assert/strict';
import { createServer as createHttp } from 'node:http';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { after, before, test } from 'node:test';
import { systemClock } from '../lib/clock.ts';
import { Secret } from '../lib/secret.ts';
import { SourceError } from './source-error.ts';
import { readRetryAfter, whyUnreachable } from './source-failure.ts';
import { type Ask, ask, bytesOf, type Net, textOf } from './source-http.ts';

/** Whatever comes here has gone too far. */
let trap: Server;
let reached = 0;
let port = 0;

before(async () => {
  trap = createServer((socket) => {
    reached += 1;
    socket.on('error', () => {});
  });
  await new Promise<void>((resolve) => trap.listen(0, '127.0.0.1', resolve));
  ({ port } = trap.address() as AddressInfo);
});
after(() => trap.close());

const patience = { answer_ms: 100, window_ms: 100, least_bytes: 10, retry_ms: 1 };

function net(over: Partial<Net> = {}): Net {
  return { clock: systemClock, trusted_origins: [], patience, ...over };
}

function get(at: Net, url: string, over: Partial<Ask> = {}) {
  const signal = AbortSignal.timeout(5000);
  return ask(at, { method: 'GET', url: new URL(url), follow: 'all', signal, ...over });
}

async function refusal(work: Promise<unknown>): Promise<SourceError> {
  const error = await work.then(
    () => assert.fail('it was let through'),
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof SourceError, String(error));
  return error;
}

test('only https on its own port, and never with a password', async () => {
  const table = [
    'http://a.example/',
    'https://a.example:8443/',
    'ftp://a.example/',
    'file:///etc/x',
  ];
  for (const url of [
    ...table,
    'https://u:p@a.example/',
    'https://u@a.example/',
    'data:text/html,x',
  ]) {
    const { code, details } = await refusal(
      get(net({ lookup: () => assert.fail('looked up') }), url),
    );
    assert.equal(code, 'source_refused', url);
    assert.doesNotMatch(JSON.stringify(details), /u:p|u@/);
  }
});

test('an address that is not public is refused in every spelling, without a connection', async () => {
  const hosts = ['127.0.0.1', '127.1', '2130706433', '0x7f.1', '[::1]', '[::ffff:127.0.0.1]', '0'];
  const more = ['10.1.2.3', '192.168.0.1', '169.254.169.254', '[fe80::1]', '[64:ff9b::7f00:1]'];
  for (const host of [...hosts, ...more, '[fd00::1]', '100.64.0.1', '[2002:7f00:1::]']) {
    const { code } = await refusal(get(net(), `https://${host}/x`));
    assert.equal(code, 'source_address_refused', host);
  }
  assert.equal(reached, 0);
});

test('a name is refused for any one of its addresses, and looked up anew each time', async () => {
  const v4 = (address: string) => ({ address, family: 4 });
  const tables = [
    [v4('127.0.0.1')],
    [v4('1.1.1.1'), v4('10.0.0.1')],
    [{ address: '::1', family: 6 }],
  ];
  let looked = 0;
  for (const addresses of tables) {
    const lookup = async () => {
      looked += 1;
      return addresses;
    };
    const { code, details } = await refusal(get(net({ lookup }), 'https://rebind.example/'));
    assert.equal(code, 'source_address_refused');
    assert.equal(details.host, 'rebind.example');
  }
  assert.equal(looked, tables.length);
  const none = await refusal(get(net({ lookup: async () => [] }), 'https://none.example/'));
  assert.equal(none.code, 'source_unreachable');
  const never = () => new Promise<never>(() => {});
  const late = await refusal(get(net({ lookup: never }), 'https://late.example/'));
  assert.match(String(late.details.why), /could not be looked up/);
  assert.equal((await refusal(get(net(), 'https://localhost/'))).code, 'source_address_refused');
  assert.equal(reached, 0);
});

test('what an operator vouches for is that origin alone: scheme, host and port', async () => {
  const server = createHttp((request, response) => {
    const { url = '' } = request;
    if (url.startsWith('/to?')) response.setHeader('location', decodeURIComponent(url.slice(4)));
    response.writeHead(url.startsWith('/to?') ? 302 : 200);
    response.end(request.headers.authorization ?? 'none');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const at = net({ trusted_origins: [origin] });
  try {
    const token = { secret: new Secret('the-token'), origin };
    const answer = await get(at, `${origin}/x`, { token });
    assert.equal(await textOf(at, answer, 100), 'Bearer the-token');
    const other = await get(at, `${origin}/x`, { token: { ...token, origin: 'http://b' } });
    assert.equal(await textOf(at, other, 100), 'none');
    assert.equal(await textOf(at, await get(at, `${origin}/x`), 3), null, 'too long');
    for (const target of [
      `http://127.0.0.1:${port}/`,
      `http://localhost:${port}/`,
      'http://[::1]/',
    ]) {
      const { code } = await refusal(get(at, `${origin}/to?${encodeURIComponent(target)}`));
      assert.equal(code, 'source_refused', target);
    }
    const elsewhere = await get(at, `${origin}/to?http%3A%2F%2Fx.example`, {
      follow: 'same-origin',
    });
    assert.equal(elsewhere.status, 302);
    elsewhere.body.destroy();
    assert.equal(reached, 0);
  } finally {
    server.close();
  }
});

test('an answer that does not begin, is no HTTP, drips or never ends is given up', async () => {
  const drip = createHttp((request, response) => {
    if (request.url === '/junk') return void request.socket.end('junk\r\n\r\n');
    if (request.url === '/header') return void request.socket.write('HTTP/1.1 200 OK\r\nx: ');
    response.writeHead(200);
    const more = () => {
      if (!response.destroyed) response.write('x', () => systemClock.after(20, more));
    };
    more();
  });
  await new Promise<void>((resolve) => drip.listen(0, '127.0.0.1', resolve));
  const dripping = `http://127.0.0.1:${(drip.address() as AddressInfo).port}`;
  const silent = `http://127.0.0.1:${port}`;
  const at = net({ trusted_origins: [dripping, silent] });
  try {
    const none = await refusal(get(at, silent));
    assert.deepEqual([none.code, none.details.why], ['source_unreachable', 'no answer came']);
    assert.equal((await refusal(get(at, `${dripping}/header`))).details.why, 'no answer came');
    assert.match(String((await refusal(get(at, `${dripping}/junk`))).details.why), /speak HTTP/);
    const answer = await get(at, dripping);
    const stalled = await refusal(textOf(at, answer, 10_000));
    assert.match(String(stalled.details.why), /does not go on/);
    assert.equal(stalled.temporary, true);
    const off = new AbortController();
    const read = async () => {
      for await (const _ of bytesOf(at, await get(at, dripping, { signal: off.signal }), 'm'))
        off.abort();
    };
    await assert.rejects(read(), { name: 'AbortError' });
  } finally {
    drip.closeAllConnections();
    drip.close();
  }
});

test('failures and waits are read from what a server or the system says', () => {
  const of = (code: string) => whyUnreachable(Object.assign(new Error('x'), { code }));
  assert.deepEqual(of('ENOTFOUND'), { why: 'its name has no address', temporary: true });
  assert.equal(of('CERT_HAS_EXPIRED').temporary, false);
  assert.equal(of('ERR_TLS_CERT_ALTNAME_INVALID').temporary, false);
  const both = new AggregateError([Object.assign(new Error('x'), { code: 'ECONNREFUSED' })]);
  assert.equal(whyUnreachable(both).why, 'nothing listens there');
  assert.equal(readRetryAfter('7', 0), 7000);
  assert.equal(readRetryAfter('Thu, 01 Jan 1970 00:01:00 GMT', 10_000), 50_000);
  assert.equal(readRetryAfter('Thu, 01 Jan 1970 00:00:00 GMT', 10_000), 0);
  assert.equal(readRetryAfter('999999999', 0), 24 * 3600_000);
  for (const text of [undefined, '', 'soon', '-1'])
    assert.equal(readRetryAfter(text, 0), null, text);
});
