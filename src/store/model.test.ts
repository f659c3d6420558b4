/**
 * Random commands on a store and on a model of it, restarts among them; and one store against
 * another: the same commands leave the same rows on every engine.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { needs } from '../../test/lib/parts.ts';
import { dumpOf, openTestStore, type StoreKind, storeKinds } from '../../test/lib/rig.ts';
import { anyCommands, newModel, type Real } from '../../test/lib/store-commands.ts';
import { beginStory, checkAll } from '../../test/lib/store-model.ts';

const runs: Record<StoreKind, number> = { memory: 50, file: 4, postgres: 6 };
const seed = 20_261_130;

/** Runs commands on a new store, and gives all that is in it afterwards. */
async function play(kind: StoreKind, commands: Iterable<fc.AsyncCommand<never, never>>) {
  const opened = await openTestStore(kind);
  try {
    const story = await beginStory(opened.store);
    const real: Real = { story, reopen: opened.reopen };
    await fc.asyncModelRun(() => ({ model: newModel() as never, real: real as never }), commands);
    await checkAll(story);
    return await dumpOf(story.store);
  } finally {
    await opened.close();
  }
}

type Commands = Iterable<fc.AsyncCommand<never, never>>;

for (const kind of storeKinds) {
  describe(`a store in ${kind} and its model`, () => {
    test('agree after every command', async () => {
      await fc.assert(
        fc.asyncProperty(anyCommands, async (commands) => {
          await play(kind, commands as unknown as Commands);
        }),
        { seed, numRuns: runs[kind] },
      );
    });
  });
}

test('the same commands leave the same rows on every engine', needs('postgres'), async () => {
  const stories = fc.sample(anyCommands, { seed, numRuns: 20 });
  const longest = stories.map((story) => [...story]).sort((a, b) => b.length - a.length);
  for (const commands of longest.slice(0, 3)) {
    const [first, ...others] = await Promise.all(
      (['memory', 'file', 'postgres'] as const).map((kind) =>
        play(kind, commands as unknown as Commands),
      ),
    );
    for (const other of others) assert.deepEqual(other, first);
  }
});
