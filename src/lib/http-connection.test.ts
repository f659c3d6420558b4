/**
 * One connection, question after question, with a program at the other end that the test writes.
 */
import assert from 'node:assert/strict';
import { Duplex } from 'node:stream';
import { test } from 'node:test';
import { createHttpConnection, type HttpAnswer } from './http-connection.ts';

const turn = () => new Promise((resolve) => setImmediate(resolve));

/** A connection whose other end is in the test's hand. */
function given() {
  const asked: string[] = [];
  const told: string[] = [];
  const stream = new Duplex({
    read() {},
    write(chunk, _encoding, done) {
      asked.push(chunk.toString());
      done();
    },
  });
  const connection = createHttpConnection(stream, {
    free: () => told.push('free'),
    ended: () => told.push('ended'),
  });
  return {
    ...{ stream, connection, asked, told },
    say: (text: string) => void stream.push(Buffer.from(text)),
    ask: (question = 'question') =>
      new Promise<HttpAnswer | { heard: boolean }>((resolve) =>
        connection.ask(Buffer.from(question), {
          answered: resolve,
          failed: (heard) => resolve({ heard }),
        }),
      ),
  };
}

type Got = HttpAnswer | { heard: boolean };

/** What a reader gets of an answer: its pieces, then whether it was whole. */
function read(got: Got): (string | boolean)[] {
  assert.ok('status' in got);
  const pieces: (string | boolean)[] = [];
  got.read({
    data: (bytes) => void pieces.push(bytes.toString()),
    end: (is_whole) => void pieces.push(is_whole),
  });
  return pieces;
}

const head = 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n';

test('question after question goes over one connection, which is free between them', async () => {
  const { connection, ask, say, asked, told } = given();
  assert.equal(connection.isUsed(), false);
  for (const question of ['one', 'two']) {
    const answer = ask(question);
    say(`${head}o`);
    const pieces = read(await answer);
    say('k');
    await turn();
    say('ay');
    await turn();
    assert.deepEqual(pieces, ['o', 'k', 'ay', true]);
  }
  assert.deepEqual(asked, ['one', 'two']);
  assert.deepEqual(told, ['free', 'free']);
  assert.equal(connection.isUsed(), true);
});

test('what came before somebody read it is read first, and no more comes meanwhile', async () => {
  const { ask, say, stream } = given();
  const answer = ask();
  say('HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\na');
  const got = await answer;
  for (const letter of ['b', 'c', 'd', 'e']) {
    say(letter);
    await turn();
  }
  assert.equal(stream.isPaused(), true);
  const pieces = read(got);
  say('f');
  await turn();
  assert.equal(pieces.filter((piece) => piece !== true).join(''), 'abcdef');
  assert.equal(pieces.at(-1), true);
});

test('an answer that was over before anybody read it is read whole', async () => {
  const { ask, say, told } = given();
  const answer = ask();
  say(`${head}okay`);
  const got = await answer;
  await turn();
  assert.ok('status' in got && got.isOver());
  assert.deepEqual(read(got), ['okay', true]);
  assert.deepEqual(told, ['free']);
});

test('a reader that pauses gets nothing until it goes on', async () => {
  const { ask, say } = given();
  const answer = ask();
  say(`${head}o`);
  const got = await answer;
  const pieces = read(got);
  assert.ok('status' in got);
  got.pause();
  say('kay');
  await turn();
  assert.deepEqual(pieces, ['o']);
  got.resume();
  await turn();
  assert.deepEqual(pieces, ['o', 'kay', true]);
});

test('an end before an answer is told, with whether anything came', async () => {
  for (const [said, heard] of [
    ['', false],
    ['HTTP/1.1 20', true],
    ['what?\r\n\r\n', true],
  ] as const) {
    const { ask, say, stream, told } = given();
    const answer = ask();
    if (said !== '') say(said);
    await turn();
    stream.push(null);
    assert.deepEqual(await answer, { heard });
    assert.deepEqual(told, ['ended']);
    assert.equal(stream.destroyed, true);
  }
});

test('an answer that is cut, or that stops making sense, ends as not whole', async () => {
  const chunked = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n';
  for (const [start, next] of [
    [`${head}ok`, null],
    [chunked, null],
    [chunked, 'nonsense'],
  ] as const) {
    const { ask, say, stream, told } = given();
    const answer = ask();
    say(start);
    const pieces = read(await answer);
    stream.push(next === null ? null : Buffer.from(next));
    await turn();
    assert.deepEqual(pieces, ['ok', false]);
    assert.deepEqual(told, ['ended']);
  }
});

test('an answer that ends with its connection is whole, and the connection is gone', async () => {
  const { ask, say, stream, told } = given();
  const answer = ask();
  say('HTTP/1.1 200 OK\r\n\r\nall of it');
  const pieces = read(await answer);
  stream.push(null);
  await turn();
  assert.deepEqual(pieces, ['all of it', true]);
  assert.deepEqual(told, ['ended']);
});

test('whoever destroys an answer is told nothing more, and its connection ends', async () => {
  const { ask, say, stream, told } = given();
  const answer = ask();
  say(`${head}ok`);
  const got = await answer;
  const pieces = read(got);
  assert.ok('status' in got);
  got.destroy();
  say('ay');
  await turn();
  assert.deepEqual(pieces, ['ok']);
  assert.deepEqual(told, ['ended']);
  assert.equal(stream.destroyed, true);
});

test('a connection is not kept where the next answer could be taken for another one', async () => {
  const closes = 'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\nokay';
  for (const said of [closes, `${head}okayHTTP/1.1`]) {
    const { ask, say, told } = given();
    const answer = ask();
    say(said);
    assert.deepEqual(read(await answer), ['okay', true]);
    assert.deepEqual(told, ['ended']);
  }
  const unasked = given();
  unasked.say('HTTP/1.1 200 OK\r\n\r\n');
  await turn();
  assert.deepEqual(unasked.told, ['ended']);
  assert.deepEqual(await unasked.ask(), { heard: false });
});

test('an answer that comes before its question was taken ends the connection', async () => {
  const { stream, told, say, ask } = given();
  stream._write = () => {}; // it takes nothing
  const answer = ask();
  say(`${head}okay`);
  assert.deepEqual(read(await answer), ['okay', true]);
  assert.deepEqual(told, ['ended']);
});
