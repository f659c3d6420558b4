/** Who uses a GPU, and what keeps containers and virtual machines from it. */
import {
  at,
  card,
  cdiSpec,
  cells,
  engine,
  healthy,
  kernel,
  loaded,
  merge,
  nvidia,
  other_uuid,
  smi,
  toolkit,
  uuid,
} from './fixture-gpus.ts';
import { passthrough, type Row, testRows } from './fixture-rows.ts';

const rows: Row[] = [
  {
    when: 'MIG is on, without instances',
    machine: healthy({ rows: [cells({ 'mig.mode.current': 'Enabled' })] }),
    ...{ state: 'unsupported', codes: ['gpu_mig_empty'] },
    says: /no instances/,
    fix: /nvidia-smi mig -cgi/,
  },
  {
    when: "programs of the machine's owner compute on it",
    machine: healthy({
      programs: `${uuid}, 4242, /usr/bin/python3\n${uuid}, 4243, ./blender\n${uuid}, 9, [Not Found]\n`,
    }),
    ...{ state: 'busy_owner', codes: ['gpu_busy'] },
    says: /programs that are not of Einsora: a program, blender, python3\./,
  },
  {
    when: 'it drives a display',
    machine: healthy({ rows: [cells({ display_active: 'Enabled' })] }),
    ...{ state: 'ok', codes: ['gpu_display', ...passthrough], usable_by: ['docker'] },
    says: /drives a display \(active\): 2 GiB of its memory are kept/,
  },
  {
    when: 'it drives a display that sleeps',
    machine: healthy({ rows: [cells({ display_attached: 'Yes' })] }),
    ...{ state: 'ok', codes: ['gpu_display', ...passthrough], usable_by: ['docker'] },
    says: /drives a display \(attached\)/,
  },
  {
    when: 'the kernel sees a screen on it',
    machine: merge(healthy(), {
      files: { '/sys/class/drm/card1-HDMI-A-1/status': 'connected\n' },
      links: { '/sys/class/drm/card1/device': '../../../0000:01:00.0' },
    }),
    ...{ state: 'ok', codes: ['gpu_display'], usable_by: ['docker'] },
    says: /drives a display \(HDMI-A-1\)/,
  },
  {
    when: 'a headless server unloads its driver between uses',
    machine: healthy({ rows: [cells({ persistence_mode: 'Disabled' })] }),
    ...{ state: 'ok', codes: ['gpu_persistence_off', ...passthrough], usable_by: ['docker'] },
    says: /unloads it between uses/,
    fix: /nvidia-smi -pm 1/,
  },
  {
    when: 'there is no engine',
    machine: healthy(),
    docker: null,
    ...{ state: 'ok', codes: ['gpu_engine_missing', ...passthrough], usable_by: [] },
    says: /No Docker Engine/,
  },
  {
    when: 'the engine is too old for CDI',
    machine: healthy(),
    docker: engine({ api: '1.43' }),
    ...{ state: 'ok', codes: ['gpu_engine_old', ...passthrough], usable_by: [] },
    says: /speaks API 1\.43/,
  },
  {
    when: 'the engine is the snap',
    machine: healthy(),
    docker: engine({ info: { DockerRootDir: '/var/snap/docker/common/var-lib-docker' } }),
    ...{ state: 'ok', codes: ['gpu_engine_snap', ...passthrough], usable_by: [] },
    says: /is the snap/,
    fix: /snap remove docker, then: sudo apt-get install -y docker.io/,
  },
  {
    when: 'the toolkit is missing',
    machine: merge(nvidia(), loaded, smi(), kernel()),
    ...{ state: 'ok', codes: ['gpu_toolkit_missing', ...passthrough], usable_by: [] },
    says: /container toolkit is missing/,
    fix: /apt-get install -y nvidia-container-toolkit/,
  },
  {
    when: 'the toolkit lets containers out',
    machine: merge(healthy(), toolkit([uuid], { version: '1.17.4' })),
    ...{ state: 'ok', codes: ['gpu_toolkit_old', ...passthrough], usable_by: ['docker'] },
    says: /1\.17\.4 lets containers out .* below 1\.17\.8, .* owner alone/,
  },
  {
    when: 'CDI is switched off',
    machine: healthy(),
    docker: engine({ info: { CDISpecDirs: [] } }),
    ...{ state: 'ok', codes: ['gpu_cdi_off', ...passthrough], usable_by: [] },
    says: /CDI switched off/,
    fix: /"cdi": true/,
  },
  {
    when: 'there is a toolkit and no specification',
    machine: merge(nvidia(), loaded, smi(), kernel(), {
      commands: { 'nvidia-ctk': { stdout: 'NVIDIA Container Toolkit CLI version 1.18.0' } },
    }),
    ...{ state: 'ok', codes: ['gpu_cdi_missing', ...passthrough], usable_by: [] },
    says: /No CDI specification/,
    fix: /^sudo nvidia-ctk cdi generate --output=\/etc\/cdi\/nvidia.yaml$/,
  },
  {
    when: 'the specification is of the driver before',
    machine: merge(healthy(), toolkit([uuid], { driver: '575.64.03' })),
    ...{ state: 'ok', codes: ['gpu_cdi_stale', ...passthrough], usable_by: [] },
    says: /is for driver 575\.64\.03; .* runs with 580\.82\.07/,
  },
  {
    when: 'the specification lies in /var/run and does not name the GPU',
    machine: merge(nvidia(), loaded, smi(), kernel(), {
      files: { '/var/run/cdi/nvidia.yaml': cdiSpec(['0', 'all', other_uuid]) },
    }),
    ...{ state: 'ok', codes: ['gpu_cdi_unlisted', ...passthrough], usable_by: [] },
    says: /\/var\/run\/cdi\/nvidia.yaml does not name GPU-5d5ba0d6/,
  },
  {
    when: 'the engine itself tells its devices, and this is none',
    machine: healthy(),
    docker: engine({ info: { DiscoveredDevices: [{ Source: 'cdi', ID: 'nvidia.com/gpu=0' }] } }),
    ...{ state: 'ok', codes: ['gpu_cdi_unlisted', ...passthrough], usable_by: [] },
    says: /does not name/,
  },
  {
    when: 'it is set aside for virtual machines, and alone in its group',
    machine: nvidia({ driver: 'vfio-pci' }),
    ...{ state: 'ok', codes: ['gpu_set_aside'], usable_by: ['libvirt'] },
    says: /set aside for virtual machines/,
    fix: /driverctl unset-override 0000:01:00.0/,
  },
  {
    when: 'no IOMMU is on',
    machine: nvidia({ driver: 'vfio-pci', group: null }),
    ...{ state: 'ok', codes: ['gpu_set_aside', 'gpu_iommu_off'], usable_by: [] },
    says: /set aside/,
  },
  {
    when: 'it shares its group with a disk',
    machine: merge(
      nvidia({
        driver: 'vfio-pci',
        files: {
          '/sys/bus/pci/devices/0000:02:00.0/class': '0x010802\n',
          '/sys/kernel/iommu_groups/12/devices/0000:02:00.0': '',
          '/sys/bus/pci/devices/0000:00:01.0/class': '0x060400\n',
          '/sys/kernel/iommu_groups/12/devices/0000:00:01.0': '',
        },
      }),
      { links: { '/sys/bus/pci/devices/0000:02:00.0/driver': '../../bus/pci/drivers/nvme' } },
    ),
    ...{ state: 'ok', codes: ['gpu_set_aside', 'gpu_group_shared'], usable_by: [] },
    says: /set aside/,
  },
  {
    when: 'the machine boots on it, and it cannot be reset',
    machine: nvidia({ driver: 'vfio-pci', boot: true, reset: null }),
    ...{ state: 'ok', codes: ['gpu_set_aside', 'gpu_boot_display', 'gpu_no_reset'], usable_by: [] },
    says: /set aside/,
  },
  {
    when: 'it is an AMD GPU with its compute driver',
    machine: merge(
      card('0x1002', {
        driver: 'amdgpu',
        files: { [`/sys/bus/pci/devices/${at}/mem_info_vram_total`]: '25753026560\n' },
      }),
      {
        devices: { '/dev/kfd': 'opens' },
        commands: {
          'amd-smi': {
            stdout: JSON.stringify([
              { gpu: 0, asic: { market_name: 'AMD Radeon RX 7900 XTX' }, bus: { bdf: at } },
            ]),
          },
        },
      },
    ),
    ...{ state: 'unsupported', codes: ['gpu_amd_unsupported'] },
    says: /AMD Radeon RX 7900 XTX at 0000:01:00.0 is an AMD GPU, for which nothing here runs yet/,
  },
  {
    when: 'it is an AMD GPU without /dev/kfd',
    machine: card('0x1002', { driver: null }),
    ...{ state: 'unsupported', codes: ['gpu_amd_driver_missing'] },
    says: /without its compute driver/,
    fix: /modprobe amdgpu/,
  },
];

testRows(rows);
