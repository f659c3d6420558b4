/**
 * Every bound of the safetensors validator, in one place.
 *
 * Invariants: each is far above what honest models need and low enough that neither the validator
 * nor a reader after it can be made to work or allocate without end.
 */
export const safetensors_limits = {
  /** The format's own bound. */
  header_bytes: 100_000_000,
  /** Tensors of one file; mixtures with one tensor per expert have about 50,000 in all parts. */
  tensors: 65_536,
  name_bytes: 1024,
  /** Honest tensors have up to 5. */
  dims: 8,
  /** One entry with its name, shape and place; honest ones have under 300 bytes. */
  entry_bytes: 64 << 10,
  /** Names in the metadata; training tools write about 100. */
  metadata_entries: 4096,
  /** `config.json`, an index, a tokenizer's settings. */
  document_bytes: 16 << 20,
  /** Of an index, or of all settings together; the largest index has about 200,000. */
  document_values: 1 << 19,
  document_depth: 64,
  /** Files and folders of one model. */
  folder_entries: 10_000,
  folder_depth: 8,
} as const;
