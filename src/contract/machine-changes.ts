/**
 * What the people of a machine's owner ask of it, on the wire (ADR-0056).
 *
 * Invariants: what is left out stays as it is; names that are not known are refused.
 */
import { z } from '@hono/zod-openapi';
import { limits } from './limits.ts';
import { capsSchema, machineSchema, sharingSchema } from './machines.ts';

const slug = z.string().min(1).max(limits.slug_chars);
const slugs = z.array(slug).max(limits.machine_guests);

export const sharingChangeSchema = z
  .strictObject({
    sharing: sharingSchema.optional().openapi({
      description: 'Left out: as it is; inviting somebody to a private one makes it invite-only.',
    }),
    invite: slugs.optional(),
    uninvite: slugs.optional(),
  })
  .openapi('SharingChange');
export type SharingChange = z.infer<typeof sharingChangeSchema>;

export const machineGiftSchema = z.strictObject({ to: slug }).openapi('MachineGift');

export const drainSchema = z
  .strictObject({
    stop: z.boolean().optional().openapi({ description: 'Stop what runs there, too.' }),
  })
  .openapi('Drain');

export const machineNameSchema = z
  .strictObject({
    name: z
      .string()
      .max(limits.name_chars)
      .regex(/^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?$/, 'use letters, digits, dots, dashes')
      .refine((name) => !/^[0-9a-z]{26}$/.test(name), 'that looks like the id of a machine'),
  })
  .openapi('MachineName');

export const machineCapsSchema = capsSchema
  .partial()
  .strict()
  .openapi('MachineCaps', { description: 'The most that it may offer; null is no limit.' });

export const fenceSchema = z
  .strictObject({
    powered_off: z.literal(true),
    confirm: z.string().max(253).openapi({ description: "The machine's name, once more." }),
  })
  .openapi('Fence');

export const machineChangedSchema = z
  .object({
    /** Null where it is not there any more, for whoever asked. */
    machine: machineSchema.nullable(),
    /** How many workloads it stopped. */
    stopped: z.number(),
    /** How many workloads lost their disk by it. */
    forgotten: z.number(),
  })
  .openapi('MachineChanged');
export type MachineChanged = z.infer<typeof machineChangedSchema>;
