/** The in-memory store meets the store contract. */
import { storeContract } from '../../test/contracts/store.ts';
import { migrations, transactions } from '../../test/contracts/store-transactions.ts';
import { openMemoryStore } from './memory.ts';

storeContract('memory', async () => openMemoryStore({ transactions, migrations }));
