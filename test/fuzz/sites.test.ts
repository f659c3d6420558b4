/**
 * HTTP as no client would send it, to a site by somebody who has access: nothing crashes, nothing
 * is a failure of ours, and the program never meets a request that was not let in.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { systemClock } from '../../src/lib/clock.ts';
import { rawRequest, sendRaw } from '../lib/raw-http.ts';
import { createSiteRig, startProgramServer } from '../lib/site-rig.ts';

test('whatever is sent to a site, its program meets only what was let in', async () => {
  const rejections: unknown[] = [];
  const onRejection = (error: unknown) => void rejections.push(error);
  process.on('unhandledRejection', onRejection);
  const site = await createSiteRig({ clock: systemClock });
  const lab = await site.addNotebook();
  const seen: { host: string | undefined; authorization: string | undefined }[] = [];
  const refused: string[] = [];
  const program = await startProgramServer((request, response) => {
    const { host, authorization } = request.headers;
    seen.push({ host, authorization });
    request.on('error', () => {});
    request.resume().on('end', () => response.end('of the program'));
  });
  // What this strict reader would not take for HTTP, the proxy must not have passed on.
  program.server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    if (error.code?.startsWith('HPE_') && error.code !== 'HPE_INVALID_EOF_STATE') {
      refused.push(error.code);
    }
    socket.destroy();
  });
  site.dial.now = program.dial;
  const cookie = await site.open(lab);
  const own = [`Host: ${lab.host}`, `Cookie: ${cookie}`, `Origin: ${lab.origin}`].join('\r\n');
  let let_in = 0;
  try {
    await fc.assert(
      fc.asyncProperty(rawRequest, async (request) => {
        seen.length = 0;
        const text = request.text.replace('Host: localhost:%PORT%', own);
        const got = await sendRaw(site.port, { ...request, text });
        const statuses = [...got.matchAll(/^HTTP\/1\.1 (\d{3})/gm)].map(([, code]) => Number(code));
        const ours = statuses.filter((status) => status >= 500 && status !== 502);
        assert.deepEqual(ours, [], got.slice(0, 500));
        for (const { host, authorization } of seen) {
          assert.equal(host, lab.host);
          assert.equal(authorization, `token token-of-${lab.id}.0.1`);
        }
        assert.deepEqual(refused, [], JSON.stringify(text.slice(0, 500)));
        let_in += seen.length;
        assert.deepEqual(rejections, []);
      }),
      { seed: 11, numRuns: 1000 },
    );
    assert.ok(let_in > 20, `only ${let_in} were let in`);
    assert.deepEqual(
      site.rig.lines.filter(({ level }) => level === 'error'),
      [],
    );
  } finally {
    process.off('unhandledRejection', onRejection);
    await site.close();
    await program.close();
  }
});
