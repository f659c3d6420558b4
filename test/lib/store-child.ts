/**
 * A process for the store's tests to kill. `commits FOLDER`: opens the store there and prints each
 * id once its transaction has resolved, without end. `lock FOLDER`: locks the folder, says so, and
 * stays.
 */
import { writeSync } from 'node:fs';
import { systemClock } from '../../src/lib/clock.ts';
import { lockFolder, openSqliteStore } from '../../src/store/sqlite.ts';
import { transactions } from '../contracts/store-transactions.ts';

const [what, folder] = process.argv.slice(2);
if (!folder) throw new Error('usage: store-child.ts commits|lock FOLDER');

if (what === 'lock') {
  writeSync(1, lockFolder(folder) ? 'locked\n' : 'refused\n');
  await systemClock.sleep(60_000);
} else {
  const transactions_url = new URL('../contracts/store-transactions.ts', import.meta.url).href;
  const store = await openSqliteStore({ folder, transactions_url, transactions });
  const caller = async (number: number) => {
    for (let turn = 0; ; turn += 1) {
      const { id } = await store.transact('addBox', { id: `ack-${number}-${turn}` });
      // Written at once: what the parent reads was acknowledged before the kill.
      writeSync(1, `${id}\n`);
    }
  };
  await Promise.all(Array.from({ length: 8 }, (_, number) => caller(number)));
}
