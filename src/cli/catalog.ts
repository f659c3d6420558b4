/**
 * `einsora catalog`: the models and images that come with Einsora, and the classes to ask for.
 */
import type { Catalog } from '../contract/machines.ts';
import { formatBytes, formatMemory } from '../core/format.ts';
import { openClient } from './client.ts';
import { exitCode } from './exit-codes.ts';
import type { Context } from './io.ts';
import { printData, printJson, printTable } from './output.ts';

export type CatalogOptions = { json?: boolean };

export async function catalog(context: Context, options: CatalogOptions): Promise<number> {
  const found = await openClient(context).catalog();
  if (options.json) {
    printJson(context, found);
    return exitCode('ok');
  }
  const model_headings = ['MODEL', 'SIZE', 'PARAMETERS', 'CONTEXT', 'FITS', 'LICENCE', 'TITLE'];
  printTable(context, model_headings, found.models.map(modelRow));
  printData(context, '');
  const image_headings = ['IMAGE', 'FOR', 'RUNS ON', 'AS', 'READY ON', 'TITLE'];
  printTable(context, image_headings, found.images.map(imageRow));
  printData(context, '');
  const class_headings = [
    ...['CLASS', 'ACCELERATOR', 'GPU', 'DELIVERY', 'CPU', 'MEMORY', 'OFFERED BY'],
  ];
  printTable(context, class_headings, found.classes.map(classRow));
  return exitCode('ok');
}

function modelRow(model: Catalog['models'][number]): string[] {
  return [
    model.name,
    formatBytes(model.file_bytes),
    `${model.parameters} ${model.quantization}`,
    String(model.context_length),
    model.smallest_class ?? 'no class here',
    model.licence,
    model.title,
  ];
}

function imageRow(image: Catalog['images'][number]): string[] {
  const each = (name: 'accelerator' | 'form') => [
    ...new Set(image.runtimes.map((runtime) => runtime[name])),
  ];
  return [
    image.name,
    image.kinds.join(', '),
    each('accelerator').join(', '),
    each('form').join(', '),
    image.machines.length === 0 ? 'no machine' : image.machines.join(', '),
    image.title,
  ];
}

/** `l40s, 48 GiB`; `any` where every GPU of its kind will do; a dash without one. */
function gpuText({ accelerator, gpu_model, gpu_memory_bytes }: Catalog['classes'][number]): string {
  const memory = gpu_memory_bytes === 0 ? [] : [formatMemory(gpu_memory_bytes)];
  const parts = [...(gpu_model === null ? [] : [gpu_model]), ...memory];
  if (parts.length > 0) return parts.join(', ');
  return accelerator === 'nvidia' ? 'any' : '';
}

function classRow(entry: Catalog['classes'][number]): string[] {
  return [
    entry.name,
    entry.accelerator,
    gpuText(entry),
    entry.delivery,
    String(entry.cpu_millis / 1000),
    formatMemory(entry.memory_bytes),
    entry.machines.length === 0 ? 'no machine' : entry.machines.join(', '),
  ];
}
