/**
 * Every bound of the GGUF validator, in one place.
 *
 * Invariants: each is far above what honest models need (the largest seen is noted) and low enough
 * that neither the validator nor the engine can be made to work or allocate without end.
 */
export const gguf_limits = {
  /** Whole header; a model with its `tokenizer.huggingface.json` inside has about 30 MB. */
  header_bytes: 128 << 20,
  /** Metadata entries; honest files have under 100. */
  entries: 4096,
  /** Tensors; mixtures with one tensor per expert have about 40,000. */
  tensors: 65_536,
  key_bytes: 1024,
  /** The engine keeps names in 64 bytes with the closing zero. */
  tensor_name_bytes: 63,
  dims: 4,
  /** Elements of one metadata array; merges of a large vocabulary reach 2^20. */
  array_items: 1 << 24,
  /** A string in an array that is no vocabulary. */
  array_string_bytes: 64 << 10,
  /** One token; honest ones end at a few hundred bytes. */
  token_bytes: 4096,
  /** Offsets into the token text are 32-bit; honest vocabularies have under 300,000. */
  vocabulary: 1 << 20,
  /** Per-layer arrays that are kept to be checked; as many as there can be blocks. */
  kept_items: 512,
  /** A string that is read (architecture, tokenizer model, type). */
  word_bytes: 64,
  /** A name is shown, so it is cut. */
  name_bytes: 64 << 10,
  name_characters: 200,
  /** 65,536 is the largest page of any system served; more only serves to overflow paddings. */
  alignment: 65_536,
  /** The format asks for a multiple of 8. */
  alignment_least: 8,
  /** The engine's layer table has 512 rows and aborts outside 1 to 512. */
  blocks: 512,
  /** 10 million is the longest context sold. */
  context: 1 << 24,
  embedding: 1 << 18,
  heads: 4096,
  feed_forward: 1 << 22,
  head_length: 65_536,
  /** The engine aborts above 512. */
  experts: 512,
  /** 70 billion parameters in a hundred parts is the most that is published. */
  shards: 4096,
  template_bytes: 256 << 10,
  /** Brackets inside one tag; honest templates reach about 12. */
  template_brackets: 100,
  /** Blocks (`for`, `if`, `elif`, `macro`) inside each other; honest templates reach about 15. */
  template_blocks: 100,
  /** Tokens in one tag, and so operators in one expression; honest ones have a few hundred. */
  template_tag_tokens: 5000,
  /** A literal number, and literal numbers multiplied; honest ones are counts and indices. */
  template_number: 1_000_000,
  /** Rounds of a literal `range`, and of nested ones multiplied. */
  template_rounds: 100_000,
} as const;
