/**
 * The images that come with Einsora: what a notebook, an instance or an engine in a container runs
 * in, and how an image is run on each kind of accelerator. An operator may add others and replace
 * these (catalog.ts): whoever asks says of which set.
 *
 * Invariants: names are stable, they stand in people's scripts; the first runtime that a machine
 * can run is taken; a reference below `localhost/` is built from deploy/images and never asked of
 * a registry; anything that is no name of the catalog has to look like a registry's reference.
 */
import type { DriverName } from './trust.ts';
import type { Kind } from './workload.ts';

/** How a driver runs things: as programs of the host, in containers, or as virtual machines. */
export type RunForm = 'native' | 'container' | 'machine';

export type ImageRuntime = {
  accelerator: 'cpu' | 'nvidia' | 'apple';
  form: RunForm;
  /** What a container engine is asked for; null for the host's own programs. */
  reference: string | null;
  /** Empty: what the image itself begins with. */
  command: readonly string[];
  /** The user of the run, who owns its workspace. */
  uid: number;
  gid: number;
  /** Ports that it opens as Unix sockets, and those that it can only open as TCP. */
  ports: readonly string[];
  tcp_ports: Readonly<Record<string, number>>;
  /** Where the workspace stands; null for none. */
  workspace: string | null;
  /** Of an endpoint: which engine is in it; left out: llama.cpp's server. */
  engine?: 'vllm';
};

export type ImageEntry = {
  name: string;
  title: string;
  kinds: readonly Kind[];
  /** Best first. */
  runtimes: readonly ImageRuntime[];
};

export const workspace_target = '/workspace';

const person = { uid: 1000, gid: 1000, workspace: workspace_target } as const;
const root = { uid: 0, gid: 0, workspace: workspace_target } as const;
const engine = { uid: 1000, gid: 1000, workspace: null } as const;
/** What keeps an image alive that would only begin a shell. */
const stay = ['sleep', 'infinity'] as const;

export const images: readonly ImageEntry[] = [
  {
    name: 'jupyter',
    title: 'JupyterLab with a Python kernel',
    kinds: ['notebook'],
    runtimes: [
      { ...onCpu('native', null), ...person, ports: ['web'] },
      { ...on('apple', 'native', null), ...person, ports: ['web'] },
      { ...onCpu('container', 'localhost/einsora/jupyter:1'), ...person, ports: ['web'] },
      {
        ...on('nvidia', 'container', 'localhost/einsora/jupyter:1'),
        ...{ ...person, ports: ['web'] },
      },
    ],
  },
  {
    name: 'debian',
    title: 'Debian 12',
    kinds: ['instance'],
    runtimes: [
      { ...onCpu('container', 'docker.io/library/debian:12'), ...root, command: stay },
      { ...on('nvidia', 'container', 'docker.io/library/debian:12'), ...root, command: stay },
    ],
  },
  {
    name: 'python',
    title: 'Python 3.12 on Debian',
    kinds: ['instance'],
    runtimes: [
      { ...onCpu('container', 'docker.io/library/python:3.12-slim'), ...root, command: stay },
      {
        ...on('nvidia', 'container', 'docker.io/library/python:3.12-slim'),
        ...root,
        command: stay,
      },
    ],
  },
  {
    name: 'llama-cpp',
    title: "llama.cpp's server in a container, on the CPU",
    kinds: ['endpoint'],
    runtimes: [
      { ...onCpu('container', 'localhost/einsora/llama-cpp:1'), ...engine, ports: ['api'] },
    ],
  },
  {
    name: 'llama-cpp-cuda',
    title: "llama.cpp's server, on NVIDIA GPUs",
    kinds: ['endpoint'],
    runtimes: [
      {
        ...on('nvidia', 'container', 'ghcr.io/ggml-org/llama.cpp:server-cuda'),
        // Its publisher keeps it off the PATH.
        ...{ ...engine, ports: ['api'], command: ['/app/llama-server'] },
      },
    ],
  },
  {
    name: 'einsora-vllm',
    title: 'vLLM, on NVIDIA GPUs',
    kinds: ['endpoint'],
    runtimes: [
      {
        ...on('nvidia', 'container', 'localhost/einsora/vllm:1'),
        ...{ ...engine, ports: ['api'], engine: 'vllm' },
      },
    ],
  },
];

/** All images of a deployment, with what is worked out from them once. */
export type ImageSet = {
  entries: readonly ImageEntry[];
  /** What an endpoint that names no image may run by, best first. */
  engines: readonly ImageRuntime[];
  /** Those that an operator wrote: a machine knows nothing of them but what its runs carry. */
  own: ReadonlySet<string>;
};

/** An endpoint that names no image: the engines that come with Einsora, in a container last. */
export function imageSet(entries: readonly ImageEntry[], own: ReadonlySet<string>): ImageSet {
  const runtimes = (name: string) => entries.find((one) => one.name === name)?.runtimes ?? [];
  const engines = [
    { ...onCpu('native', null), ...engine, ports: ['api'] },
    { ...on('apple', 'native', null), ...engine, ports: ['api'] },
    ...['llama-cpp', 'llama-cpp-cuda'].flatMap(runtimes),
  ];
  return { entries, engines, own };
}

export const builtin_images: ImageSet = imageSet(images, new Set());

/** What a kind runs in where nobody said. Endpoints take the engine that suits their model. */
export function defaultImage(kind: Kind): string | null {
  if (kind === 'notebook') return 'jupyter';
  return kind === 'instance' ? 'debian' : null;
}

export function findImage(name: string, { entries } = builtin_images): ImageEntry | null {
  return entries.find((entry) => entry.name === name) ?? null;
}

/**
 * `quay.io/jupyter/scipy-notebook@sha256:…`, `debian:13`, `someone/image`: with a slash, a tag or a
 * digest, so that a slip in a catalog name is not taken for an image of somebody else.
 */
export function isImageReference(text: string): boolean {
  return text.length <= 255 && /[/:@]/.test(text) && reference.test(text);
}

const part = '[a-z0-9]+(?:(?:\\.|_{1,2}|-+)[a-z0-9]+)*';
const host =
  '(?:localhost|[a-zA-Z0-9-]+(?:\\.[a-zA-Z0-9-]+)+|[a-zA-Z0-9-]+(?=:\\d))(?::\\d{1,5})?/';
const reference = new RegExp(
  `^(?:${host})?${part}(?:/${part})*(?::\\w[\\w.-]{0,127})?(?:@sha256:[0-9a-f]{64})?$`,
);

/**
 * The runtimes of an image for a kind, best first: of the catalog, or of any registry's image, for
 * notebooks and instances. Empty where there is none.
 */
export function runtimesOf(
  kind: Kind,
  image_id: string | null,
  images = builtin_images,
): readonly ImageRuntime[] {
  const name = image_id ?? defaultImage(kind);
  if (name === null) return kind === 'vm' ? machine_runtimes : images.engines;
  const entry = findImage(name, images);
  if (entry !== null) return entry.kinds.includes(kind) ? entry.runtimes : [];
  if (!isImageReference(name)) return [];
  const given = { ...onCpu('container', name), ...root };
  if (kind === 'notebook') return [{ ...given, ...person, ports: ['web'] }];
  return kind === 'instance' ? [given] : [];
}

/** Whether a driver runs things that way; sim only pretends, so it does. */
export function runsForm(driver: DriverName, form: RunForm): boolean {
  return driver === 'sim' || formOf[driver] === form;
}

/** The runtime that a driver would use, or null. */
export function runtimeFor(
  kind: Kind,
  image_id: string | null,
  driver: DriverName,
  accelerator: ImageRuntime['accelerator'] | null = null,
): ImageRuntime | null {
  const fits = (one: ImageRuntime) =>
    runsForm(driver, one.form) && (accelerator === null || one.accelerator === accelerator);
  return runtimesOf(kind, image_id).find(fits) ?? null;
}

const formOf: Readonly<Record<DriverName, RunForm>> = {
  sim: 'native',
  'linux-native': 'native',
  'macos-native': 'native',
  docker: 'container',
  'macos-container': 'container',
  libvirt: 'machine',
  'macos-vz': 'machine',
};

/** A web page of the workload's own: at which port, and how its program knows the proxy. */
export type Site = { port: 'web'; auth: 'token' };

/** The web page that workloads of a kind have; null for none. */
export function siteOf(kind: Kind): Site | null {
  return kind === 'notebook' ? { port: 'web', auth: 'token' } : null;
}

/** Whether its programs are told how to call the endpoints of who made it. */
export function callsGateway(kind: Kind): boolean {
  return kind === 'notebook';
}

/**
 * Whether its owner may run programs beside it and see its files. An endpoint answers requests and
 * nothing more: on a machine of somebody else that is the promise (managed inference).
 */
export function hasShell(kind: Kind): boolean {
  return kind !== 'endpoint';
}

function onCpu(form: RunForm, reference: string | null): ImageRuntime {
  return on('cpu', form, reference);
}

function on(
  accelerator: ImageRuntime['accelerator'],
  form: RunForm,
  reference: string | null,
): ImageRuntime {
  const nothing = { command: [], ports: [], tcp_ports: {} };
  return { accelerator, form, reference, ...nothing, ...root };
}

const machine_runtimes = (['cpu', 'nvidia', 'apple'] as const).map((accelerator) =>
  on(accelerator, 'machine', null),
);
