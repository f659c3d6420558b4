/**
 * SFTP as bytes: what clients other than OpenSSH's do, and what none should.
 */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { after, beforeEach, test } from 'node:test';
import { localFiles } from '../../../test/lib/ssh-rig.ts';
import { seededRandom } from '../../lib/random.ts';
import type { Channel, Ending } from './channel.ts';
import { serveSftp } from './sftp.ts';
import { ask, open_flags, splitRequests, status } from './sftp-wire.ts';

const root = mkdtempSync(join(tmpdir(), 'einsora-sftp-'));
after(() => rmSync(root, { recursive: true }));
beforeEach(() => {
  rmSync(root, { recursive: true });
  mkdirSync(join(root, 'workspace'), { recursive: true });
});

const number = (value: number) => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
};
const long = (value: number) =>
  Buffer.concat([number(Math.floor(value / 2 ** 32)), number(value % 2 ** 32)]);
const text = (value: string | Buffer) =>
  Buffer.concat([number(Buffer.byteLength(value)), Buffer.from(value)]);
const no_attributes = number(0);
const new_file = open_flags.write | open_flags.create;

type Answer = { type: number; id: number; rest: Buffer };

/** A session: asks one thing after another. */
function begin() {
  const input = new PassThrough();
  const output = new PassThrough();
  let ending: Ending | null = null;
  const over = Promise.withResolvers<void>();
  const channel: Channel = {
    input,
    is_open: true,
    closed: over.promise,
    write: async (data) => {
      output.write(data);
      return true;
    },
    endOutput: () => {},
    finish: (how) => {
      ending = how;
      output.end();
      over.resolve();
    },
  };
  const served = serveSftp(
    channel,
    async () => localFiles(root),
    (error) => (error as Error).message,
  );
  const answers = splitRequests(output);
  let asked = 0;
  const raw = (bytes: Buffer) => void input.write(bytes);
  const send = (type: number, ...parts: Buffer[]) => {
    asked += 1;
    const body = Buffer.concat([Buffer.of(type), number(asked), ...parts]);
    raw(Buffer.concat([number(body.length), body]));
  };
  const next = async (): Promise<Answer> => {
    const { value } = await answers.next();
    assert.ok(value !== undefined, 'an answer came');
    return { type: value.readUInt8(), id: value.readUInt32BE(1), rest: value.subarray(5) };
  };
  return {
    raw,
    send,
    next,
    async tell(type: number, ...parts: Buffer[]) {
      send(type, ...parts);
      return next();
    },
    async open(path: string, flags: number) {
      const told = await this.tell(ask.open, text(path), number(flags), no_attributes);
      assert.equal(told.type, 102, told.rest.toString());
      return text(told.rest.subarray(4));
    },
    end: () => input.end(),
    ending: () => ending,
    served,
  };
}

const codeOf = ({ type, rest }: Answer) => (type === 101 ? rest.readUInt32BE() : null);
const there = (name: string) => join(root, 'workspace', name);

test('a part in the middle of a file is rewritten, and the rest stays', async () => {
  writeFileSync(there('file'), '0123456789');
  const sftp = begin();
  const handle = await sftp.open('file', open_flags.write);
  assert.equal(codeOf(await sftp.tell(ask.write, handle, long(3), text('abc'))), status.ok);
  assert.equal(readFileSync(there('file'), 'utf8'), '0123456789');
  assert.equal(codeOf(await sftp.tell(ask.close, handle)), status.ok);
  assert.equal(readFileSync(there('file'), 'utf8'), '012abc6789');
});

test('what is appended comes after what was there, wherever the client says', async () => {
  writeFileSync(there('log'), 'old ');
  const sftp = begin();
  const handle = await sftp.open('log', open_flags.write | open_flags.append);
  await sftp.tell(ask.write, handle, long(0), text('new '));
  await sftp.tell(ask.write, handle, long(0), text('newer'));
  await sftp.tell(ask.close, handle);
  assert.equal(readFileSync(there('log'), 'utf8'), 'old new newer');
});

test('going back in a file that is written is refused, and so is a leap of gigabytes', async () => {
  const sftp = begin();
  const handle = await sftp.open('new', new_file);
  await sftp.tell(ask.write, handle, long(0), text('front'));
  const back = await sftp.tell(ask.write, handle, long(0), text('back'));
  assert.equal(codeOf(back), status.unsupported);
  assert.match(back.rest.toString(), /front to back/);
  const leap = await sftp.tell(ask.write, handle, long(2 ** 40), text('far'));
  assert.equal(codeOf(leap), status.unsupported);
  await sftp.tell(ask.close, handle);
  assert.equal(readFileSync(there('new'), 'utf8'), 'front');
});

test('a hole is filled with nothing', async () => {
  const sftp = begin();
  const handle = await sftp.open('holes', new_file);
  await sftp.tell(ask.write, handle, long(4), text('end'));
  await sftp.tell(ask.close, handle);
  assert.equal(readFileSync(there('holes'), 'latin1'), '\0\0\0\0end');
});

test('reading is possible anywhere, in any order, and ends where the file does', async () => {
  writeFileSync(there('file'), '0123456789');
  const sftp = begin();
  const handle = await sftp.open('file', open_flags.read);
  const read = async (at: number, length: number) => {
    const told = await sftp.tell(ask.read, handle, long(at), number(length));
    return told.type === 103 ? told.rest.subarray(4).toString() : codeOf(told);
  };
  assert.deepEqual(
    [await read(6, 2), await read(0, 3), await read(3, 3), await read(8, 99), await read(10, 1)],
    ['67', '012', '345', '89', status.eof],
  );
});

test('a file that is there is not made again where the client says so', async () => {
  writeFileSync(there('file'), 'kept');
  const sftp = begin();
  const flags = number(new_file | open_flags.exclusive);
  assert.equal(
    codeOf(await sftp.tell(ask.open, text('file'), flags, no_attributes)),
    status.failure,
  );
  const both = number(open_flags.read | open_flags.write);
  const told = await sftp.tell(ask.open, text('file'), both, no_attributes);
  assert.equal(codeOf(told), status.unsupported);
  assert.equal(readFileSync(there('file'), 'utf8'), 'kept');
});

test('what is left open when the client goes is not made', async () => {
  const sftp = begin();
  const handle = await sftp.open('half', new_file);
  await sftp.tell(ask.write, handle, long(0), text('half'));
  sftp.end();
  await sftp.served;
  for (let turn = 0; turn < 2000 && readdirSync(there('')).length > 0; turn += 1) {
    await new Promise(setImmediate);
  }
  assert.deepEqual(readdirSync(there('')), []);
  assert.deepEqual(sftp.ending(), { code: 0, signal: null });
});

test('so many files are open and no more', async () => {
  writeFileSync(there('file'), 'x');
  const sftp = begin();
  let told: Answer;
  let opened = 0;
  do {
    told = await sftp.tell(ask.open, text('file'), number(1), no_attributes);
    opened += 1;
  } while (told.type === 102 && opened < 1000);
  assert.match(told.rest.toString(), /64 files are open already/);
});

test('paths are tidied, and never leave the root', async () => {
  const sftp = begin();
  for (const [given, path] of [
    ['.', '/workspace'],
    ['a/../b', '/workspace/b'],
    ['../../../etc', '/etc'],
    ['/x//y/', '/x/y'],
    ['', '/workspace'],
  ] as const) {
    const told = await sftp.tell(ask.realpath, text(given));
    assert.equal(told.rest.subarray(8, 8 + path.length + 0).toString(), path);
  }
  assert.equal(codeOf(await sftp.tell(ask.stat, text('a\0b'))), status.failure);
  assert.equal(codeOf(await sftp.tell(ask.stat, text('x'.repeat(5000)))), status.failure);
});

test('a request cut off, of no length or far too long ends the session', async () => {
  for (const bytes of [
    Buffer.concat([number(5), Buffer.of(ask.stat), number(1)]),
    number(0),
    number(0x7fffffff),
    Buffer.concat([number(9), Buffer.of(ask.open), number(1), number(0xffffffff)]),
  ]) {
    const sftp = begin();
    sftp.raw(bytes);
    await sftp.served;
    assert.equal(sftp.ending()?.code, 255);
  }
});

test('requests of chance are answered or end their session', async () => {
  const random = seededRandom(11);
  for (let round = 0; round < 200; round += 1) {
    const sftp = begin();
    for (let count = 0; count < 10; count += 1) {
      const [type = 0, length = 0, shape = 0] = random.bytes(3);
      const parts = [Buffer.from(random.bytes(length))];
      if (shape % 3 !== 0) parts.unshift(text(['1', 'file', '/', '../x'][shape % 4] ?? ''));
      sftp.send(type % 22, ...parts);
    }
    sftp.end();
    await sftp.served;
    assert.ok(sftp.ending() !== null);
  }
});
