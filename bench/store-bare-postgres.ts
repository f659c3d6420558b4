/**
 * The least that could do the store's work on Postgres: one client, pipelined, a COMMIT for each
 * batch. No savepoints, no names, no checks, no second chance: what the store costs is measured
 * against it.
 */
import { Client } from 'pg';
import { type Launch, schema, statements } from './store-transactions.ts';

export type Bare = { run(launches: Launch[]): Promise<unknown[]>; close(): Promise<void> };

export async function openBareClient(url: string): Promise<Bare> {
  const client = new Client({ connectionString: url, pipeline: true });
  await client.connect();
  await client.query(schema);
  const [workload, event, counter] = statements.map(
    (text, index) => (values: unknown[]) => client.query({ text, name: `s${index}`, values }),
  );
  return {
    async run(launches) {
      void client.query('begin');
      for (const { id, now } of launches) {
        await workload?.([id, now]);
        await event?.([id, now]);
        await counter?.([]);
      }
      await client.query('commit');
      return launches.map(({ id }) => ({ id }));
    },
    close: () => client.end(),
  };
}
