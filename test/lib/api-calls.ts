/**
 * What can be asked of the API, made from its OpenAPI document: calls that fit their schemas, and
 * calls that nearly do.
 */
import fc from 'fast-check';
import { type RouteName, routes } from '../../src/contract/routes.ts';
import {
  type Components,
  fitting,
  nearlyFitting,
  oddText,
  type Schema,
} from './schema-arbitrary.ts';

export type Ask = {
  kind: 'ask';
  route: RouteName;
  /** Which principal asks; above all of them it is nobody. */
  who: number;
  /** For each parameter of the path: which of the things that are there, and of whose. */
  picks: readonly { pick: number; own: boolean; text: string | null }[];
  query: Record<string, string>;
  headers: Record<string, string>;
  /** Undefined where none is sent. */
  body: unknown;
  /** Written instead of JSON. */
  raw: string | null;
};
export type Call = Ask | { kind: 'pass'; ms: number };

type Parameter = { name: string; in: string; required?: boolean; schema: Schema };
type Operation = {
  parameters?: Parameter[];
  requestBody?: { content: Record<string, { schema: Schema }> };
};
export type Document = {
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Components };
};

/** Left out: they end the world of the others, and are asked in tests of their own. */
export function callOf(document: Document): fc.Arbitrary<Call> {
  const names = Object.keys(routes) as RouteName[];
  const asks = names.map((route) => askOf(document, route));
  return fc.oneof(
    { weight: 12, arbitrary: fc.oneof(...asks) },
    {
      weight: 1,
      arbitrary: fc.constantFrom(0, 500, 5000).map((ms) => ({ kind: 'pass' as const, ms })),
    },
  );
}

const odd_bodies = fc.oneof(oddText, fc.constantFrom('{', '[]', 'null', '{"a":1}{', '\ufeff{}'));

function askOf(document: Document, route: RouteName): fc.Arbitrary<Ask> {
  const { method, path } = routes[route];
  const operation = document.paths[path]?.[method];
  if (operation === undefined) throw new Error(`${route} is not in the document`);
  const { schemas } = document.components;
  const parameters = operation.parameters ?? [];
  const body = operation.requestBody?.content['application/json']?.schema;
  const pick = fc.record({
    pick: fc.nat(1000),
    own: fc.boolean(),
    text: fc.oneof({ weight: 7, arbitrary: fc.constant(null) }, oddText),
  });
  const count = parameters.filter((one) => one.in === 'path').length;
  const bodies =
    body === undefined
      ? fc.oneof({ weight: 5, arbitrary: fc.constant(undefined) }, fc.constant({ a: 1 }))
      : fc.oneof(
          { weight: 4, arbitrary: fitting(body, schemas) },
          { weight: 1, arbitrary: nearlyFitting(body, schemas) },
        );
  return fc.record({
    kind: fc.constant('ask' as const),
    route: fc.constant(route),
    who: fc.nat(9),
    picks: fc.array(pick, { minLength: count, maxLength: count }),
    query: valuesOf(parameters, 'query', schemas),
    headers: valuesOf(parameters, 'header', schemas),
    body: bodies,
    raw: fc.oneof({ weight: 15, arbitrary: fc.constant(null) }, odd_bodies),
  });
}

/** `@own:` and `@any:` stand for something that is there when the call is made. */
const there = (name: string) =>
  fc
    .tuple(fc.constantFrom('@own', '@any'), fc.nat(1000))
    .map((parts) => `${parts.join(':')}:${name}`);
const named = new Map<string, fc.Arbitrary<string>>([
  ...['tenant', 'user', 'workload'].map((name) => [name, there(name)] as const),
  ['path', fc.constantFrom('/', '/tmp', '/workspace', '/tmp/a.txt', '/tmp/b')] as const,
  ...['from', 'to', 'since', 'until'].map(
    (name) => [name, fc.integer({ min: 0, max: 2e12 }).map(String)] as const,
  ),
]);

/** Some of the parameters of one place, fitting or not, as text. */
function valuesOf(
  parameters: readonly Parameter[],
  place: string,
  schemas: Components,
): fc.Arbitrary<Record<string, string>> {
  const members = Object.fromEntries(
    parameters
      .filter((one) => one.in === place)
      .map(({ name, schema }) => [
        name,
        fc.oneof(
          { weight: 6, arbitrary: named.get(name) ?? fitting(schema, schemas).map(String) },
          { weight: 1, arbitrary: oddText },
        ),
      ]),
  );
  return fc
    .record(members, { requiredKeys: [] })
    .map((some) =>
      Object.fromEntries(
        Object.entries(some).filter((pair): pair is [string, string] => pair[1] !== undefined),
      ),
    );
}
