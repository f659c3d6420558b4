/**
 * Everything that was seen of a machine's GPUs in one look, for the judgement to work on.
 *
 * Invariants: plain data; what could not be seen is null or says so, and is never left out.
 */
import type { AmdLook } from './amd.ts';
import type { Distribution } from './distribution.ts';
import type { Containers } from './gpu-containers.ts';
import type { KernelLog } from './kernel-log.ts';
import type { KernelModule } from './nvidia-kernel.ts';
import type { MigInstance } from './nvidia-mig.ts';
import type { GpuProgram } from './nvidia-programs.ts';
import type { NvidiaAnswer } from './nvidia-smi.ts';
import type { Bus } from './pci.ts';

export type GpuSnapshot = {
  here: Distribution;
  /** A noun phrase where this is a virtual machine. */
  inside: string | null;
  is_wsl: boolean;
  /** The board's name where it has a GPU beside its processor, such as a Jetson. */
  board: string | null;
  bus: Bus;
  module: KernelModule | null;
  /** Secure Boot is on: it refuses a driver module that nobody signed. */
  secure_boot: boolean;
  nvidia: NvidiaAnswer;
  /** Null where the tool did not say. */
  instances: MigInstance[] | null;
  /** Programs on GPUs that are not of Einsora. */
  foreign: GpuProgram[];
  log: KernelLog;
  containers: Containers;
  amd: AmdLook;
  /** Of the machine, as this process may use it. */
  memory_bytes: number;
  /** What was seen here before. */
  known: KnownGpu[];
};

/** What stays true of a GPU while its driver is away. */
export type KnownGpu = {
  pci: string | null;
  uuid: string;
  model: string;
  memory_bytes: number;
};
