/**
 * The catalog of this deployment, as everything here decides by it.
 *
 * Invariants: a catalog is a value that nobody changes; what this control plane writes holds for
 * its very next decision, what another one of the same store writes two seconds later; an entry
 * that this version cannot read is left out, never guessed.
 */
import { builtin_catalog, type Catalog, type CatalogChange, catalogWith } from '../core/catalog.ts';
import type { Clock } from '../lib/clock.ts';
import { catalogRevision, type EntryRow, listCatalogEntries } from '../store/catalog.ts';
import { listRegions } from '../store/regions.ts';
import type { EinsoraStore } from '../store/transactions.ts';

export type Catalogs = {
  read(): Promise<Catalog>;
  /** Whatever anybody wrote up to now counts. */
  look(): Promise<Catalog>;
  /** Something of it, or of where machines are, was written here. */
  changed(): void;
  /** The regions of the machines that a tenant may know of. */
  regions(tenant_id: string): Promise<readonly string[]>;
  /** All regions there are. */
  allRegions(): Promise<readonly string[]>;
};

/** How long a catalog is taken for what it was. */
const fresh_ms = 2000;

export function createCatalogs(store: Pick<EinsoraStore, 'read'>, clock: Clock): Catalogs {
  let known = builtin_catalog;
  let looked_at = Number.NEGATIVE_INFINITY;
  let looking: Promise<Catalog> | null = null;
  let writes = 0;

  async function look(): Promise<Catalog> {
    const at = clock.monotonic();
    const seen = writes;
    const revision = await store.read(catalogRevision, {});
    if (revision !== known.revision) {
      known = catalogWith(revision, changesOf(await store.read(listCatalogEntries, {})));
    }
    // What was written meanwhile may not be in it.
    if (seen === writes) looked_at = at;
    return known;
  }

  let regions = new Map<string, Promise<string[]>>();
  let regions_at = Number.NEGATIVE_INFINITY;

  function regionsOf(tenant_id: string | null): Promise<string[]> {
    const now = clock.monotonic();
    if (now - regions_at >= fresh_ms) {
      regions = new Map();
      regions_at = now;
    }
    const key = tenant_id ?? '';
    const known = regions.get(key);
    if (known !== undefined) return known;
    const read = store.read(listRegions, { tenant_id });
    regions.set(key, read);
    read.catch(() => regions.delete(key));
    return read;
  }

  return {
    look,
    regions: (tenant_id) => regionsOf(tenant_id),
    allRegions: () => regionsOf(null),
    async read() {
      if (clock.monotonic() - looked_at < fresh_ms) return known;
      looking ??= look().finally(() => {
        looking = null;
      });
      return looking;
    },
    changed() {
      writes += 1;
      looked_at = Number.NEGATIVE_INFINITY;
      looking = null;
      regions_at = Number.NEGATIVE_INFINITY;
    },
  };
}

function changesOf(rows: readonly EntryRow[]): CatalogChange[] {
  return rows.flatMap(({ sort, name, entry }) => {
    try {
      const parsed: unknown = entry === null ? null : JSON.parse(entry);
      return [{ sort, name, entry: parsed } as CatalogChange];
    } catch {
      return [];
    }
  });
}
