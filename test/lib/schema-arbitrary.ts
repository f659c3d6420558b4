/**
 * Values for JSON schemas, as fast-check arbitraries: such that fit, and such that nearly do.
 *
 * Invariants: understands what our OpenAPI document uses and throws on anything else, so that a
 * schema is never passed over.
 */
import fc from 'fast-check';

export type Schema = Record<string, unknown>;
export type Components = Record<string, Schema>;

const known = new Set(
  (
    '$ref type enum const anyOf oneOf allOf properties required additionalProperties items ' +
    'minItems maxItems minLength maxLength minimum maximum exclusiveMinimum exclusiveMaximum ' +
    'pattern format description example default writeOnly propertyNames title'
  ).split(' '),
);

/** Texts that find mistakes: of SQL, of paths, of Unicode, of JavaScript. */
const odd_texts = [
  ...['', ' ', '\0', "'", '"', "' or 1=1 --", '%', '_', '\\', '../../etc/passwd', '{{1}}', '%00'],
  ...['__proto__', 'constructor', 'null', 'NaN', '-1', '1e309', '9'.repeat(40), 'a'.repeat(5000)],
  ...[
    '\ud800',
    'é',
    'e\u0301',
    '\u202e',
    '😀',
    '\r\nset-cookie: a=b',
    '<script>',
    '$1',
    '\u001b[2J',
  ],
];
export const oddText = fc.oneof(fc.constantFrom(...odd_texts), fc.string({ unit: 'binary' }));

/** Anything that JSON can say. */
export const anyJson = fc.oneof(
  fc.jsonValue({ maxDepth: 3 }),
  oddText,
  fc.constantFrom(null, true, 0, -1, 1.5, 2 ** 53, -(2 ** 63), 1e308, [], {}, [[]], {
    a: { b: {} },
  }),
);

/** Values by the name of the member that a deployment knows, so that some calls are accepted. */
const hints: Record<string, readonly unknown[]> = {
  kind: ['endpoint'],
  model: ['smollm2-135m', 'hf://owner/repo', '/nothing/model.gguf'],
  region: ['local'],
  accelerator: ['cpu'],
  gpu_class: ['cpu-1c-2g'],
  gpu_count: [0],
  password: ['correct horse battery', 'another long password'],
  new_password: ['correct horse battery'],
  slug: ['lab', 'team-two', 'x'],
  token: ['@link'],
  role: ['member', 'viewer', 'tenant-admin'],
};

/** Values that fit the schema. */
export function fitting(schema: Schema, components: Components, depth = 0): fc.Arbitrary<unknown> {
  const unknown = Object.keys(schema).filter((key) => !known.has(key));
  if (unknown.length > 0) throw new Error(`a schema says ${unknown.join(', ')}`);
  const inner = (one: unknown) => fitting(one as Schema, components, depth + 1);
  if (typeof schema.$ref === 'string') {
    const name = schema.$ref.replace('#/components/schemas/', '');
    return inner(components[name] ?? {});
  }
  if (schema.const !== undefined) return fc.constant(schema.const);
  if (Array.isArray(schema.enum)) return fc.constantFrom(...schema.enum);
  for (const choice of [schema.anyOf, schema.oneOf]) {
    if (Array.isArray(choice)) return fc.oneof(...choice.map(inner));
  }
  if (Array.isArray(schema.allOf)) {
    return fc.tuple(...schema.allOf.map(inner)).map((parts) => Object.assign({}, ...parts));
  }
  const types = Array.isArray(schema.type) ? schema.type : [schema.type];
  return fc.oneof(...types.map((type) => ofType(String(type), schema, inner)));
}

/** A value that fits but for one thing, or anything at all. */
export function nearlyFitting(schema: Schema, components: Components): fc.Arbitrary<unknown> {
  return fc.oneof(
    { weight: 3, arbitrary: fc.tuple(fitting(schema, components), fc.nat(), anyJson).map(spoil) },
    { weight: 1, arbitrary: anyJson },
  );
}

/** Replaces, drops or adds one member. */
function spoil([value, pick, other]: [unknown, number, unknown]): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return other;
  const entries = Object.entries(value);
  const at = Math.floor(pick / 4) % (entries.length + 1);
  const name = entries[at]?.[0] ?? 'more';
  if (pick % 4 === 0) return Object.fromEntries(entries.filter(([one]) => one !== name));
  if (pick % 4 === 1) return { ...value, [`${name}x`]: other };
  return { ...value, [name]: other };
}

function ofType(
  type: string,
  schema: Schema,
  inner: (one: unknown) => fc.Arbitrary<unknown>,
): fc.Arbitrary<unknown> {
  switch (type) {
    case 'string':
      return textFor(schema);
    case 'integer':
      return fc.integer({
        min: bound(schema.minimum, -(2 ** 31)),
        max: bound(schema.maximum, 2 ** 31 - 1),
      });
    case 'number':
      return fc.oneof(
        fc.integer({ min: bound(schema.minimum, -1000), max: bound(schema.maximum, 2 ** 31 - 1) }),
        fc.double({
          ...{ min: bound(schema.minimum, -1e9), max: bound(schema.maximum, 1e9), noNaN: true },
        }),
      );
    case 'boolean':
      return fc.boolean();
    case 'null':
      return fc.constant(null);
    case 'array': {
      const [minLength, maxLength] = [bound(schema.minItems, 0), bound(schema.maxItems, 4)];
      return fc.array(inner(schema.items ?? {}), {
        minLength,
        maxLength: Math.min(maxLength, minLength + 4),
      });
    }
    case 'object':
      return objectFor(schema, inner);
    default:
      return anyJson;
  }
}

function textFor(schema: Schema): fc.Arbitrary<string> {
  const [minLength, maxLength] = [bound(schema.minLength, 0), bound(schema.maxLength, 40)];
  const text = fc.string({ minLength, maxLength: Math.min(maxLength, minLength + 40) });
  if (typeof schema.pattern !== 'string') return text;
  return fc
    .stringMatching(new RegExp(schema.pattern), { size: 'small' })
    .filter((one) => one.length >= minLength && one.length <= bound(schema.maxLength, 1e6));
}

function objectFor(
  schema: Schema,
  inner: (one: unknown) => fc.Arbitrary<unknown>,
): fc.Arbitrary<unknown> {
  const properties = Object.entries((schema.properties ?? {}) as Record<string, Schema>);
  const required = (schema.required ?? []) as string[];
  const members = Object.fromEntries(
    properties.map(([name, one]) => {
      const known_values = hints[name];
      if (known_values === undefined) return [name, inner(one)];
      const hint = { weight: 4, arbitrary: fc.constantFrom(...known_values) };
      return [name, fc.oneof(hint, { weight: 1, arbitrary: inner(one) })];
    }),
  );
  const needed = required.filter((name) => name in members);
  const other = Object.keys(members).filter((name) => !needed.includes(name));
  // Of many that may be left out, most are: each of them may be what makes a call refused.
  const some = fc.oneof(
    { weight: 3, arbitrary: fc.subarray(other, { maxLength: Math.min(3, other.length) }) },
    { weight: 1, arbitrary: fc.subarray(other) },
  );
  const fixed = some.chain((chosen) =>
    fc.record(
      Object.fromEntries([...needed, ...chosen].map((name) => [name, members[name] ?? anyJson])),
    ),
  );
  if (typeof schema.additionalProperties !== 'object') return fixed;
  const more = fc.dictionary(fc.string({ maxLength: 12 }), inner(schema.additionalProperties), {
    maxKeys: 3,
  });
  return fc.tuple(fixed, more).map(([one, other]) => ({ ...other, ...one }));
}

function bound(value: unknown, otherwise: number): number {
  return typeof value === 'number' ? value : otherwise;
}
