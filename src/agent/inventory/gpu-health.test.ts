/** How a GPU is: each situation of its driver, its tool and its errors. */
import {
  at,
  cells,
  healthy,
  helpText,
  kernel,
  loaded,
  merge,
  nvidia,
  smi,
} from './fixture-gpus.ts';
import { passthrough, type Row, testRows } from './fixture-rows.ts';

const failing = (stdout: string, code: number) => smi({ whole: { stdout, code } });
const xid = (number: number, text = "pid='<unknown>', name=<unknown>, an error") =>
  `NVRM: Xid (PCI:0000:01:00): ${number}, ${text}`;
const no_recovery = cells({ gpu_recovery_action: '[N/A]' });
const off_bus = 'Unable to determine the device handle for GPU0000:01:00.0: Unknown Error\n';
const lone = (code: number, stdout: string) => ({
  whole: { code, stdout },
  alone: { [at]: { code, stdout } },
});

const rows: Row[] = [
  {
    when: 'all is well',
    machine: healthy(),
    ...{ state: 'ok', codes: passthrough, usable_by: ['docker'] },
    says: /could be given to a virtual machine/,
    fix: /driverctl set-override 0000:01:00.0 vfio-pci/,
  },
  {
    when: 'there is a card and no driver',
    machine: nvidia({ driver: null }),
    ...{ state: 'unsupported', codes: ['gpu_driver_missing'] },
    says: /^NVIDIA GPU 0x27b8 at 0000:01:00.0 has no driver\.$/,
    fix: /^sudo apt-get install -y nvidia-driver/,
  },
  {
    when: 'nouveau runs the card',
    machine: nvidia({ driver: 'nouveau' }),
    ...{ state: 'unsupported', codes: ['gpu_nouveau'] },
    says: /run by nouveau/,
    fix: /then reboot$/,
  },
  {
    when: 'the driver is installed and not loaded, with Secure Boot in its way',
    machine: merge(
      nvidia({ driver: null }),
      failing("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", 9),
      { commands: { mokutil: { stdout: 'SecureBoot enabled\n' } } },
    ),
    ...{ state: 'unsupported', codes: ['gpu_driver_not_loaded'] },
    says: /installed and not loaded \(Secure Boot is on/,
    fix: /modprobe nvidia .*dkms status/,
  },
  {
    when: 'the driver was updated under the running one',
    machine: merge(
      nvidia(),
      loaded,
      failing(
        'Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.95',
        18,
      ),
    ),
    ...{ state: 'needs_reboot', codes: ['gpu_driver_mismatch'] },
    says: /580\.82\.07 is loaded, its library is 580\.95\): what runs goes on, nothing new starts/,
    fix: /^sudo reboot$/,
  },
  {
    when: 'the library is not there (exit code 12)',
    machine: merge(nvidia(), loaded, failing('', 12)),
    ...{ state: 'unsupported', codes: ['gpu_tool_missing'] },
    says: /nvidia-smi or its library is missing/,
  },
  {
    when: 'this user may not open the devices (exit code 4)',
    machine: merge(nvidia(), loaded, failing('Insufficient Permissions', 4)),
    ...{ state: 'unsupported', codes: ['gpu_no_permission'] },
    says: /may not open the device files/,
    fix: /ls -l \/dev\/nvidia/,
  },
  {
    when: 'the tool hangs',
    machine: merge(nvidia(), loaded, smi({ whole: { outcome: 'timeout', code: null } })),
    ...{ state: 'unknown', codes: ['gpu_tool_silent'] },
    says: /did not answer within 10 s/,
  },
  {
    when: 'the tool says something new, with terminal escapes',
    machine: merge(nvidia(), loaded, smi(lone(77, '\u001b[31msome new trouble\u001b[0m\nmore'))),
    ...{ state: 'unknown', codes: ['gpu_tool_failed'] },
    says: /nvidia-smi says: some new trouble\.$/,
  },
  {
    when: 'the driver does not list the card',
    machine: merge(nvidia(), loaded, failing('No devices were found\n', 6)),
    ...{ state: 'unhealthy', codes: ['gpu_not_listed'] },
    says: /its driver does not list it/,
  },
  {
    when: 'it fell off the bus (exit code 15)',
    machine: merge(nvidia(), loaded, smi(lone(15, off_bus))),
    ...{ state: 'missing', codes: ['gpu_lost'] },
    says: /has fallen off the bus\.$/,
    fix: /^sudo reboot$/,
  },
  {
    when: 'it fell off the bus with Xid 79, and the tool hangs over it',
    machine: merge(
      nvidia(),
      loaded,
      kernel(xid(79)),
      smi({ whole: { outcome: 'timeout', code: null } }),
    ),
    ...{ state: 'missing', codes: ['gpu_lost'] },
    says: /has fallen off the bus \(Xid 79\)/,
  },
  {
    when: 'it fell off the bus without any Xid, over three lines',
    machine: merge(
      nvidia(),
      loaded,
      kernel(
        'NVRM: The NVIDIA GPU 0000:01:00.0',
        'NVRM: (PCI ID: 10de:27b8) installed in this system has',
        'NVRM: fallen off the bus and is not responding to commands.',
      ),
      smi(lone(255, 'Failed to query')),
    ),
    ...{ state: 'missing', codes: ['gpu_lost'] },
    says: /has fallen off the bus\./,
  },
  {
    when: 'the power cable is off (exit code 8)',
    machine: merge(nvidia(), loaded, smi(lone(8, ''))),
    ...{ state: 'unhealthy', codes: ['gpu_power_cable'] },
    says: /lacks power/,
  },
  {
    when: 'the infoROM is corrupt (exit code 14): a warning, the rest is told',
    machine: merge(healthy(), {
      commands: {
        'nvidia-smi': (args) =>
          args[0]?.startsWith('--query-gpu')
            ? {
                code: 14,
                stdout: Object.values(cells()).join(', '),
                stderr: 'WARNING: infoROM is corrupted at gpu 0000:01:00.0\n',
              }
            : args[0] === '--help-query-gpu'
              ? { stdout: helpText(Object.keys(cells())) }
              : {},
      },
    }),
    ...{ state: 'ok', codes: ['gpu_inforom', ...passthrough], usable_by: ['docker'] },
    says: /infoROM .* is damaged/,
  },
  {
    when: 'a value answers with an error',
    machine: healthy({ rows: [cells({ 'memory.total': '[Unknown Error]' })] }),
    ...{ state: 'unhealthy', codes: ['gpu_not_answering'] },
    says: /answers with errors \(memory.total \[Unknown Error\]\)/,
    fix: /nvidia-smi --gpu-reset -i 0000:01:00.0/,
  },
  {
    when: 'a value says that the GPU is lost',
    machine: healthy({ rows: [cells({ 'memory.total': '[GPU is lost]' })] }),
    ...{ state: 'missing', codes: ['gpu_lost'] },
    says: /fallen off/,
  },
  ...[48, 63, 94, 95].map((number) => ({
    when: `Xid ${number} came, and the driver does not tell what it wants`,
    machine: merge(healthy({ rows: [no_recovery] }), kernel(xid(number))),
    ...{ state: 'degraded', codes: ['gpu_memory_error'] },
    says: new RegExp(`memory errors \\(Xid ${number}\\); nothing new starts`),
    fix: /gpu-reset/,
  })),
  {
    when: 'Xid 48 came, and the driver says that nothing is wanted: that is proof',
    machine: merge(healthy(), kernel(xid(48))),
    ...{ state: 'ok', codes: passthrough, usable_by: ['docker'] },
    says: /./,
  },
  {
    when: 'rows wait to be remapped',
    machine: healthy({ rows: [cells({ 'remapped_rows.pending': '1' })] }),
    ...{ state: 'degraded', codes: ['gpu_memory_error'] },
    says: /rows are to be remapped/,
  },
  {
    when: 'pages wait to be retired',
    machine: healthy({ rows: [cells({ 'retired_pages.pending': 'Yes' })] }),
    ...{ state: 'degraded', codes: ['gpu_memory_error'] },
    says: /pages are to be retired/,
  },
  {
    when: 'Xid 64 came twice',
    machine: merge(healthy(), kernel(xid(64), xid(64))),
    ...{ state: 'unhealthy', codes: ['gpu_memory_failing'] },
    says: /should be replaced/,
  },
  {
    when: 'a row could not be remapped',
    machine: healthy({ rows: [cells({ 'remapped_rows.failure': '1' })] }),
    ...{ state: 'unhealthy', codes: ['gpu_memory_failing'] },
    says: /could not be remapped/,
  },
  ...[13, 31, 43, 45, 68, 109].map((number) => ({
    when: `Xid ${number}: a program's own error`,
    machine: merge(healthy({ rows: [no_recovery] }), kernel(xid(number))),
    ...{ state: 'ok', codes: passthrough, usable_by: ['docker'] },
    says: /./,
  })),
  {
    when: 'Xid 119: its firmware hangs while the counters read 0',
    machine: merge(healthy({ rows: [no_recovery] }), kernel(xid(119, 'Timeout after 6s'))),
    ...{ state: 'unhealthy', codes: ['gpu_firmware_stuck'] },
    says: /firmware .* \(Xid 119\)/,
  },
  {
    when: 'Xid 154 asks for a reboot',
    machine: merge(
      healthy({ rows: [no_recovery] }),
      kernel(xid(154, 'GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)')),
    ),
    ...{ state: 'needs_reboot', codes: ['gpu_reboot_needed'] },
    says: /asks for a reboot/,
  },
  {
    when: 'the driver wants a reset',
    machine: healthy({ rows: [cells({ gpu_recovery_action: 'Drain and Reset' })] }),
    ...{ state: 'degraded', codes: ['gpu_reset_needed'] },
    says: /asks to be reset/,
  },
  {
    when: 'the driver was loaded anew since the Xid',
    machine: merge(
      healthy({ rows: [no_recovery] }),
      kernel(xid(95), 'NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.82.07'),
    ),
    ...{ state: 'ok', codes: passthrough, usable_by: ['docker'] },
    says: /./,
  },
];

testRows(rows);
