/**
 * Tenants by the slugs that rules of machines name them by.
 */
import type { Query, Row } from './sql.ts';

const most_slugs = 512;

/** Slugs by ids; those that no tenant has are left out. */
export const slugsNamed: Query<{ slugs: readonly string[] }, Map<string, string>> = async (
  sql,
  { slugs },
) => {
  const asked = [...new Set(slugs)].slice(0, most_slugs);
  if (asked.length === 0) return new Map();
  const rows = await sql.all<Row & { id: string; slug: string }>(
    `select id, slug from tenants where slug ${sql.in(asked, 1)}`,
    asked,
  );
  return new Map(rows.map(({ id, slug }) => [id, slug]));
};
