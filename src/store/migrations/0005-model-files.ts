/**
 * Which model files are kept on which machine.
 */
export const modelFiles = {
  version: 5,
  name: 'model-files',
  text: `
create table model_files (
  machine_id text not null references machines (id),
  id text not null,
  primary key (machine_id, id)
);
`,
} as const;
