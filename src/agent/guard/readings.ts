/**
 * What is known of a machine and its owner at one moment: what the guard decides from.
 *
 * Invariants: what could not be read is null, which is neither yes nor no.
 */
export type Readings = {
  /** CPU that programs use which are not ours, in thousandths of a core. */
  others_millis: number | null;
  cores_millis: number;
  memory_available_bytes: number | null;
  memory_total_bytes: number;
  /** Share of time in which everything waited for memory, of the last 10 s, in percent. */
  memory_stall_percent: number | null;
  disk: { free_bytes: number; total_bytes: number } | null;
  owner: OwnerReading;
  /** Null: unknown. */
  power: PowerReading | null;
  cpu_celsius: number | null;
  gpu_celsius: number | null;
  /** UUIDs of GPUs that the owner's programs use; null: could not be asked. */
  foreign_gpus: string[] | null;
  /** Of the machine's local day. */
  minute: number;
  /** What the owner pressed; null: nothing. */
  button: { level: 4 | 5; everyone: boolean } | null;
};

export type OwnerReading = {
  /** How long ago anybody was seen at it; `nobody`: no one is signed in; null: cannot be told. */
  idle_ms: number | 'nobody' | null;
  /** A screen is there at which somebody may sit. */
  has_screen: boolean;
};

export type PowerReading = {
  source: 'mains' | 'battery';
  /** Null: not known, or no battery. */
  percent: number | null;
};
